"""New notifications on their way into the queue: one statement for all that arrive together."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import RECEIPT
from storage.errors import Forbidden, ReferenceMissing, RowLocked, StorageError
from storage.events.model import BY_SERVICE
from storage.model import Priority, Receipt, Source
from storage.postgres.pool import Connection, Fetch, Pool
from storage.postgres.statement import Columns, Statement, arrays_of


def activation(
    priority: Priority,
    scheduled_for: datetime | None,
    now: datetime,
    *,
    cleared: bool = False,
    since: datetime | None = None,
) -> datetime | None:
    """Return the time at which a notification became or becomes active; None if it is low or cleared.

    `since` is its present activation; None if it has none, or if `scheduled_for` has just been changed.
    """
    if priority is not Priority.HIGH or cleared:
        return None
    if since is not None:
        return since
    return now if scheduled_for is None else max(scheduled_for, now)


GET_ORGANIZATION_ID = "SELECT organization_id FROM agent WHERE id = $1 AND deleted_at IS NULL"

LOCK_STATE = "SELECT 1 FROM agent_state WHERE agent_id = $1 FOR NO KEY UPDATE"


@dataclass(frozen=True, slots=True)
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
    cleared: ClassVar[bool] = False
    cleared_at: ClassVar[datetime | None] = None


@dataclass(frozen=True, slots=True)
class InsertItem:
    """A new notification, the organizations that may own its agent, the answer to its request, its actor."""

    new: NewNotification
    allowed: Collection[UUID]
    receipt: Receipt | None = None
    actor: str = BY_SERVICE

    @property
    def activated_at(self) -> datetime | None:
        """Return the time at which it becomes active; None for a low one."""
        return activation(self.new.priority, self.new.scheduled_for, self.new.created_at)


ITEM: Columns[InsertItem] = {
    "id": lambda item: item.new.id,
    "agent_id": lambda item: item.new.agent_id,
    "source": lambda item: item.new.source,
    "source_id": lambda item: item.new.source_id,
    "title": lambda item: item.new.title,
    "body": lambda item: item.new.body,
    "priority": lambda item: item.new.priority,
    "created_at": lambda item: item.new.created_at,
    "scheduled_for": lambda item: item.new.scheduled_for,
    "activated_at": lambda item: item.activated_at,
    "actor": lambda item: item.actor,
}

PERMISSION: Columns[tuple[int, UUID]] = {
    "permitted_ordinal": lambda permission: permission[0],
    "permitted_organization_id": lambda permission: permission[1],
}

# One statement for many notifications, so that they share a commit: it looks up their agents, decides about
# each item, inserts the accepted ones and updates the states of the agents that got a high one. The rows of
# agent_state are locked in id order, as everywhere, so that no two transactions can deadlock. SKIP LOCKED
# passes over rows that another transaction holds, so that such a row delays no other agent's notification.
# OFFSET 0 makes PostgreSQL find each agent by its id, also without statistics.
#
# A notification that becomes active now is stored as later than all that the agent went through before, even
# if the clock was set back since. Only the run's own notifications keep their time: the run must clear them.
INSERT = Statement(
    """
WITH item AS MATERIALIZED (
    SELECT i.*, a.organization_id,
           (i.ordinal, a.organization_id) IN (
               SELECT p.ordinal, p.organization_id
               FROM unnest(:permitted_ordinal::bigint[], :permitted_organization_id::uuid[])
                   AS p (ordinal, organization_id)) AS permitted
    FROM unnest(
        :id::uuid[], :agent_id::uuid[], :source::text[], :source_id::text[], :title::text[],
        :body::text[], :priority::text[], :created_at::timestamptz[], :scheduled_for::timestamptz[],
        :activated_at::timestamptz[], :actor::text[]
    ) WITH ORDINALITY AS i (
        id, agent_id, source, source_id, title, body, priority,
        created_at, scheduled_for, activated_at, actor, ordinal)
    LEFT JOIN LATERAL (
        SELECT organization_id FROM agent WHERE id = i.agent_id AND deleted_at IS NULL OFFSET 0
    ) a ON true
), locked AS MATERIALIZED (
    SELECT agent_id, run_id IS NOT NULL AS is_running,
           greatest(last_activated_at, last_started_at, last_ended_at, stopped_at, seen_until) AS latest_at
    FROM agent_state
    WHERE agent_id IN (SELECT agent_id FROM item WHERE permitted AND activated_at IS NOT NULL)
    ORDER BY agent_id FOR NO KEY UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT item.id, agent_id, item.organization_id, source, source_id, title, body, priority,
           created_at, scheduled_for, actor, ordinal, (activated_at = scheduled_for) IS TRUE AS is_reminder,
           CASE WHEN activated_at = scheduled_for OR (is_running AND source = 'agent') THEN activated_at
                WHEN activated_at IS NOT NULL
                THEN greatest(activated_at, latest_at + interval '1 microsecond')
           END AS activated_at,
           CASE WHEN organization_id IS NULL THEN 'missing'
                WHEN NOT permitted THEN 'forbidden'
                WHEN activated_at IS NOT NULL AND locked.agent_id IS NULL THEN 'locked'
                ELSE 'inserted' END AS verdict
    FROM item LEFT JOIN locked USING (agent_id)
), inserted AS (
    INSERT INTO notification (
        id, organization_id, agent_id, source, source_id, title, body, priority,
        created_at, scheduled_for, activated_at)
    SELECT id, organization_id, agent_id, source, source_id, title, body, priority,
           created_at, scheduled_for, activated_at
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
    FROM unnest(
        :receipt_ordinal::bigint[], :receipt_credential::uuid[], :receipt_method::text[],
        :receipt_path::text[], :receipt_key::text[], :receipt_body_hash::bytea[],
        :receipt_status::smallint[], :receipt_answer::bytea[],
        :receipt_created_at::timestamptz[]
    ) AS r (ordinal, credential, method, path, key, body_hash, status, answer, created_at)
    JOIN judged USING (ordinal) WHERE judged.verdict = 'inserted'
)
SELECT verdict FROM judged ORDER BY ordinal
    """,
    [*ITEM, *PERMISSION, *RECEIPT, "receipt_ordinal"],
)


async def organization_of(pool: Pool, item: InsertItem) -> UUID | None:
    """Return the organization that the item counts for; None if its agent does not exist.

    Only a caller with several organizations costs a read.
    """
    if len(item.allowed) == 1:
        return next(iter(item.allowed))
    organization_id: UUID | None = await pool.fetchval(GET_ORGANIZATION_ID, item.new.agent_id)
    return organization_id


async def insert_together(fetch: Fetch, items: list[InsertItem]) -> list[StorageError | None]:
    """Insert the notifications and return for each the reason why it was refused, None if it was stored.

    RowLocked stands for an agent whose state another transaction holds.
    """
    permissions = [
        (ordinal, organization_id)
        for ordinal, item in enumerate(items, start=1)
        for organization_id in item.allowed
    ]
    receipts = {ordinal: item.receipt for ordinal, item in enumerate(items, start=1) if item.receipt}
    statement = INSERT.given(
        arrays_of(ITEM, items)
        | arrays_of(PERMISSION, permissions)
        | arrays_of(RECEIPT, list(receipts.values())),
        receipt_ordinal=list(receipts),
    )
    rows = await fetch(*statement)
    return [_refusal(item, row) for item, row in zip(items, rows, strict=True)]


async def insert_after_lock(connection: Connection, items: list[InsertItem]) -> list[StorageError | None]:
    """Insert notifications for one agent as `insert_together` does, but wait for its state first.

    The transaction's lock timeout limits the wait. Raise RowLocked if the row is not free by then.
    """
    await lock_state(connection, items[0].new.agent_id)
    return await insert_together(connection.fetch, items)


async def lock_state(connection: Connection, agent_id: UUID) -> None:
    """Wait for the agent's state, so that the transaction can insert notifications that become active.

    Raise RowLocked if the row is not free when the transaction's lock timeout has passed.
    """
    await connection.execute(LOCK_STATE, agent_id)


def group_by_agent(items: list[InsertItem]) -> Iterable[list[InsertItem]]:
    """Group the items by agent, each group in their order."""
    groups: dict[UUID, list[InsertItem]] = {}
    for item in items:
        groups.setdefault(item.new.agent_id, []).append(item)
    return groups.values()


def _refusal(item: InsertItem, row: Record) -> StorageError | None:
    agent_id = item.new.agent_id
    match row["verdict"]:
        case "missing":
            return ReferenceMissing("agent")
        case "forbidden":
            return Forbidden(f"agent {agent_id} belongs to another organization")
        case "locked":
            return RowLocked(f"the state of agent {agent_id} is locked by another transaction")
        case _:
            return None
