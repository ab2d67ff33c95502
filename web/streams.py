"""Streams: the lists that are being sent in several chunks, counted and served in turn."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

from web.errors import TooManyStreams, Unavailable

RETRY_SECONDS = 5
WAIT_SECONDS = 30.0  # for a turn
TURNS = 4  # chunks that are read at a time, fewer than there are connections to the database
TURNS_PER_ORGANIZATION = 2  # one chunk is read from the database while another one is turned into JSON


class Streams:
    """The streams of one process: at most so many for a caller and for an organization at a time.

    The chunks of all lists are read by organization in turn, so that the many lists of one organization
    delay the lists of others little.
    """

    def __init__(
        self,
        per_caller: int,
        per_organization: int,
        turns: int = TURNS,
        turns_per_organization: int = TURNS_PER_ORGANIZATION,
    ) -> None:
        self._per_caller = per_caller
        self._per_organization = per_organization
        self._by_caller: Counter[UUID] = Counter()
        self._by_organization: Counter[UUID] = Counter()
        self._free_turns = turns
        self._turns_per_organization = turns_per_organization
        self._turns_taken: Counter[UUID] = Counter()
        self._waiting: dict[UUID, deque[asyncio.Future[None]]] = {}  # in the order of their next turns

    def in_use(self, organization_id: UUID) -> int:
        """Return the number of the organization's streams."""
        return self._by_organization[organization_id]

    @contextmanager
    def open(self, caller: UUID, organization_id: UUID) -> Iterator[None]:
        """Count a stream. Raise TooManyStreams if the caller or the organization has too many."""
        counts = ((self._by_caller, caller), (self._by_organization, organization_id))
        self._require_room(caller, organization_id)
        for counter, key in counts:
            counter[key] += 1
        try:
            yield
        finally:
            for counter, key in counts:
                _decrement(counter, key)

    @asynccontextmanager
    async def turn(self, organization_id: UUID) -> AsyncIterator[None]:
        """Wait for a turn to read a chunk, and keep it for the block. Raise Unavailable if none comes."""
        if self._free_turns and organization_id not in self._waiting and self._may_take(organization_id):
            self._take(organization_id)
        else:
            await self._wait(organization_id)
        try:
            yield
        finally:
            self._release(organization_id)

    def _require_room(self, caller: UUID, organization_id: UUID) -> None:
        if self._by_caller[caller] >= self._per_caller:
            limit, owner, maximum = "limits.streams_per_caller", "caller", self._per_caller
        elif self._by_organization[organization_id] >= self._per_organization:
            limit, owner, maximum = "limits.streams", "organization", self._per_organization
        else:
            return
        detail = f"{limit}: at most {maximum} long lists are sent to one {owner} at a time; try again later."
        raise TooManyStreams(detail, RETRY_SECONDS)

    async def _wait(self, organization_id: UUID) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(organization_id, deque()).append(turn)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self._release(organization_id)
            if isinstance(error, TimeoutError):
                raise Unavailable("Too many lists are being read.", RETRY_SECONDS) from None
            raise

    def _may_take(self, organization_id: UUID) -> bool:
        return self._turns_taken[organization_id] < self._turns_per_organization

    def _take(self, organization_id: UUID) -> None:
        self._free_turns -= 1
        self._turns_taken[organization_id] += 1

    def _release(self, organization_id: UUID) -> None:
        """Free a turn for the organization that has waited longest, which then stands last in line."""
        self._free_turns += 1
        _decrement(self._turns_taken, organization_id)
        for waiting in filter(self._may_take, list(self._waiting)):
            queue = self._waiting.pop(waiting)
            turn = next((turn for turn in _drain(queue) if not turn.done()), None)  # its caller still waits
            if queue:
                self._waiting[waiting] = queue
            if turn is not None:
                self._take(waiting)
                turn.set_result(None)
                return


def _drain(queue: deque[asyncio.Future[None]]) -> Iterator[asyncio.Future[None]]:
    while queue:
        yield queue.popleft()


def _decrement(counter: Counter[UUID], key: UUID) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
