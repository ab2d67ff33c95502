"""Streams: the lists that are being sent in several chunks, counted and served in turn."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

from supervisors.counts import decrement
from supervisors.fair_slots import FairSlots, QueueFull
from web.errors import TooManyRequests, Unavailable

RETRY_SECONDS = 5
WAIT_SECONDS = 30.0  # for a turn
# Chunks that are read at a time, fewer than there are connections to the database. One organization gets two:
# one chunk is read from the database while another one is turned into JSON.
TURNS = 4
MAX_WAITING = 256  # chunks of one organization


class Streams:
    """The streams of one process: at most so many for a caller and for an organization at a time.

    The chunks of all lists are read by organization in turn, so that the many lists of one organization
    delay the lists of others little.
    """

    def __init__(self, per_caller: int, per_organization: int, turns: int = TURNS) -> None:
        self._per_caller = per_caller
        self._per_organization = per_organization
        self._by_caller: Counter[UUID] = Counter()
        self._by_organization: Counter[UUID] = Counter()
        self._turns = FairSlots(turns, MAX_WAITING)

    def in_use(self, organization_id: UUID) -> int:
        """Return the number of the organization's streams."""
        return self._by_organization[organization_id]

    @contextmanager
    def open(self, caller: UUID, organization_id: UUID) -> Iterator[None]:
        """Count a stream. Raise TooManyRequests if the caller or the organization has too many."""
        counts = ((self._by_caller, caller), (self._by_organization, organization_id))
        self._require_room(caller, organization_id)
        for counter, key in counts:
            counter[key] += 1
        try:
            yield
        finally:
            for counter, key in counts:
                decrement(counter, key)

    @asynccontextmanager
    async def turn(self, organization_id: UUID) -> AsyncIterator[None]:
        """Wait for a turn to read a chunk, and keep it for the block. Raise Unavailable if none comes."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._turns.take(organization_id)
        except (TimeoutError, QueueFull):
            raise Unavailable("Too many lists are being read.", RETRY_SECONDS) from None
        try:
            yield
        finally:
            self._turns.release(organization_id)

    def _require_room(self, caller: UUID, organization_id: UUID) -> None:
        if self._by_caller[caller] >= self._per_caller:
            limit, owner, maximum = "limits.streams_per_caller", "caller", self._per_caller
        elif self._by_organization[organization_id] >= self._per_organization:
            limit, owner, maximum = "limits.streams", "organization", self._per_organization
        else:
            return
        detail = f"{limit}: at most {maximum} long lists are sent to one {owner} at a time; try again later."
        raise TooManyRequests(detail, RETRY_SECONDS)
