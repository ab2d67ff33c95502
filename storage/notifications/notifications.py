"""The queue that directs an agent's attention."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.errors import ConstraintError, RowLocked, StorageError
from storage.model import Notification, Priority, Receipt, Source
from storage.notifications.activation import activation
from storage.notifications.inserts import (
    INSERT,
    INSERT_WAITING,
    Arrival,
    NewNotification,
    by_agent,
    insert_parameters,
    refusal_of,
)
from storage.postgres.group_commit import GroupCommit
from storage.postgres.leadership import Sleep
from storage.postgres.paging import Page
from storage.postgres.pool import LIMIT_WAIT, Connection, Pool
from storage.postgres.query import Conditions
from storage.postgres.rows import from_row

GET = """
SELECT n.* FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL WHERE n.id = $1
"""

# A page of each organization, then the newest of them all: so each is read along its index.
# Of a join with the agents the planner expects so few rows that it would sort all there are for each page.
PAGE = """
SELECT n.* FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT n.* FROM notification n
    WHERE n.organization_id = o.id
      AND (SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = n.agent_id) /* and */
    ORDER BY n.created_at DESC, n.id DESC LIMIT $2::bigint + $3::bigint
) n
ORDER BY n.created_at DESC, n.id DESC LIMIT $2 OFFSET $3
"""

# The array by a subquery, whose length the planner does not ask: else it would plan the statement each time.
LIST_FOR_AGENTS = """
SELECT asked.ordinal, n.*
FROM unnest((SELECT $1::uuid[]), $2::integer[], $3::timestamptz[])
     WITH ORDINALITY AS asked (agent_id, most, now, ordinal)
JOIN agent a ON a.id = asked.agent_id AND a.deleted_at IS NULL
CROSS JOIN LATERAL (
    SELECT n.* FROM notification n
    WHERE n.agent_id = asked.agent_id AND (n.scheduled_for IS NULL OR n.scheduled_for <= asked.now) /* and */
    ORDER BY n.priority = 'high' DESC, n.created_at, n.id LIMIT asked.most
) n
ORDER BY asked.ordinal, n.priority = 'high' DESC, n.created_at, n.id
"""

LIST_UNCLEARED_FOR_AGENTS = LIST_FOR_AGENTS.replace("/* and */", "AND NOT n.cleared")

# The notification first, then agent_state: the order in which the triggers for other writers lock them, too.
LOCK = """
SELECT n.* FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL WHERE n.id = $1
FOR NO KEY UPDATE OF n
"""

UPDATE = """
UPDATE notification
SET title = $2, body = $3, priority = $4, scheduled_for = $5, cleared = $6, cleared_at = $7, activated_at = $8
WHERE id = $1
"""

MOVE_STATE = """
UPDATE agent_state
SET wake_seq = wake_seq + 1,
    next_due_at = CASE WHEN status = 'sleeping' AND queued_at IS NULL
                       THEN least(next_due_at, $2) ELSE next_due_at END
WHERE agent_id = $1
"""

# Locked in the order of their ids; what somebody else holds is passed over, and cleared once it is free.
CLEAR = """
WITH item AS MATERIALIZED (
    SELECT i.agent_id, i.id, i.now
    FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS i (agent_id, id, now)
    JOIN agent a ON a.id = i.agent_id AND a.deleted_at IS NULL
    JOIN notification n ON n.id = i.id AND n.agent_id = i.agent_id
), locked AS MATERIALIZED (
    SELECT n.id FROM notification n WHERE n.id IN (SELECT id FROM item)
    ORDER BY n.id FOR NO KEY UPDATE SKIP LOCKED
), gone AS (
    UPDATE notification n
    SET cleared = true, cleared_at = coalesce(n.cleared_at, item.now), activated_at = NULL
    FROM item JOIN locked USING (id) WHERE n.id = item.id
    RETURNING n.id, n.priority
)
SELECT item.agent_id, id, gone.priority FROM item LEFT JOIN gone USING (id)
"""

# Locked in the order of their ids, so that two who clear the same cannot wait for each other.
CLEAR_MANY = """
WITH waiting AS MATERIALIZED (
    SELECT n.id FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
    WHERE n.agent_id = $1 AND NOT n.cleared /* and */
    ORDER BY n.id FOR NO KEY UPDATE OF n
), gone AS (
    UPDATE notification n SET cleared = true, cleared_at = $2, activated_at = NULL
    FROM waiting WHERE n.id = waiting.id
    RETURNING n.priority
)
SELECT count(*) AS cleared, count(*) FILTER (WHERE priority = 'high') AS high FROM gone
"""

OWNERS = """
SELECT n.id, n.organization_id, n.agent_id
FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
WHERE n.id = ANY($1::uuid[])
"""

DELETE = """
DELETE FROM notification n USING agent a
WHERE n.id = $1 AND a.id = n.agent_id AND a.deleted_at IS NULL
RETURNING n.agent_id, n.activated_at
"""

HELD_SECONDS = 30.0  # an agent waits so long to clear what somebody else holds
HELD_POLL_SECONDS = 0.05

CHANGEABLE = frozenset({"title", "body", "priority", "scheduled_for", "cleared"})


@dataclass(frozen=True, slots=True)
class NotificationFilters:
    """Which notifications a list shows."""

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    cleared: bool | None = None
    priority: Priority | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class NotificationOwner:
    organization_id: UUID
    agent_id: UUID


class Notifications:
    """The table `notification`. A high one that becomes active moves `agent_state` in the same commit.

    `on_commit` is told which agents a commit concerns, right after it and even if the caller has gone;
    `on_clear`, where there is one, instead of it when nothing came, and something only went.
    """

    def __init__(
        self,
        pool: Pool,
        on_commit: Callable[[Sequence[UUID]], None],
        on_clear: Callable[[Sequence[UUID]], None] | None = None,
        sleep: Sleep | None = None,
    ) -> None:
        self._pool = pool
        self._on_commit = on_commit
        self._on_clear = on_clear or on_commit
        self.created = dict.fromkeys(Source, 0)  # by this process, and committed
        self._arrivals = GroupCommit("notifications", self._insert_many)
        self._late_arrivals = GroupCommit("notifications of busy agents", self._insert_waiting)
        self._clears = GroupCommit("clearings", self._clear_each, sleep=sleep)
        self._whole_queues = GroupCommit("queues", partial(self._list_each, LIST_FOR_AGENTS), sleep=sleep)
        self._queues = GroupCommit(
            "uncleared queues",
            partial(self._list_each, LIST_UNCLEARED_FOR_AGENTS),
            sleep=sleep,
        )

    async def close(self) -> None:
        for batch in (self._arrivals, self._late_arrivals, self._clears, self._whole_queues, self._queues):
            await batch.close()

    async def insert(
        self, notification: NewNotification, allowed: Collection[UUID], receipt: Receipt | None = None
    ) -> None:
        """Store it. Concurrent inserts share a commit.

        ReferenceMissing("agent") if there is no such agent, Forbidden if its organization is not `allowed`,
        AnsweredBefore if there is a receipt like this one.
        """
        arrival = Arrival(notification, allowed, receipt)
        refusal = await self._arrivals.add(arrival)
        if isinstance(refusal, RowLocked):
            refusal = await self._late_arrivals.add(arrival)
        if refusal is not None:
            raise refusal

    async def insert_within(
        self, connection: Connection, notification: NewNotification, allowed: Collection[UUID]
    ) -> None:
        """As `insert`, but in the caller's transaction, whose commit is to be followed by `tell`.

        It waits for the agent's state for as long as that transaction waits for locks.
        """
        arrival = Arrival(notification, allowed)
        (row,) = await connection.fetch(INSERT_WAITING, *insert_parameters([arrival]))
        refusal = refusal_of(arrival, row)
        if refusal is not None:
            raise refusal

    def tell(self, committed: Iterable[NewNotification]) -> None:
        """Count new ones that are committed, and tell of those that concern a supervisor."""
        concerned: dict[UUID, None] = {}
        for new in committed:
            self.created[new.source] += 1
            if new.priority is Priority.HIGH:
                concerned[new.agent_id] = None
        if concerned:
            self._on_commit(list(concerned))

    async def get(self, notification_id: UUID) -> Notification | None:
        row = await self._pool.fetchrow(GET, notification_id)
        return None if row is None else notification_of(row)

    async def page(self, filters: NotificationFilters, page: Page) -> list[Notification]:
        """Newest first, those scheduled for later among them."""
        conditions = Conditions(filters.organization_ids, page.limit, page.offset)
        if page.after is not None:
            conditions.add("(n.created_at, n.id) < ($, $)", *page.after)
        if filters.agent_id is not None:
            conditions.add("n.agent_id = $", filters.agent_id)
        if filters.cleared is not None:
            conditions.add("n.cleared = $", filters.cleared)
        if filters.priority is not None:
            conditions.add("n.priority = $", filters.priority)
        if filters.source is not None:
            conditions.add("n.source = $", filters.source)
        rows = await self._pool.fetch(conditions.into(PAGE), *conditions.parameters)
        return [notification_of(row) for row in rows]

    async def list_for_agent(
        self, agent_id: UUID, *, include_cleared: bool, limit: int, now: datetime
    ) -> list[Notification]:
        """What the agent sees: high before low, then oldest first; never what is scheduled for later.

        Concurrent reads share a statement.
        """
        queues = self._whole_queues if include_cleared else self._queues
        return await queues.add((agent_id, limit, now))

    async def update(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime
    ) -> Notification | None:
        """The notification after the changes, by column; None if there is no such notification."""
        if unknown := changes.keys() - CHANGEABLE:
            raise ValueError(f"not columns that may be changed: {', '.join(sorted(unknown))}")
        return await self._pool.run_to_completion(
            self._update(notification_id, changes, now), f"update of notification {notification_id}"
        )

    async def clear(self, agent_id: UUID, notification_id: UUID, now: datetime) -> bool:
        """Whether it is cleared now; False if the agent has no such notification. The first time stays.

        Concurrent clearings share a commit.
        """
        item = (agent_id, notification_id, now)
        with suppress(TimeoutError):
            async with asyncio.timeout(HELD_SECONDS):
                # None: somebody else holds it, and nobody who waits keeps a connection from others meanwhile.
                while (cleared := await self._clears.add(item)) is None:  # noqa: ASYNC110 -- in another process
                    await asyncio.sleep(HELD_POLL_SECONDS)
                return cleared
        raise RowLocked(f"notification {notification_id} is held by somebody else")

    async def clear_many(self, agent_id: UUID, ids: Sequence[UUID] | None, now: datetime) -> int:
        """Clear these of the agent, or all that are not scheduled for later; how many it were."""
        return await self._pool.run_to_completion(
            self._clear_many(agent_id, ids, now), f"clearing of notifications of agent {agent_id}"
        )

    async def owners(self, ids: Sequence[UUID]) -> dict[UUID, NotificationOwner]:
        """Whose the notifications are; what is none is left out."""
        return {row["id"]: from_row(NotificationOwner, row) for row in await self._pool.fetch(OWNERS, ids)}

    async def delete(self, notification_id: UUID) -> bool:
        """Whether there was such a notification."""
        return await self._pool.run_to_completion(
            self._delete(notification_id), f"deletion of notification {notification_id}"
        )

    async def _insert_many(self, arrivals: list[Arrival]) -> list[StorageError | None]:
        return self._refusals(arrivals, await self._pool.fetch(INSERT, *insert_parameters(arrivals)))

    async def _insert_waiting(self, arrivals: list[Arrival]) -> list[StorageError | None]:
        """Wait for the agents' states, agent by agent: a long holder of one costs the others little."""
        refusals: dict[UUID, StorageError | None] = {}
        groups = deque(by_agent(arrivals))
        while groups:
            group = groups.popleft()
            try:
                async with self._pool.transaction() as connection:
                    await connection.execute(LIMIT_WAIT)
                    rows = await connection.fetch(INSERT_WAITING, *insert_parameters(group))
            except (ConstraintError, RowLocked) as error:
                if isinstance(error, ConstraintError) and len(group) > 1:
                    groups.extend([arrival] for arrival in group)  # only one of them is to blame
                else:
                    refusals.update((arrival.new.id, error) for arrival in group)
            else:
                refusals.update(zip((a.new.id for a in group), self._refusals(group, rows), strict=True))
        return [refusals[arrival.new.id] for arrival in arrivals]

    def _refusals(self, arrivals: list[Arrival], rows: list[Record]) -> list[StorageError | None]:
        """Why each arrival was refused, if it was; the others are committed, and told of here."""
        refusals = [refusal_of(arrival, row) for arrival, row in zip(arrivals, rows, strict=True)]
        self.tell(arrival.new for arrival, why in zip(arrivals, refusals, strict=True) if why is None)
        return refusals

    async def _update(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime
    ) -> Notification | None:
        async def write(connection: Connection) -> tuple[Notification, Notification] | None:
            row = await connection.fetchrow(LOCK, notification_id)
            if row is None:
                return None
            before = notification_of(row)
            after = _changed(before, changes, now)
            await connection.execute(
                UPDATE,
                after.id,
                after.title,
                after.body,
                after.priority,
                after.scheduled_for,
                after.cleared,
                after.cleared_at,
                after.activated_at,
            )
            if after.activated_at is not None and after.activated_at != before.activated_at:
                due_at = after.activated_at if after.activated_at > now else None
                await connection.execute(MOVE_STATE, after.agent_id, due_at)
            return before, after

        written = await self._pool.with_lock_retry(write)
        if written is None:
            return None
        before, after = written
        if after.activated_at != before.activated_at:
            tell = self._on_clear if after.activated_at is None else self._on_commit
            tell([after.agent_id])
        return after

    async def _list_each(
        self, statement: str, items: list[tuple[UUID, int, datetime]]
    ) -> list[list[Notification]]:
        queues: list[list[Notification]] = [[] for _ in items]
        for row in await self._pool.fetch(statement, *zip(*items, strict=True)):
            queues[row["ordinal"] - 1].append(notification_of(row))
        return queues

    async def _clear_each(self, items: list[tuple[UUID, UUID, datetime]]) -> list[bool | None]:
        return self._cleared(items, await self._pool.fetch(CLEAR, *zip(*items, strict=True)))

    def _cleared(self, items: list[tuple[UUID, UUID, datetime]], rows: list[Record]) -> list[bool | None]:
        """Whether each is cleared now, None if it is held; tells of what may have kept an agent awake."""
        priorities = {(row["agent_id"], row["id"]): row["priority"] for row in rows}
        concerned = {agent_id for (agent_id, _), of in priorities.items() if of == Priority.HIGH}
        if concerned:
            self._on_clear(list(concerned))
        outcomes = {item: None if of is None else True for item, of in priorities.items()}
        return [outcomes.get((agent_id, notification_id), False) for agent_id, notification_id, _ in items]

    async def _clear_many(self, agent_id: UUID, ids: Sequence[UUID] | None, now: datetime) -> int:
        conditions = Conditions(agent_id, now)
        if ids is None:
            conditions.add("(n.scheduled_for IS NULL OR n.scheduled_for <= $)", now)
        else:
            conditions.add("n.id = ANY($::uuid[])", ids)
        sql = conditions.into(CLEAR_MANY)
        row = await self._pool.with_lock_retry(
            lambda connection: connection.fetchrow(sql, *conditions.parameters)
        )
        if row is None:
            return 0
        if row["high"]:
            self._on_clear([agent_id])
        cleared: int = row["cleared"]
        return cleared

    async def _delete(self, notification_id: UUID) -> bool:
        row = await self._pool.with_lock_retry(
            lambda connection: connection.fetchrow(DELETE, notification_id)
        )
        if row is not None and row["activated_at"] is not None:
            self._on_clear([row["agent_id"]])
        return row is not None


def _changed(before: Notification, changes: Mapping[str, Any], now: datetime) -> Notification:
    after = replace(before, **changes)
    cleared_at = (before.cleared_at or now) if after.cleared else None
    since = before.activated_at if after.scheduled_for == before.scheduled_for else None
    activated_at = activation(after.priority, after.scheduled_for, now, cleared=after.cleared, since=since)
    return replace(after, cleared_at=cleared_at, activated_at=activated_at)


def notification_of(row: Record) -> Notification:
    """A row of the table."""
    return from_row(Notification, row, source=Source(row["source"]), priority=Priority(row["priority"]))
