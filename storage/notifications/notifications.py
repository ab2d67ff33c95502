"""Notifications: the queue of each agent."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.errors import ConstraintError, RowLocked, StorageError
from storage.events.model import BY_SERVICE
from storage.model import Notification, Priority, Receipt, Source
from storage.notifications.changes import update_locked
from storage.notifications.clears import (
    LIST_STATES,
    ClearedNotification,
    ClearItem,
    NotificationState,
    clear_active,
    clear_many,
    clear_together,
    unclear,
)
from storage.notifications.inserts import (
    InsertItem,
    NewNotification,
    group_by_agent,
    insert_after_lock,
    insert_together,
    organization_of,
)
from storage.notifications.queues import Queues
from storage.organization_limits import OrganizationLimits
from storage.postgres.group_commit import GroupCommit
from storage.postgres.leadership import Sleep
from storage.postgres.owned_tables import OfAgents, OwnedTable
from storage.postgres.page_conditions import OrganizationsPage, PageConditions, fetch_rows
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import ALWAYS, Period, require_changeable
from storage.postgres.rows import fetch_all, from_row
from storage.postgres.shared_reads import SharedReads

TABLE = OwnedTable("notification", "n", Notification, OfAgents.ALL)

LIST_OWNERS = """
SELECT n.id, n.organization_id, n.agent_id
FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
WHERE n.id = ANY($1::uuid[])
"""

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


@dataclass(frozen=True, slots=True)
class NotificationOwner:
    organization_id: UUID
    agent_id: UUID


class Notifications:
    """The table `notification`. One that becomes active updates `agent_state` in the same commit.

    `on_commit` gets the ids of the agents that a commit concerns, right after it and even if the caller was
    cancelled. If given, `on_clear` is called when notifications were cleared, deleted or postponed. `sleep`
    waits between two attempts to clear a locked notification.
    """

    def __init__(
        self,
        pool: Pool,
        on_commit: Callable[[Sequence[UUID]], None],
        on_clear: Callable[[Sequence[UUID]], None] | None = None,
        limits: OrganizationLimits | None = None,
        *,
        sleep: Sleep,
    ) -> None:
        self._pool = pool
        self.limit = (limits or OrganizationLimits(pool)).waiting_notifications
        self._sleep = sleep
        self._on_commit = on_commit
        self._on_clear = on_clear or on_commit
        self.created = dict.fromkeys(Source, 0)  # by this process, and committed
        self._inserts = GroupCommit("notifications", self._insert_many)
        self._waiting_inserts = GroupCommit("notifications of busy agents", self._insert_waiting)
        self._clears = GroupCommit("clears", self._clear_each)
        self._queues = Queues(pool)
        self.get = SharedReads(
            "notifications",
            pool,
            TABLE.get,
            partial(from_row, Notification),
            texts=("n.source_id", "n.title", "n.body"),
        )

    async def close(self) -> None:
        await self._inserts.close()
        await self._waiting_inserts.close()
        await self._clears.close()
        await self._queues.close()

    async def insert(
        self,
        notification: NewNotification,
        allowed: Collection[UUID],
        receipt: Receipt | None = None,
        *,
        actor: str = BY_SERVICE,
    ) -> None:
        """Store the notification. Concurrent inserts share a commit.

        Raise ReferenceMissing("agent") if there is no such agent, Forbidden if its organization is not
        `allowed`, AnsweredBefore if the receipt exists already, LimitReached if too many are uncleared.
        """
        item = InsertItem(notification, allowed, receipt, actor)
        async with self.limit.reserved(await organization_of(self._pool, item) if self.limit.limit else None):
            refusal = await self._inserts.add(item)
            if isinstance(refusal, RowLocked):
                refusal = await self._waiting_inserts.add(item)
        if refusal is not None:
            raise refusal

    async def insert_in_transaction(
        self, connection: Connection, notification: NewNotification, allowed: Collection[UUID], actor: str
    ) -> None:
        """Store the notification in the caller's transaction; call `report_committed` after its commit.

        Raise the errors of `insert`, and RowLocked unless the transaction holds the agent's state: see
        `inserts.lock_state`.
        """
        [refusal] = await insert_together(connection.fetch, [InsertItem(notification, allowed, actor=actor)])
        if refusal is not None:
            raise refusal

    def report_committed(self, committed: Iterable[NewNotification]) -> None:
        """Count committed notifications and call `on_commit` for the agents that got a high one."""
        agent_ids: dict[UUID, None] = {}
        for new in committed:
            self.created[new.source] += 1
            if new.priority is Priority.HIGH:
                agent_ids[new.agent_id] = None
        if agent_ids:
            self._on_commit(list(agent_ids))

    async def list_rows(self, filters: NotificationFilters, page: Page) -> Chunk[Record]:
        """List one page of the notifications, newest first, including those scheduled for later.

        The rows have the columns of `Notification`.
        """
        return await fetch_rows(self._pool, Notification, TABLE.page, _conditions(filters, page))

    async def list_for_agent(
        self, agent_id: UUID, *, include_cleared: bool, limit: int, now: datetime
    ) -> Chunk[Notification]:
        """List the agent's queue, high before low, then oldest first, without what is scheduled for later.

        The list is cut when it gets too long. Concurrent reads share a statement.
        """
        return await self._queues.list_for_agent(agent_id, limit, now, include_cleared=include_cleared)

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
                self._on_commit([after.agent_id])

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
        cleared, _ = await self._pool.write(
            lambda connection: clear_many(connection, agent_id, ids, now, actor),
            f"clearing of notifications of agent {agent_id}",
            lambda counts: self._on_clear([agent_id]) if counts[1] else None,
        )
        return cleared

    async def clear_active(
        self, agent_ids: Sequence[UUID], limit: int, now: datetime, *, actor: str = BY_SERVICE
    ) -> Chunk[ClearedNotification]:
        """Clear what is active for the agents, one agent after the other, at most `limit` notifications.

        Return those that this call has cleared. The chunk is cut if there may be more.
        """
        return await self._pool.write(
            lambda connection: clear_active(connection, agent_ids, limit, now, actor),
            f"clearing for {len(agent_ids)} agents",
            lambda cleared: self._on_clear(list({each.agent_id for each in cleared})),
        )

    async def unclear(
        self, ids: Sequence[UUID], allowed: Sequence[UUID], now: datetime, *, actor: str = BY_SERVICE
    ) -> list[ClearedNotification]:
        """Put those of the notifications back that are cleared and belong to the `allowed` organizations.

        Return them. The caller reserves room for them within the limit.
        """
        return await self._pool.write(
            lambda connection: unclear(connection, ids, allowed, now, actor),
            f"un-clearing of {len(ids)} notifications",
            lambda uncleared: self._on_commit(list({each.agent_id for each in uncleared})),
        )

    async def list_states(self, ids: Sequence[UUID]) -> list[NotificationState]:
        """List the notifications with these ids, without ids that name none."""
        return await fetch_all(self._pool, NotificationState, LIST_STATES, ids)

    async def list_owners(self, ids: Sequence[UUID]) -> dict[UUID, NotificationOwner]:
        """Return the owners of the notifications by id, without ids that name no notification."""
        rows = await self._pool.fetch(LIST_OWNERS, ids)
        return {row["id"]: from_row(NotificationOwner, row) for row in rows}

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
        self._report_inserted(items, refusals)
        return refusals

    async def _insert_waiting(self, items: list[InsertItem]) -> list[StorageError | None]:
        """Wait for the agents' states one agent at a time, so that a locked row hardly delays others."""
        refusals: dict[UUID, StorageError | None] = {}
        groups = deque(group_by_agent(items))
        while groups:
            group = groups.popleft()
            try:
                results = await self._pool.write(
                    partial(insert_after_lock, items=group), f"notifications of agent {group[0].new.agent_id}"
                )
            except (ConstraintError, RowLocked) as error:
                if isinstance(error, ConstraintError) and len(group) > 1:
                    groups.extend([item] for item in group)  # one of them violates the constraint: find it
                else:
                    refusals.update((item.new.id, error) for item in group)
            else:
                self._report_inserted(group, results)
                refusals.update(zip((item.new.id for item in group), results, strict=True))
        return [refusals[item.new.id] for item in items]

    def _report_inserted(self, items: list[InsertItem], refusals: list[StorageError | None]) -> None:
        self.report_committed(
            item.new for item, refusal in zip(items, refusals, strict=True) if refusal is None
        )

    async def _clear_each(self, items: list[ClearItem]) -> list[bool | None]:
        results, agent_ids = await clear_together(self._pool, items)
        if agent_ids:
            self._on_clear(agent_ids)
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
