"""Limits on what one organization may store, without counter rows and without a count for each request.

Each node keeps an upper bound of what an organization stores: the last exact count plus what the nodes may
have inserted since, if each inserts as much as this one. The rows are counted again only when the bound
reaches the limit, so an insert usually costs an addition. Deletions, what other programs write, and what
other nodes really inserted, are seen at the next count.
"""

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from storage.errors import DatabaseUnavailable, LimitReached, NoAnswer
from storage.model import Agent, Template
from storage.postgres.pool import Pool

# Deleted agents do not count. Here, and in all others with a $2, at most $2 rows are counted.
COUNT_AGENTS = """
SELECT count(*) FROM (
    SELECT FROM agent WHERE organization_id = $1 AND deleted_at IS NULL LIMIT $2) a
"""

# By agent, along the index on uncleared notifications: an index by organization would cost every insert.
# OFFSET 0 keeps the planner from reading the whole table instead.
COUNT_WAITING = """
SELECT count(*) FROM (
    SELECT FROM agent a
    CROSS JOIN LATERAL (SELECT FROM notification n WHERE n.agent_id = a.id AND NOT n.cleared OFFSET 0) n
    WHERE a.organization_id = $1 AND a.deleted_at IS NULL LIMIT $2) w
"""

# Each version of a document, each earlier version of a prompt, and each attachment counts 1 KiB beyond its
# content, so that empty ones cannot be stored without end. octet_length does not decompress.
COUNT_DOCUMENT_BYTES = """
SELECT coalesce(sum(bytes), 0)::bigint FROM (
    SELECT 1024 + octet_length(title) + octet_length(content) AS bytes
    FROM document WHERE organization_id = $1
    UNION ALL
    SELECT 1024 + octet_length(title) + octet_length(content)
    FROM document_version WHERE organization_id = $1
    UNION ALL
    SELECT 1024 + octet_length(v.text)
    FROM agent a JOIN prompt_version v ON v.owner_id = a.id WHERE a.organization_id = $1
    UNION ALL
    SELECT 1024 + octet_length(v.text)
    FROM template t JOIN prompt_version v ON v.owner_id = t.id WHERE t.organization_id = $1
    UNION ALL
    SELECT 1024 + size FROM attachment WHERE organization_id = $1
    UNION ALL
    SELECT 1024 + octet_length(content) FROM notification_payload WHERE organization_id = $1) AS stored
"""

COUNT_SECRETS = "SELECT count(*) FROM (SELECT FROM secret WHERE organization_id = $1 LIMIT $2) s"

COUNT_WEBHOOKS = """
SELECT count(*) FROM (
    SELECT FROM webhook WHERE organization_id = $1
    UNION ALL SELECT FROM hook WHERE organization_id = $1 LIMIT $2) w
"""

BYTES_OF_DOCUMENT = 1024
MIN_COUNTED_ROWS = 1_000_000  # how far they are counted, at least: a use beyond it and the limit is not exact
MIN_PAUSE_SECONDS = 1.0  # between two counts for one organization
PAUSE_FACTOR = 20  # a pause lasts this many times as long as the count before it
SHOWN_SECONDS = 3.0  # how old a shown count may be
MAX_WRITE_SECONDS = 60.0  # more than a write takes that goes on after its caller has gone
COUNTS_AT_ONCE = 2  # of all organizations, so that most connections stay free
MAX_ORGANIZATIONS = 50_000
KNOWN_SECONDS = 60.0  # how long a count is relied on while there are other nodes


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """The most that each organization may store; 0 for no limit."""

    agents: int = 0
    waiting_notifications: int = 0
    document_bytes: int = 0
    secrets: int = 0
    webhooks: int = 0


@dataclass(slots=True)
class _Use:
    """What is known of one organization. The first insert counts, because the bound begins at the limit."""

    bound: int
    pending: int = 0  # reserved and perhaps not stored yet, so a count may miss it
    abandoned: deque[tuple[float, int]] = field(default_factory=deque)  # of it: until when, and how much
    counted: int = 0
    is_known: bool = True  # false after a count that failed
    counts: int = 0
    counted_at: float = -math.inf
    count_seconds: float = 0.0
    shown_at: float = -math.inf
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def may_count(self, now: float, min_pause_seconds: float = 0.0) -> bool:
        """Return whether the pause after the last count is over; there is none after one that failed."""
        pause_seconds = max(min_pause_seconds, PAUSE_FACTOR * self.count_seconds)
        return not self.is_known or now >= self.counted_at + pause_seconds

    def may_count_to_show(self, now: float) -> bool:
        return now >= self.shown_at + SHOWN_SECONDS and self.may_count(now)


@dataclass(slots=True, eq=False)
class OrganizationLimit:
    """How much of one kind each organization may store; 0 for no limit.

    With one node the limit is never exceeded. With several, each may use an equal part of the room that it
    counted within the last minute, and at least one insert. So they may exceed the limit, by what others
    inserted between the count of one and its last insert. A refusal may come a moment too early: while other
    inserts of the organization are in flight or were given up, and until the next count after a deletion.
    """

    name: str
    limit: int
    count: Callable[[UUID], Awaitable[int]]
    monotonic: Callable[[], float]
    node_count: Callable[[], int]
    refused: int = 0
    _uses: OrderedDict[UUID, _Use] = field(default_factory=OrderedDict)

    def __repr__(self) -> str:
        return f"<OrganizationLimit {self.name}: {self.limit}, {len(self._uses)} organizations>"

    @asynccontextmanager
    async def reserved(self, organization_id: UUID | None, amount: int = 1) -> AsyncIterator[None]:
        """Reserve `amount` while the block stores it; without an organization nothing is reserved.

        Raise LimitReached, or DatabaseUnavailable if a count was needed and failed.
        """
        if not self.limit or organization_id is None or amount <= 0:
            yield
            return
        use, nodes = self._use_of(organization_id), self.node_count()
        if nodes > 1 and use.may_count(self.monotonic(), KNOWN_SECONDS):
            use.bound = self.limit
        if use.bound + amount > self.limit:
            await self._make_room(organization_id, use, amount)
        # What is refused after all stays in the bound, which may be too high until the next count.
        use.bound += amount * nodes
        use.pending += amount
        try:
            yield
        except (asyncio.CancelledError, NoAnswer):
            # The write may go on without its caller, and the next count would miss it.
            use.abandoned.append((self.monotonic() + MAX_WRITE_SECONDS, amount))
            raise
        except BaseException:
            use.pending -= amount
            raise
        use.pending -= amount

    async def in_use(self, organization_id: UUID) -> int:
        """Return what the organization stores, by a count that is a few seconds old and what came since."""
        use = self._use_of(organization_id)
        if use.may_count_to_show(self.monotonic()):
            counts_before = use.counts
            async with use.counting:
                self._require_success(use, counts_before)
                if use.may_count_to_show(self.monotonic()):
                    await self._count_again(organization_id, use)
                    use.shown_at = use.counted_at
        return min(use.bound, max(use.counted, self.limit)) if self.limit else use.counted

    async def _make_room(self, organization_id: UUID, use: _Use, amount: int) -> None:
        """Count again if the last count is not too recent. Raise LimitReached if there is no room."""
        counts_before = use.counts
        async with use.counting:
            self._require_success(use, counts_before)
            exceeds = use.bound + amount > self.limit
            may_be_full = self.node_count() == 1 or use.counted + amount > self.limit
            pause_seconds = MIN_PAUSE_SECONDS if may_be_full else 0.0  # else only this node's part was used
            if exceeds and use.may_count(self.monotonic(), pause_seconds):
                await self._count_again(organization_id, use)
                exceeds = use.bound + amount > self.limit
            if exceeds:
                self.refused += 1
                raise LimitReached(self.name, self.limit)

    async def _count_again(self, organization_id: UUID, use: _Use) -> None:
        began = self.monotonic()
        while use.abandoned and use.abandoned[0][0] <= began:
            use.pending -= use.abandoned.popleft()[1]
        bound_before, pending_before = use.bound, use.pending
        use.is_known = False
        try:
            counted = await self.count(organization_id)
            use.bound = counted + pending_before + (use.bound - bound_before)
            use.counted, use.is_known = counted, True
        finally:
            use.counts += 1
            use.counted_at = self.monotonic()
            use.count_seconds = use.counted_at - began

    def _require_success(self, use: _Use, counts_before: int) -> None:
        """Raise DatabaseUnavailable if a count failed meanwhile: who waited for it does not try again."""
        if use.counts != counts_before and not use.is_known:
            raise DatabaseUnavailable(f"what counts for the limit {self.name} could not be counted")

    def _use_of(self, organization_id: UUID) -> _Use:
        use = self._uses.get(organization_id)
        if use is None:
            if len(self._uses) >= MAX_ORGANIZATIONS:
                self._uses.popitem(last=False)
            use = self._uses[organization_id] = _Use(bound=self.limit)
        else:
            self._uses.move_to_end(organization_id)
        return use


class OrganizationLimits:
    """The limits on what organizations store, by kind. Two counts run at a time, of all organizations."""

    def __init__(
        self,
        pool: Pool,
        limits: StorageLimits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        node_count: Callable[[], int] = lambda: 1,
    ) -> None:
        limits = limits or StorageLimits()
        turns = asyncio.Semaphore(COUNTS_AT_ONCE)

        def limit(name: str, statement: str, *, is_of_rows: bool = True) -> OrganizationLimit:
            async def count(organization_id: UUID) -> int:
                parameters = [_rows_to_count(own.limit)] if is_of_rows else []
                async with turns:
                    counted: int = await pool.fetchval(statement, organization_id, *parameters)
                return counted

            own = OrganizationLimit(name, getattr(limits, name), count, monotonic, node_count)
            return own

        self.agents = limit("agents", COUNT_AGENTS)
        self.waiting_notifications = limit("waiting_notifications", COUNT_WAITING)
        self.document_bytes = limit("document_bytes", COUNT_DOCUMENT_BYTES, is_of_rows=False)
        self.secrets = limit("secrets", COUNT_SECRETS)
        self.webhooks = limit("webhooks", COUNT_WEBHOOKS)

    def adopt(self, limits: StorageLimits) -> None:
        """Change the limits. Each organization is counted again at its next insert."""
        for limit in self.all():
            limit.limit = getattr(limits, limit.name)
            limit._uses.clear()  # their bounds began at the old limit

    def prompt_reserved(
        self, owner: Agent | Template | None, changes: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[None]:
        """Return a context that reserves the system prompt which the changes of its owner replace.

        Raise the errors of `OrganizationLimit.reserved`.
        """
        if owner is None or changes.get("system_prompt", owner.system_prompt) == owner.system_prompt:
            return nullcontext()
        size = document_bytes("", owner.system_prompt)
        return self.document_bytes.reserved(owner.organization_id, size)

    def all(self) -> tuple[OrganizationLimit, ...]:
        return self.agents, self.waiting_notifications, self.document_bytes, self.secrets, self.webhooks

    def refused(self) -> dict[str, int]:
        """Return the number of refusals by the name of the limit."""
        return {limit.name: limit.refused for limit in self.all()}


def _rows_to_count(limit: int) -> int:
    return max(limit + 1, MIN_COUNTED_ROWS)


def document_bytes(title: str, content: str) -> int:
    """Return what a version of a document counts for the limit `document_bytes`."""
    return BYTES_OF_DOCUMENT + len(title.encode()) + len(content.encode())


def attachment_bytes(sizes: Iterable[int]) -> int:
    """Return what files of these sizes count for the limit `document_bytes`."""
    return sum(BYTES_OF_DOCUMENT + size for size in sizes)
