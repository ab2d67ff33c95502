"""Notifications: the queue of each agent. New ones that arrive together are inserted by one statement."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, ClassVar, TypeAlias
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import RECEIPT
from storage.errors import ConstraintError, Forbidden, NotUnique, ReferenceMissing, RowLocked, StorageError
from storage.events.model import BY_SERVICE
from storage.model import Notification, Priority, Receipt, Source
from storage.notifications.changes import (
    CLEAR_ACTIVE,
    CLEAR_MANY,
    LIST_STATES,
    UNCLEAR,
    ClearedNotification,
    NotificationState,
    activation,
    clear_together,
    update_locked,
)
from storage.notifications.queues import Queues
from storage.organization_limits import OrganizationLimits
from storage.postgres.group_commit import GroupCommit
from storage.postgres.membership import Sleep
from storage.postgres.paging import (
    Chunk,
    OfAgents,
    OrganizationsPage,
    OwnedTable,
    Page,
    PageConditions,
    fetch_rows,
)
from storage.postgres.pool import BRIEF_WAIT, Connection, Fetch, Pool
from storage.postgres.query import ALWAYS, Conditions, Period, require_changeable
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import Statement, fetch_all, from_row, values_of

GET_ORGANIZATION_ID = "SELECT organization_id FROM agent WHERE id = $1 AND deleted_at IS NULL"

LOCK_STATES = """
SELECT 1 FROM agent_state WHERE agent_id = ANY($1::uuid[]) ORDER BY agent_id FOR NO KEY UPDATE
"""


@dataclass(slots=True)  # not frozen: that would take several times as long for each request
class NewNotification:
    """A notification on its way to storage; its organization is that of the agent."""

    id: UUID
    agent_id: UUID
    source: Source
    source_id: str
    title: str
    body: str
    priority: Priority
    created_at: datetime
    scheduled_for: datetime | None
    urgent: bool = False
    cleared: ClassVar[bool] = False
    cleared_at: ClassVar[datetime | None] = None


Insert: TypeAlias = "Callable[[list[InsertItem]], Awaitable[list[StorageError | None]]]"
Inserts: TypeAlias = "GroupCommit[InsertItem, StorageError | None]"
OnCommit = Callable[[Mapping[UUID, int | None]], None]


@dataclass(slots=True)
class InsertItem:
    """A new notification, the organizations that may own its agent, the answer to its request, its actor."""

    new: NewNotification
    allowed: Collection[UUID]
    receipt: Receipt | None = None
    actor: str = BY_SERVICE
    payload: str | None = None  # JSON that is kept with the notification as its attachment
    node_id: int | None = None  # once it is stored: the node that attends the agent, if it is awake


# One statement for many notifications, so that they share a commit: it looks up their agents, decides about
# each item, inserts the accepted ones and updates the states of the agents that got a high one. The rows of
# agent_state are locked in id order, as everywhere, so that no two transactions can deadlock. SKIP LOCKED
# passes over rows that another transaction holds, so that such a row delays no other agent's notification.
# OFFSET 0 makes PostgreSQL find each agent by its id, also without statistics. Receipts are inserted in the
# order of their keys: each waits for an equal one of another node, so two statements could deadlock.
#
# What a hook was sent may come again. The comparison with a scalar subquery keeps PostgreSQL from hashing the
# whole table, as it might for EXISTS.
#
# A notification that becomes active now is stored as later than all that the agent went through before, even
# if the clock was set back since. Only the run's own notifications keep their time: the run must clear them.
INSERT = Statement(
    """
WITH item AS MATERIALIZED (
    SELECT i.*, a.organization_id, a.organization_id = ANY (i.allowed) AS permitted
    FROM ROWS FROM (
        json_to_recordset(:items::json) AS (
            id uuid, agent_id uuid, source text, source_id text, title text, body text, priority text,
            created_at timestamptz, scheduled_for timestamptz, activated_at timestamptz,
            urgent boolean, allowed uuid[], actor text, receipt json, payload text)
    ) WITH ORDINALITY AS i (
        id, agent_id, source, source_id, title, body, priority,
        created_at, scheduled_for, activated_at, urgent, allowed, actor, receipt, payload, ordinal)
    LEFT JOIN LATERAL (
        SELECT organization_id FROM agent WHERE id = i.agent_id AND deleted_at IS NULL OFFSET 0
    ) a ON true
), locked AS MATERIALIZED (
    SELECT agent_id, node_id, run_id IS NOT NULL AS is_running,
           greatest(last_activated_at, last_started_at, last_ended_at, stopped_at, seen_until) AS latest_at
    FROM agent_state
    WHERE agent_id IN (SELECT agent_id FROM item WHERE permitted AND activated_at IS NOT NULL)
    ORDER BY agent_id FOR NO KEY UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT item.id, agent_id, item.organization_id, source, source_id, title, body, priority,
           created_at, scheduled_for, urgent, actor, receipt, payload, ordinal,
           locked.node_id, (activated_at = scheduled_for) IS TRUE AS is_reminder,
           CASE WHEN activated_at = scheduled_for OR (is_running AND source = 'agent') THEN activated_at
                WHEN activated_at IS NOT NULL
                THEN greatest(activated_at, latest_at + interval '1 microsecond')
           END AS activated_at,
           CASE WHEN organization_id IS NULL THEN 'missing'
                WHEN NOT permitted THEN 'forbidden'
                WHEN payload <> '' AND item.id = (SELECT n.id FROM notification n WHERE n.id = item.id)
                THEN 'known'
                WHEN activated_at IS NOT NULL AND locked.agent_id IS NULL THEN 'locked'
                ELSE 'inserted' END AS verdict
    FROM item LEFT JOIN locked USING (agent_id)
), inserted AS (
    INSERT INTO notification (
        id, organization_id, agent_id, source, source_id, title, body, priority,
        created_at, scheduled_for, activated_at, urgent)
    SELECT id, organization_id, agent_id, source, source_id, title, body, priority,
           created_at, scheduled_for, activated_at, urgent
    FROM judged WHERE verdict = 'inserted' ORDER BY ordinal
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
    SELECT created_at, 'notification.created', organization_id, agent_id, event_run_id(actor), id,
           actor, notification_created_data(source, priority, scheduled_for)::json
    FROM judged WHERE verdict = 'inserted' ORDER BY ordinal
), updated_state AS (
    UPDATE agent_state s
    SET wake_seq = s.wake_seq + active.high,
        last_activated_at = greatest(s.last_activated_at, active.latest_at),
        next_due_at = CASE WHEN s.status = 'sleeping' AND s.queued_at IS NULL
                           THEN least(s.next_due_at, active.due_at) ELSE s.next_due_at END
    FROM (
        SELECT agent_id, count(*) AS high,
               min(activated_at) FILTER (WHERE is_reminder AND activated_at > created_at) AS due_at,
               max(activated_at) FILTER (WHERE NOT is_reminder) AS latest_at
        FROM judged WHERE verdict = 'inserted' AND activated_at IS NOT NULL GROUP BY agent_id
    ) active
    WHERE s.agent_id = active.agent_id
), inserted_receipt AS (
    INSERT INTO receipt (
        credential, method, path, key, body_hash, status, answer, created_at, organization_id)
    SELECT r.credential, r.method, r.path, r.key, r.body_hash, r.status, r.answer, r.created_at,
           judged.organization_id
    FROM judged CROSS JOIN json_to_record(judged.receipt) AS r (
        credential uuid, method text, path text, key text, body_hash bytea,
        status smallint, answer bytea, created_at timestamptz)
    WHERE judged.verdict = 'inserted' AND judged.receipt IS NOT NULL
    ORDER BY r.credential, r.method, r.path, r.key
), inserted_payload AS (
    INSERT INTO notification_payload (id, organization_id, agent_id, content)
    SELECT id, organization_id, agent_id, payload FROM judged WHERE verdict = 'inserted' AND payload <> ''
)
SELECT verdict, node_id FROM judged ORDER BY ordinal
    """,
    ["items"],
)


async def insert_together(fetch: Fetch, items: list[InsertItem]) -> list[StorageError | None]:
    """Insert the notifications and return for each the reason why it was refused, None if it was stored.

    RowLocked stands for an agent whose state another transaction holds. The item of a stored notification
    gets the node that attends its agent. Of items with the same id only the first is inserted.
    """
    firsts: dict[UUID, InsertItem] = {}
    for item in items:
        firsts.setdefault(item.new.id, item)
    rows = await fetch(*INSERT.given(items=[_row(item) for item in firsts.values()]))
    row_by_id = dict(zip(firsts, rows, strict=True))
    refusals: list[StorageError | None] = []
    for item in items:
        row = row_by_id[item.new.id]
        item.node_id, verdict = row["node_id"], row["verdict"]
        if verdict == "inserted":
            refusals.append(None if firsts[item.new.id] is item else NotUnique("id"))
        else:
            refusals.append(_refusal(item, verdict))
    return refusals


def _row(item: InsertItem) -> dict[str, object]:
    """Return the item as the statement reads it: JSON, which costs far less than an array for each column."""
    new = item.new
    return {
        "id": new.id,
        "agent_id": new.agent_id,
        "source": new.source,
        "source_id": new.source_id,
        "title": new.title,
        "body": new.body,
        "priority": new.priority,
        "created_at": new.created_at,
        "scheduled_for": new.scheduled_for,
        "activated_at": activation(new.priority, new.scheduled_for, new.created_at),
        "urgent": new.urgent,
        "allowed": list(item.allowed),
        "actor": item.actor,
        "receipt": item.receipt and values_of(RECEIPT, item.receipt),
        "payload": item.payload,
    }


async def insert_after_locks(connection: Connection, items: list[InsertItem]) -> list[StorageError | None]:
    """Insert notifications as `insert_together` does, but wait for the states of their agents first.

    The transaction's lock timeout limits each wait. Raise RowLocked if a row is not free by then.
    """
    await lock_states(connection, {item.new.agent_id for item in items})
    return await insert_together(connection.fetch, items)


async def lock_states(connection: Connection, agent_ids: Iterable[UUID]) -> None:
    """Wait for the agents' states, so that the transaction can insert notifications that become active.

    Raise RowLocked if a row is not free when the transaction's lock timeout has passed.
    """
    await connection.execute(LOCK_STATES, list(agent_ids))


def group_by_agent(items: list[InsertItem]) -> list[list[InsertItem]]:
    """Group the items by agent, each group in their order."""
    groups: dict[UUID, list[InsertItem]] = {}
    for item in items:
        groups.setdefault(item.new.agent_id, []).append(item)
    return list(groups.values())


def split(items: list[InsertItem], *, by_item: bool) -> list[list[InsertItem]]:
    """Split the items into two halves by agent; those of one agent into single ones if `by_item`."""
    groups = group_by_agent(items)
    if len(groups) == 1:
        return [[item] for item in items] if by_item else groups
    middle = len(groups) // 2
    return [list(chain.from_iterable(half)) for half in (groups[:middle], groups[middle:])]


def _refusal(item: InsertItem, verdict: str) -> StorageError:
    agent_id = item.new.agent_id
    match verdict:
        case "missing":
            return ReferenceMissing("agent")
        case "forbidden":
            return Forbidden(f"agent {agent_id} belongs to another organization")
        case "known":
            return NotUnique("id")
        case _:
            return RowLocked(f"the state of agent {agent_id} is locked by another transaction")


TABLE = OwnedTable("notification", "n", Notification, OfAgents.ALL)

DELETE = """
WITH deleted AS (
    DELETE FROM notification n USING agent a
    WHERE n.id = $1 AND a.id = n.agent_id AND a.deleted_at IS NULL
    RETURNING n.organization_id, n.agent_id, n.activated_at
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor)
    SELECT $2, 'notification.deleted', organization_id, agent_id, event_run_id($3), $1, $3
    FROM deleted
)
SELECT agent_id, activated_at FROM deleted
"""

CLEAR_TIMEOUT_SECONDS = 30.0  # limits the wait for a notification that another transaction holds
CLEAR_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class NotificationFilters:
    """The notifications that a list shows."""

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    cleared: bool | None = None
    priority: Priority | None = None
    source: Source | None = None
    created: Period = ALWAYS
    scheduled: Period = ALWAYS


class Notifications:
    """The table `notification`. One that becomes active updates `agent_state` in the same commit.

    `on_commit` gets the agents that a commit concerns, right after it and even if the caller was cancelled,
    with the nodes that attend them, None where the statement does not know. If given, `on_clear` is called
    instead with the agents whose notifications were cleared, deleted or postponed. `sleep` waits between two
    attempts to clear a locked notification.
    """

    def __init__(
        self,
        pool: Pool,
        on_commit: OnCommit,
        on_clear: Callable[[Sequence[UUID]], None] | None = None,
        limits: OrganizationLimits | None = None,
        *,
        sleep: Sleep,
    ) -> None:
        self._pool = pool
        self.limit = (limits or OrganizationLimits(pool)).waiting_notifications
        self._sleep = sleep
        self._on_commit = on_commit
        self._on_clear = on_clear or (lambda agent_ids: on_commit(dict.fromkeys(agent_ids)))
        self.created = dict.fromkeys(Source, 0)  # by this process, and committed
        self._inserts = pool.group_commit("notifications", self._insert_many, is_write=True)
        self._busy_inserts = pool.group_commit("notifications of busy agents", self._insert_busy)
        self._held_inserts = pool.group_commit("notifications of agents that are held", self._insert_held)
        # Agents for whose states a group waits at the moment; by the one before, which would try in vain.
        self._passing: dict[Inserts, Collection[UUID]] = {}
        self._clears = pool.group_commit("clears", partial(clear_together, pool, self._on_clear))
        self.list_for_agent = Queues(pool).list_for_agent
        self.get = SharedReads(
            "notifications",
            pool,
            TABLE.get,
            partial(from_row, Notification),
            texts=("n.source_id", "n.title", "n.body"),
        )

    async def insert(
        self,
        notification: NewNotification,
        allowed: Collection[UUID],
        receipt: Receipt | None = None,
        *,
        actor: str = BY_SERVICE,
        payload: str | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Store the notification and its payload, after `prepare` if there is room. Inserts share a commit.

        Raise ReferenceMissing("agent") if there is no such agent, Forbidden if its organization is not
        `allowed`, AnsweredBefore if the receipt exists already, LimitReached if too many are uncleared.
        One with a payload may exist already: raise NotUnique. If the state of its agent is locked, wait for
        that longer.
        """
        item = InsertItem(notification, allowed, receipt, actor, payload)
        owner: UUID | None = next(iter(allowed), None)
        if self.limit.limit and len(allowed) > 1:  # only a caller with several organizations costs a read
            owner = await self._pool.fetchval(GET_ORGANIZATION_ID, notification.agent_id)
        async with self.limit.reserved(owner):
            if prepare is not None:
                await prepare()
            refusal: StorageError | None = None
            for group in (self._inserts, self._busy_inserts, self._held_inserts):
                if item.new.priority is Priority.HIGH and item.new.agent_id in self._passing.get(group, ()):
                    continue
                refusal = await group.add(item)
                if not isinstance(refusal, RowLocked):
                    break
            if refusal is not None:
                raise refusal

    async def insert_in_transaction(
        self, connection: Connection, notification: NewNotification, allowed: Collection[UUID], actor: str
    ) -> InsertItem:
        """Store the notification in the caller's transaction.

        After its commit, pass the item to `report_committed`. Raise the errors of `insert`, and RowLocked
        unless the transaction holds the agent's state: see `lock_states`.
        """
        item = InsertItem(notification, allowed, actor=actor)
        [refusal] = await insert_together(connection.fetch, [item])
        if refusal is not None:
            raise refusal
        return item

    def report_committed(self, committed: Iterable[InsertItem], renewed: Iterable[UUID] = ()) -> None:
        """Count committed notifications and call `on_commit` for the agents that got a high one.

        The agents `renewed` have one that became active like a new one.
        """
        attendants: dict[UUID, int | None] = dict.fromkeys(renewed)
        for item in committed:
            self.created[item.new.source] += 1
            if item.new.priority is Priority.HIGH:
                attendants[item.new.agent_id] = item.node_id
        if attendants:
            self._on_commit(attendants)

    async def list_rows(self, filters: NotificationFilters, page: Page) -> Chunk[Record]:
        """List one page of the notifications, newest first, including those scheduled for later.

        The rows have the columns of `Notification`.
        """
        return await fetch_rows(self._pool, Notification, TABLE.page, _conditions(filters, page))

    async def update(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Notification | None:
        """Set the columns in `changes` and return the notification; None if there is no such notification.

        Raise ValueError for a column that must not be changed.
        """
        require_changeable(changes, Notification)

        def report(written: tuple[Notification, Notification] | None) -> None:
            if written is None or written[0].activated_at == written[1].activated_at:
                return
            before, after = written
            if before.activated_at is not None:
                self._on_clear([after.agent_id])  # it may no longer be due
            if after.activated_at is not None:
                self._on_commit({after.agent_id: None})

        written = await self._pool.write(
            lambda connection: update_locked(connection, notification_id, changes, now, actor),
            f"update of notification {notification_id}",
            report,
        )
        return None if written is None else written[1]

    async def clear(
        self, agent_id: UUID, notification_id: UUID, now: datetime, *, actor: str = BY_SERVICE
    ) -> bool:
        """Clear the notification; False if the agent has no such notification. The first `cleared_at` stays.

        Concurrent calls share a commit. Raise RowLocked if another transaction holds the row for too long.
        """
        item = (agent_id, notification_id, now, actor)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLEAR_TIMEOUT_SECONDS):
                # None means that the row is locked. Polling occupies no connection while it waits.
                while (is_cleared := await self._clears.add(item)) is None:
                    await self._sleep(CLEAR_POLL_SECONDS)
                return is_cleared
        raise RowLocked(f"notification {notification_id} is locked by another transaction")

    async def clear_many(
        self, agent_id: UUID, ids: Sequence[UUID] | None, now: datetime, *, actor: str = BY_SERVICE
    ) -> int:
        """Clear these notifications of the agent, or all that are not scheduled for later if `ids` is None.

        Return the number of cleared ones.
        """
        conditions = Conditions(agent_id, now, actor)
        if ids is None:
            conditions.add("(n.scheduled_for IS NULL OR n.scheduled_for <= $)", now)
        else:
            conditions.add("n.id = ANY($::uuid[])", ids)
        [counts] = await self._pool.write(
            lambda connection: connection.fetch(conditions.into(CLEAR_MANY), *conditions.parameters),
            f"clearing of notifications of agent {agent_id}",
            lambda rows: self._on_clear([agent_id]) if rows[0]["high"] else None,
        )
        cleared: int = counts["cleared"]
        return cleared

    async def clear_active(
        self, agent_ids: Sequence[UUID], limit: int, now: datetime, *, actor: str = BY_SERVICE
    ) -> Chunk[ClearedNotification]:
        """Clear what is active for the agents, one agent after the other, at most `limit` notifications.

        Return those that this call has cleared. The chunk is cut if there may be more.
        """
        rows = await self._pool.write(
            lambda connection: connection.fetch(CLEAR_ACTIVE, agent_ids, now, limit, actor),
            f"clearing for {len(agent_ids)} agents",
            lambda rows: self._on_clear(list({row["agent_id"] for row in rows if row["is_cleared"]})),
        )
        cleared = [from_row(ClearedNotification, row) for row in rows if row["is_cleared"]]
        return Chunk(cleared, is_cut=len(rows) == limit)

    async def unclear(
        self, ids: Sequence[UUID], allowed: Sequence[UUID], now: datetime, *, actor: str = BY_SERVICE
    ) -> list[ClearedNotification]:
        """Put those of the notifications back that are cleared and belong to the `allowed` organizations.

        Return them. The caller reserves room for them within the limit.
        """
        return await self._pool.write(
            lambda connection: fetch_all(connection, ClearedNotification, UNCLEAR, ids, allowed, now, actor),
            f"un-clearing of {len(ids)} notifications",
            lambda uncleared: self._on_commit(dict.fromkeys(each.agent_id for each in uncleared)),
        )

    async def list_states(self, ids: Sequence[UUID]) -> list[NotificationState]:
        """List the notifications with these ids, without ids that name none."""
        return await fetch_all(self._pool, NotificationState, LIST_STATES, ids)

    async def delete(self, notification_id: UUID, now: datetime, *, actor: str = BY_SERVICE) -> bool:
        """Delete the notification; return False if there is no such notification."""

        def report(deleted: Record | None) -> None:
            if deleted is not None and deleted["activated_at"] is not None:
                self._on_clear([deleted["agent_id"]])

        deleted = await self._pool.write(
            lambda connection: connection.fetchrow(DELETE, notification_id, now, actor),
            f"deletion of notification {notification_id}",
            report,
        )
        return deleted is not None

    async def _insert_many(self, items: list[InsertItem]) -> list[StorageError | None]:
        refusals = await insert_together(self._pool.change, items)
        self.report_committed(item for item, refusal in zip(items, refusals, strict=True) if not refusal)
        return refusals

    async def _insert_busy(self, items: list[InsertItem]) -> list[StorageError | None]:
        """Wait briefly for the states of all agents together, and meanwhile gather what comes for them.

        Statements of the service hold a state for milliseconds. If one is held for longer, insert for the
        other agents without waiting, and return RowLocked for that one.
        """
        return await self._insert_waiting(items, [items], self._wait_briefly, self._inserts)

    async def _insert_held(self, items: list[InsertItem]) -> list[StorageError | None]:
        """Wait for the states one agent at a time."""
        groups = group_by_agent(items)
        return await self._insert_waiting(items, groups, self._wait_for_state, self._busy_inserts)

    async def _insert_waiting(
        self, items: list[InsertItem], groups: list[list[InsertItem]], insert: Insert, passed: Inserts
    ) -> list[StorageError | None]:
        """Insert the items in these groups. Meanwhile others for their agents pass by the group `passed`."""
        self._passing[passed] = {item.new.agent_id for item in items}
        try:
            refusals = await self._insert_in_parts(groups, insert)
        finally:
            self._passing.pop(passed, None)
        return [refusals[id(item)] for item in items]

    async def _insert_in_parts(
        self, groups: list[list[InsertItem]], insert: Insert
    ) -> dict[int, StorageError | None]:
        """Insert the groups, and the parts of one that fails by a lock or a constraint.

        Return the refusals by the identity of the item.
        """
        refusals: dict[int, StorageError | None] = {}
        waiting = deque(groups)
        while waiting:
            group = waiting.popleft()
            results: list[StorageError | None]
            try:
                results = await insert(group)
            except (ConstraintError, RowLocked) as error:
                parts = split(group, by_item=isinstance(error, ConstraintError))
                if len(parts) > 1:
                    waiting.extend(parts)
                    continue
                results = [error] * len(group)
            self.report_committed(item for item, refusal in zip(group, results, strict=True) if not refusal)
            refusals.update(zip(map(id, group), results, strict=True))
        return refusals

    async def _wait_for_state(self, items: list[InsertItem]) -> list[StorageError | None]:
        """Insert notifications for one agent, however long `Pool.write` lets them wait for its state."""
        name = f"notifications of agent {items[0].new.agent_id}"
        return await self._pool.write(partial(insert_after_locks, items=items), name)

    async def _wait_briefly(self, items: list[InsertItem]) -> list[StorageError | None]:
        """Insert notifications for several agents; if a state is not free soon, for those with free ones."""
        try:
            async with self._pool.transaction(BRIEF_WAIT) as connection:
                results = await insert_after_locks(connection, items)
        except RowLocked:
            self._passing.pop(self._inserts, None)
            return await insert_together(self._pool.change, items)
        self._pool.on_write()
        return results


def _conditions(filters: NotificationFilters, page: Page) -> PageConditions:
    conditions = OrganizationsPage(filters.organization_ids, page, TABLE.order)
    conditions.add_optional("n.agent_id = $", filters.agent_id)
    conditions.add_optional("n.cleared = $", filters.cleared)
    conditions.add_optional("n.priority = $", filters.priority)
    conditions.add_optional("n.source = $", filters.source)
    conditions.add_period("n.created_at", filters.created)
    if filters.scheduled != ALWAYS:
        conditions.add("n.scheduled_for IS NOT NULL")  # all that their index contains
        conditions.add_period("n.scheduled_for", filters.scheduled)
    return conditions
