"""Moves of agents on their way to storage: one statement for all that are made together."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from storage.delivery.receipts import receipt_columns
from storage.model import AgentState, StateUpdate, SystemNotice

# A batch of moves in one statement and one commit. Rows are locked in id order, so that no two batches
# (nor a batch and an insert into the queue) can wait for each other. Each move counts only if its guard
# still holds on the newest version of its row, and nobody has moved that since: a move that was given up,
# its answer lost, may still be made long after. Rows that somebody else holds are passed over, so that one
# of them delays nobody else's move; those moves are made alone, and wait for a second at most.
MOVE = """
WITH move AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::bigint[],
        $6::text[], $7::uuid[], $8::timestamptz[], $9::text[], $10::timestamptz[],
        $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[],
        $16::timestamptz[], $17::timestamptz[], $18::integer[], $19::integer[], $20::integer[],
        $21::timestamptz[], $22::text[], $23::text[], $24::timestamptz[], $25::timestamptz[],
        $26::uuid[], $27::text[], $28::timestamptz[], $29::timestamptz[], $30::timestamptz[], $31::text[],
        $32::uuid[], $33::text[], $34::timestamptz[], $35::integer[], $36::text[]
    ) AS m (
        agent_id, seen_status, seen_run_id, seen_version, seen_seq,
        status, run_id, run_started_at, last_wake_reason, last_wake_interrupted_sleep_until,
        sleep_until, max_sleep_until, last_started_at, last_ended_at, stopped_at,
        run_requested_at, queued_at, failures, retries, left_over,
        retry_at, retry_reason, last_error, next_due_at, seen_until,
        start_id, start_reason, start_interrupted, start_cap, start_at, start_name,
        end_id, end_outcome, end_at, end_turns, end_error
    )
), locked AS MATERIALIZED (
    SELECT s.agent_id FROM agent_state s JOIN move m USING (agent_id)
    ORDER BY s.agent_id FOR NO KEY UPDATE OF s SKIP LOCKED
), moved AS (
    UPDATE agent_state s
    SET version = s.version + 1, status = m.status, run_id = m.run_id, run_started_at = m.run_started_at,
        last_wake_reason = m.last_wake_reason,
        last_wake_interrupted_sleep_until = m.last_wake_interrupted_sleep_until,
        sleep_until = m.sleep_until, max_sleep_until = m.max_sleep_until,
        last_started_at = m.last_started_at, last_ended_at = m.last_ended_at, stopped_at = m.stopped_at,
        run_requested_at = m.run_requested_at, queued_at = m.queued_at,
        failures = m.failures, retries = m.retries, left_over = m.left_over, retry_at = m.retry_at,
        retry_reason = m.retry_reason, last_error = m.last_error, next_due_at = m.next_due_at,
        seen_until = m.seen_until
    FROM locked JOIN move m USING (agent_id)
    WHERE s.agent_id = locked.agent_id
      AND s.status = m.seen_status
      AND s.run_id IS NOT DISTINCT FROM m.seen_run_id
      AND s.version = m.seen_version
      AND (m.seen_seq IS NULL OR s.wake_seq = m.seen_seq)
    RETURNING s.agent_id
), started_run AS (
    INSERT INTO run (id, agent_id, organization_id, wake_reason, notifications,
                     interrupted_sleep_until, max_sleep_until, started_at)
    SELECT m.start_id, a.id, a.organization_id, m.start_reason,
           ARRAY(SELECT n.id FROM notification n
                 WHERE n.agent_id = a.id AND n.activated_at IS NOT NULL
                   AND (n.activated_at <= m.start_at OR n.scheduled_for IS DISTINCT FROM n.activated_at)
                 ORDER BY n.activated_at, n.id),
           m.start_interrupted, m.start_cap, m.start_at
    FROM moved JOIN move m USING (agent_id) JOIN agent a ON a.id = m.agent_id
    WHERE m.start_id IS NOT NULL
    RETURNING id, agent_id, organization_id
), started_trace AS (
    INSERT INTO trace (id, organization_id, agent_id, name, started_at)
    SELECT r.id, r.organization_id, r.agent_id, m.start_name, m.start_at
    FROM started_run r JOIN move m USING (agent_id)
), ended_run AS (
    UPDATE run r SET ended_at = m.end_at, outcome = m.end_outcome, turns = m.end_turns, error = m.end_error
    FROM moved JOIN move m USING (agent_id)
    WHERE r.id = m.end_id AND r.ended_at IS NULL
), ended_trace AS (
    UPDATE trace t SET ended_at = m.end_at, error = coalesce(nullif(m.end_error, ''), t.error)
    FROM moved JOIN move m USING (agent_id)
    WHERE t.id = m.end_id AND t.ended_at IS NULL
), kept_receipt AS (
    INSERT INTO receipt (
        credential, method, path, key, body_hash, status, answer, created_at, organization_id)
    SELECT r.credential, r.method, r.path, r.key, r.body_hash, r.status, r.answer, r.created_at,
           a.organization_id
    FROM unnest(
        $37::uuid[],
        $38::uuid[], $39::text[], $40::text[], $41::text[], $42::bytea[], $43::smallint[], $44::bytea[],
        $45::timestamptz[]
    ) AS r (agent_id, credential, method, path, key, body_hash, status, answer, created_at)
    JOIN moved USING (agent_id) JOIN agent a ON a.id = r.agent_id
), left_remark AS (
    INSERT INTO notification (id, organization_id, agent_id, source, title, body, created_at)
    SELECT r.id, a.organization_id, a.id, 'system', r.title, r.body, r.created_at
    FROM unnest($46::uuid[], $47::uuid[], $48::text[], $49::text[], $50::timestamptz[])
        AS r (agent_id, id, title, body, created_at)
    JOIN moved USING (agent_id) JOIN agent a ON a.id = r.agent_id
    ON CONFLICT (id) DO NOTHING
)
SELECT m.agent_id, moved.agent_id IS NOT NULL AS moved, locked.agent_id IS NOT NULL AS locked
FROM move m LEFT JOIN locked USING (agent_id) LEFT JOIN moved USING (agent_id)
"""

UPDATE_WAITING = MOVE.replace(" SKIP LOCKED", "")

WRITTEN_FIELDS = tuple(
    field.name for field in fields(AgentState) if field.name not in {"agent_id", "wake_seq", "version"}
)
NOTICE_COLUMNS = 4


def update_parameters(updates: Sequence[StateUpdate]) -> Iterable[Sequence[Any]]:
    """Those of MOVE."""
    receipts = {update.before.agent_id: update.receipt for update in updates if update.receipt is not None}
    remarks = {update.before.agent_id: update.notice for update in updates if update.notice is not None}
    columns = zip(*map(_update_row, updates), strict=True)
    return (
        *columns,
        list(receipts),
        *receipt_columns(list(receipts.values())),
        list(remarks),
        *_notice_columns(remarks.values()),
    )


def _notice_columns(remarks: Iterable[SystemNotice]) -> Sequence[Sequence[Any]]:
    rows = ((notice.id, notice.title, notice.body, notice.created_at) for notice in remarks)
    return list(zip(*rows, strict=True)) or [()] * NOTICE_COLUMNS


def _update_row(update: StateUpdate) -> tuple[Any, ...]:
    before, after, start, end = update.before, update.after, update.start, update.end
    return (
        before.agent_id,
        before.status,
        before.run_id,
        before.version,
        before.wake_seq if update.guarded else None,
        *(getattr(after, name) for name in WRITTEN_FIELDS),
        *(
            (None,) * 6
            if start is None
            else (
                start.run_id,
                start.wake_reason,
                start.interrupted_sleep_until,
                start.max_sleep_until,
                start.started_at,
                start.trace_name,
            )
        ),
        *((None,) * 5 if end is None else (end.run_id, end.outcome, end.ended_at, end.turns, end.error)),
    )
