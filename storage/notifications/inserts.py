"""New notifications on their way into the queue: one statement for all that arrive together."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import receipt_columns
from storage.errors import Forbidden, ReferenceMissing, RowLocked, StorageError
from storage.model import Priority, Receipt, Source
from storage.notifications.activation import activation

# One statement for many arrivals, so that they share a commit: it looks up their agents, judges each
# arrival, writes the good ones and moves the state of the agents that a high one concerns. The rows of
# agent_state are locked in id order, as everywhere, so nobody can wait in a circle; those that somebody else
# holds are passed over, so that one of them delays nobody else's arrival.
INSERT = """
WITH item AS MATERIALIZED (
    SELECT i.*, a.organization_id,
           (i.ordinal, a.organization_id) IN (
               SELECT p.ordinal, p.organization_id
               FROM unnest($11::bigint[], $12::uuid[]) AS p (ordinal, organization_id)) AS permitted
    FROM unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
        $8::timestamptz[], $9::timestamptz[], $10::timestamptz[]
    ) WITH ORDINALITY AS i (
        id, agent_id, source, source_id, title, body, priority,
        created_at, scheduled_for, activated_at, ordinal)
    LEFT JOIN agent a ON a.id = i.agent_id AND a.deleted_at IS NULL
), locked AS MATERIALIZED (
    SELECT agent_id FROM agent_state
    WHERE agent_id IN (SELECT agent_id FROM item WHERE permitted AND activated_at IS NOT NULL)
    ORDER BY agent_id FOR NO KEY UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT item.*,
           CASE WHEN organization_id IS NULL THEN 'missing'
                WHEN NOT permitted THEN 'forbidden'
                WHEN activated_at IS NOT NULL AND agent_id NOT IN (SELECT agent_id FROM locked) THEN 'locked'
                ELSE 'inserted' END AS verdict
    FROM item
), inserted AS (
    INSERT INTO notification (
        id, organization_id, agent_id, source, source_id, title, body, priority,
        created_at, scheduled_for, activated_at)
    SELECT id, organization_id, agent_id, source, source_id, title, body, priority,
           created_at, scheduled_for, activated_at
    FROM judged WHERE verdict = 'inserted' ORDER BY ordinal
), moved AS (
    UPDATE agent_state s
    SET wake_seq = s.wake_seq + arrived.high,
        next_due_at = CASE WHEN s.status = 'sleeping' AND s.queued_at IS NULL
                           THEN least(s.next_due_at, arrived.due_at) ELSE s.next_due_at END
    FROM (
        SELECT agent_id, count(*) AS high,
               min(activated_at) FILTER (WHERE activated_at > created_at) AS due_at
        FROM judged WHERE verdict = 'inserted' AND activated_at IS NOT NULL GROUP BY agent_id
    ) arrived
    WHERE s.agent_id = arrived.agent_id
), kept_receipt AS (
    INSERT INTO receipt (
        credential, method, path, key, body_hash, status, answer, created_at, organization_id)
    SELECT r.credential, r.method, r.path, r.key, r.body_hash, r.status, r.answer, r.created_at,
           judged.organization_id
    FROM unnest(
        $13::bigint[],
        $14::uuid[], $15::text[], $16::text[], $17::text[], $18::bytea[], $19::smallint[], $20::bytea[],
        $21::timestamptz[]
    ) AS r (ordinal, credential, method, path, key, body_hash, status, answer, created_at)
    JOIN judged USING (ordinal) WHERE judged.verdict = 'inserted'
)
SELECT verdict FROM judged ORDER BY ordinal
"""

# It has waited for every state there is, so one that it did not get went with its agent meanwhile.
INSERT_WAITING = INSERT.replace(" SKIP LOCKED", "").replace("'locked'", "'missing'")


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
class Arrival:
    """A new notification, the organizations whose agents it may be for, and what was answered to it."""

    new: NewNotification
    allowed: Collection[UUID]
    receipt: Receipt | None = None

    @property
    def activated_at(self) -> datetime | None:
        """When it becomes active; None for a low one."""
        return activation(self.new.priority, self.new.scheduled_for, self.new.created_at)


def insert_parameters(arrivals: list[Arrival]) -> Iterable[Sequence[object]]:
    """Those of INSERT."""
    rows = [
        (
            arrival.new.id,
            arrival.new.agent_id,
            arrival.new.source,
            arrival.new.source_id,
            arrival.new.title,
            arrival.new.body,
            arrival.new.priority,
            arrival.new.created_at,
            arrival.new.scheduled_for,
            arrival.activated_at,
        )
        for arrival in arrivals
    ]
    permissions = [
        (ordinal, organization_id)
        for ordinal, arrival in enumerate(arrivals, start=1)
        for organization_id in arrival.allowed
    ]
    ordinals, organizations = zip(*permissions, strict=True) if permissions else ((), ())
    receipts = {
        ordinal: arrival.receipt for ordinal, arrival in enumerate(arrivals, start=1) if arrival.receipt
    }
    return (
        *zip(*rows, strict=True),
        ordinals,
        organizations,
        list(receipts),
        *receipt_columns(list(receipts.values())),
    )


def refusal_of(arrival: Arrival, row: Record) -> StorageError | None:
    """Why an arrival was not inserted, by its row of what INSERT returns; None if it was."""
    agent_id = arrival.new.agent_id
    match row["verdict"]:
        case "missing":
            return ReferenceMissing("agent")
        case "forbidden":
            return Forbidden(f"agent {agent_id} belongs to another organization")
        case "locked":
            return RowLocked(f"the state of agent {agent_id} is locked by somebody else")
        case _:
            return None


def by_agent(arrivals: list[Arrival]) -> Iterable[list[Arrival]]:
    """The same arrivals in order, those of one agent together."""
    groups: dict[UUID, list[Arrival]] = {}
    for arrival in arrivals:
        groups.setdefault(arrival.new.agent_id, []).append(arrival)
    return groups.values()
