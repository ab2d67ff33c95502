"""The room for requests in flight: one fixed bound, shared by organization.

A request takes units of the room from its admission to its answer, and more of them for a long body or a long
list. If too few are left, it is refused before it has any effect. Reading much from the database and parsing
long bodies also wait for a turn, by organization.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from aiohttp import web

from supervisors.fair_slots import FairSlots, decrement
from web.errors import BUSY, BUSY_RETRY_SECONDS, Unavailable

UNITS = 1024
READ_UNITS = 1
WRITE_UNITS = 5  # so 204 writes wait for their commit, at most 102 of one organization
LIST_UNITS = 20  # more, while a list of several chunks or a file is sent: at most 16 of one organization
ACTION_UNITS = 80  # more, for an action on many agents: at most 4 of one organization
BYTES_OF_UNIT = 262_144  # more for each so many bytes of a long body: all of them together have 256 MiB
MAX_BODY_UNITS = 256  # of a body, however long the configuration lets it be: it must find room at all
SHORT_SHARE = 4  # a quarter of all units is for short requests alone: clients can make long ones last
READS_AT_ONCE = 6  # fewer than there are connections to the database
PARSES_AT_ONCE = 1  # several threads would hold up the event loop
TURN_SECONDS = 30.0  # how long a request waits for its turn


class RequestRoom:
    """The room of one process.

    An organization may have at most as many units as are left. So one alone gets half of them, and leaves
    some for the next one. For what is long it may have half as many, a third if it is alone, so that its
    short requests find room beside that; and what is long leaves a part to the short requests of all. An
    organization without a request in flight may always send one.
    """

    def __init__(self, units: int = UNITS, reads_at_once: int = READS_AT_ONCE) -> None:
        self.free = units
        self._kept_for_short = units // SHORT_SHARE
        self.taken: Counter[UUID] = Counter()
        # Wait for a turn to read much from the database, or to parse a long body, and keep it for the block.
        # Raise Unavailable if it does not come in time.
        self.reading = partial(_turn, FairSlots[UUID](reads_at_once))
        self.parsing = partial(_turn, FairSlots[UUID](PARSES_AT_ONCE))

    def __repr__(self) -> str:
        return f"<RequestRoom: {self.taken.total()} units taken, {self.free} left>"

    def enter(self, organization_id: UUID, units: int) -> "Place":
        """Return the place of a request. Raise Unavailable if there is no room for it."""
        if self.taken[organization_id]:
            self._require(self.taken[organization_id] + units <= self.free - units)
        self.free -= units
        self.taken[organization_id] += units
        return Place(self, organization_id, units)

    def enter_long(self, organization_id: UUID, units: int) -> "Place":
        """Return a place for what is long. Raise Unavailable if there is no room for it."""
        self._require(2 * (self.taken[organization_id] + units) <= self.free - units)
        self._require(self.free - units >= self._kept_for_short)
        self.free -= units
        self.taken[organization_id] += units
        return Place(self, organization_id, units)

    def _require(self, has_room: bool) -> None:
        if not has_room:
            raise Unavailable(BUSY, BUSY_RETRY_SECONDS)


@dataclass(slots=True)
class Place:
    """The place of one request in the room."""

    _room: RequestRoom
    _organization_id: UUID
    _units: int

    @contextmanager
    def more(self, units: int) -> Iterator[None]:
        """Hold further units for the block, which is long. Raise Unavailable if too few are left."""
        place = self._room.enter_long(self._organization_id, units)
        try:
            yield
        finally:
            place.leave()

    def parsing(self) -> AbstractAsyncContextManager[None]:
        """Wait for a turn to parse a long body, and keep it for the block. Raise Unavailable, too."""
        return self._room.parsing(self._organization_id)

    @contextmanager
    def waiting_for_client(self) -> Iterator[None]:
        """Give the units back for the block: its client alone decides how long it lasts.

        Raise Unavailable if there is no room for the request afterwards.
        """
        units = self._units
        self.leave()
        yield
        self._units = self._room.enter(self._organization_id, units)._units

    def leave(self) -> None:
        """Give the units back: the request is answered, or only waits for something to happen."""
        if self._units:
            self._room.free += self._units
            decrement(self._room.taken, self._organization_id, self._units)
            self._units = 0


PLACE = web.RequestKey("place", Place)


def body_units(size: int) -> int:
    """Return how many units a long body takes beside its request."""
    return min(MAX_BODY_UNITS, -(-size // BYTES_OF_UNIT))


@asynccontextmanager
async def _turn(slots: FairSlots[UUID], organization_id: UUID) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(TURN_SECONDS):
            await slots.take(organization_id)
    except TimeoutError:
        raise Unavailable(BUSY, BUSY_RETRY_SECONDS) from None
    try:
        yield
    finally:
        slots.release(organization_id)
