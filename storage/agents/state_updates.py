"""State updates on their way to storage: one statement for all that are made together."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from storage.agent_facts import RunEnd, RunStart, StateUpdate, SystemNotice
from storage.delivery.receipts import receipt_columns
from storage.postgres.pool import Fetch

# Many updates share one statement and one commit. Rows are locked in id order, so that two batches (or a
# batch and an insert into the queue) cannot deadlock. An update is made only if its guard still holds on the
# newest version of the row and nobody has updated the row since: an update that was given up because its
# answer was lost may still be committed much later. SKIP LOCKED passes over rows that another transaction
# holds, so that such a row delays no other agent; `update_states` reports them, and the caller makes those
# updates one by one after locking the row. The journal of an ended run gets titles and messages here, along
# primary keys and the index of the run's messages: the end of a run must not cost a statement more. A sleep
# is granted only if nothing is active, so only a run that ended otherwise has left something uncleared.
UPDATE = """
WITH item AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::bigint[],
        $6::text[], $7::uuid[], $8::timestamptz[], $9::text[], $10::timestamptz[],
        $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[],
        $16::timestamptz[], $17::timestamptz[], $18::integer[], $19::integer[], $20::integer[],
        $21::timestamptz[], $22::text[], $23::text[], $24::timestamptz[], $25::timestamptz[],
        $26::uuid[], $27::text[], $28::timestamptz[], $29::timestamptz[], $30::timestamptz[], $31::text[],
        $32::uuid[], $33::text[], $34::timestamptz[], $35::integer[], $36::text[], $37::text[], $53::text[],
        $54::text[], $55::text[], $56::timestamptz[], $57::bigint[], $67::boolean[]
    ) AS i (
        agent_id, seen_status, seen_run_id, seen_version, seen_seq,
        status, run_id, run_started_at, last_wake_reason, last_wake_interrupted_sleep_until,
        sleep_until, max_sleep_until, last_started_at, last_ended_at, stopped_at,
        run_requested_at, queued_at, failures, retries, left_over,
        retry_at, retry_reason, last_error, next_due_at, seen_until,
        start_id, start_reason, start_interrupted, start_max_sleep_until, start_at, start_name,
        end_id, end_outcome, end_at, end_turns, end_error, end_journal, stop_reason,
        end_output, phase, phase_since, why_digest, paused
    )
), locked AS MATERIALIZED (
    SELECT i.* FROM agent_state s JOIN item i USING (agent_id)
    ORDER BY s.agent_id FOR NO KEY UPDATE OF s SKIP LOCKED
), updated AS (
    UPDATE agent_state s
    SET version = s.version + 1, status = i.status, run_id = i.run_id, run_started_at = i.run_started_at,
        last_wake_reason = i.last_wake_reason,
        last_wake_interrupted_sleep_until = i.last_wake_interrupted_sleep_until,
        sleep_until = i.sleep_until, max_sleep_until = i.max_sleep_until,
        last_started_at = i.last_started_at, last_ended_at = i.last_ended_at, stopped_at = i.stopped_at,
        run_requested_at = i.run_requested_at, queued_at = i.queued_at,
        failures = i.failures, retries = i.retries, left_over = i.left_over, retry_at = i.retry_at,
        retry_reason = i.retry_reason, last_error = i.last_error, next_due_at = i.next_due_at,
        seen_until = i.seen_until, stop_reason = i.stop_reason,
        phase = i.phase, phase_since = i.phase_since, why_digest = i.why_digest,
        paused = i.paused
    FROM locked i
    WHERE s.agent_id = i.agent_id
      AND s.status = i.seen_status
      AND s.run_id IS NOT DISTINCT FROM i.seen_run_id
      AND s.version = i.seen_version
      AND (i.seen_seq IS NULL OR s.wake_seq = i.seen_seq)
    RETURNING s.agent_id, s.organization_id
), started_run AS (
    INSERT INTO run (id, agent_id, organization_id, wake_reason, notifications, notifications_left_out,
                     interrupted_sleep_until, max_sleep_until, started_at)
    SELECT i.start_id, i.agent_id, updated.organization_id, i.start_reason,
           coalesce(active.ids[1:$52::integer], '{}'), greatest(active.count - $52::integer, 0),
           i.start_interrupted, i.start_max_sleep_until, i.start_at
    FROM updated JOIN item i USING (agent_id)
    CROSS JOIN LATERAL (
        SELECT array_agg(n.id ORDER BY n.activated_at, n.id) AS ids, count(*) AS count FROM notification n
        WHERE n.agent_id = i.agent_id AND n.activated_at IS NOT NULL
          AND (n.activated_at <= i.start_at OR n.scheduled_for IS DISTINCT FROM n.activated_at)
    ) active
    WHERE i.start_id IS NOT NULL
    RETURNING id, agent_id, organization_id
), started_trace AS (
    INSERT INTO trace (id, organization_id, agent_id, name, started_at)
    SELECT r.id, r.organization_id, r.agent_id, i.start_name, i.start_at
    FROM started_run r JOIN item i USING (agent_id)
), ended_run AS (
    UPDATE run r SET ended_at = i.end_at, outcome = i.end_outcome, turns = i.end_turns, error = i.end_error,
        output = i.end_output,
        stop_reason = CASE WHEN i.end_outcome = 'stopped' THEN i.stop_reason ELSE '' END,
        journal = CASE WHEN i.end_journal IS NOT NULL THEN json_build_object(
            'woken_by', (
                SELECT coalesce(json_agg(left(n.title, 100) ORDER BY w.place), '[]')
                FROM unnest(r.notifications[1:10]) WITH ORDINALITY AS w (id, place)
                JOIN notification n ON n.id = w.id
            ),
            'cleared', (
                SELECT coalesce(json_agg(c.title ORDER BY c.place) FILTER (WHERE c.title IS NOT NULL), '[]')
                FROM (
                    SELECT c.place, (SELECT left(n.title, 100) FROM notification n
                                     WHERE n.id = c.id::uuid AND n.agent_id = r.agent_id) AS title
                    FROM json_array_elements_text(i.end_journal::json -> 'cleared')
                        WITH ORDINALITY AS c (id, place)
                ) c
            ),
            'cleared_count', i.end_journal::json -> 'cleared_count',
            'uncleared', left_over.first,
            'uncleared_count', left_over.count,
            'sent', (
                SELECT coalesce(json_agg(s.message ORDER BY s.created_at, s.id), '[]') FROM (
                    SELECT m.created_at, m.id, json_build_object('contact', m.contact_id,
                        'name', left(CASE c.name WHEN '' THEN m.address ELSE c.name END, 100),
                        'channel', m.channel, 'status', m.status) AS message
                    FROM message m LEFT JOIN contact c ON c.id = m.contact_id
                    WHERE m.run_id = r.id ORDER BY m.created_at, m.id LIMIT 10
                ) s
            ),
            'sent_count', (SELECT count(*) FROM message m WHERE m.run_id = r.id),
            'tools', i.end_journal::json -> 'tools',
            'cost_usd', i.end_journal::json -> 'cost_usd'
        ) END
    FROM updated JOIN item i USING (agent_id)
    CROSS JOIN LATERAL (
        SELECT count(*) AS count, coalesce(
            json_agg(json_build_object('id', n.id, 'title', left(n.title, 100)) ORDER BY n.place)
            FILTER (WHERE n.place <= 10), '[]') AS first
        FROM (
            SELECT n.id, n.title, row_number() OVER (ORDER BY n.activated_at, n.id) AS place
            FROM notification n
            WHERE i.end_outcome <> 'slept' AND n.agent_id = i.agent_id AND n.activated_at IS NOT NULL
              AND (n.activated_at <= i.end_at OR n.scheduled_for IS DISTINCT FROM n.activated_at)
            ORDER BY n.activated_at, n.id LIMIT 1000
        ) n
    ) left_over
    WHERE r.id = i.end_id AND r.ended_at IS NULL
), ended_trace AS (
    UPDATE trace t SET ended_at = greatest(i.end_at, t.started_at),
        error = coalesce(nullif(i.end_error, ''), t.error),
        metadata = CASE WHEN json_typeof(t.metadata) = 'object'
                             AND (i.end_output <> '' OR (i.end_outcome = 'stopped' AND i.stop_reason <> ''))
                        THEN (t.metadata::jsonb || jsonb_strip_nulls(jsonb_build_object(
                            'output', nullif(i.end_output, ''),
                            'stop_reason', CASE WHEN i.end_outcome = 'stopped'
                                                THEN nullif(i.stop_reason, '') END)))::json
                        ELSE t.metadata END
    FROM updated JOIN item i USING (agent_id)
    WHERE t.id = i.end_id AND t.ended_at IS NULL
), inserted_receipt AS (
    INSERT INTO receipt (
        credential, method, path, key, body_hash, status, answer, created_at, organization_id)
    SELECT r.credential, r.method, r.path, r.key, r.body_hash, r.status, r.answer, r.created_at,
           updated.organization_id
    FROM unnest(
        $38::uuid[],
        $39::uuid[], $40::text[], $41::text[], $42::text[], $43::bytea[], $44::smallint[], $45::bytea[],
        $46::timestamptz[]
    ) AS r (agent_id, credential, method, path, key, body_hash, status, answer, created_at)
    JOIN updated USING (agent_id)
), inserted_notice AS (
    INSERT INTO notification (id, organization_id, agent_id, source, title, body, created_at)
    SELECT r.id, updated.organization_id, agent_id, 'system', r.title, r.body, r.created_at
    FROM unnest($47::uuid[], $48::uuid[], $49::text[], $50::text[], $51::timestamptz[])
        AS r (agent_id, id, title, body, created_at)
    JOIN updated USING (agent_id)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, organization_id, agent_id, created_at
), event_row AS (
    SELECT e.at, e.type, updated.organization_id, agent_id, e.run_id, e.resource_id, e.actor, e.phase,
           e.data, e.ordinal
    FROM unnest(
        $58::uuid[], $59::text[], $60::timestamptz[], $61::uuid[], $62::uuid[], $63::text[], $64::text[],
        $65::text[]
    ) WITH ORDINALITY AS e (agent_id, type, at, run_id, resource_id, actor, phase, data, ordinal)
    JOIN updated USING (agent_id)
    UNION ALL
    SELECT n.created_at, e.type, n.organization_id, n.agent_id, NULL, e.resource_id, '', NULL, e.data, NULL
    FROM inserted_notice n JOIN unnest($48::uuid[], $66::text[]) AS r (id, budget) USING (id)
    CROSS JOIN LATERAL (VALUES
        ('notification.created', n.id, '{"source":"system","priority":"low"}'),
        ('budget.reached', NULL, r.budget)) AS e (type, resource_id, data)
    WHERE e.data <> ''
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, phase, data)
    SELECT at, type, organization_id, agent_id, run_id, resource_id, actor, phase, data::json
    FROM event_row ORDER BY ordinal
)
SELECT i.agent_id, updated.agent_id IS NOT NULL AS updated, locked.agent_id IS NOT NULL AS locked
FROM item i LEFT JOIN locked USING (agent_id) LEFT JOIN updated USING (agent_id)
"""

MAX_RUN_NOTIFICATIONS = 1000  # of those active when a run starts: the ids that its row keeps
NOTICE_COLUMN_COUNT = 4
EVENT_COLUMN_COUNT = 8
NO_START = (None,) * 6
NO_END = (None,) * 6


async def update_states(fetch: Fetch, updates: Sequence[StateUpdate]) -> dict[UUID, bool | None]:
    """Make the updates, at most one for each agent, and return by agent whether its update was made.

    None stands for a row that another transaction holds: its update was not tried.
    """
    rows = await fetch(UPDATE, *_parameters(updates))
    return {row["agent_id"]: row["updated"] if row["locked"] else None for row in rows}


def _parameters(updates: Sequence[StateUpdate]) -> Iterable[Any]:
    receipts = {update.before.agent_id: update.receipt for update in updates if update.receipt is not None}
    notices = {update.before.agent_id: update.notice for update in updates if update.notice is not None}
    columns = zip(*map(_update_row, updates), strict=True)
    return (
        *columns,
        list(receipts),
        *receipt_columns(list(receipts.values())),
        list(notices),
        *_notice_columns(notices.values()),
        MAX_RUN_NOTIFICATIONS,
        [update.after.stop_reason for update in updates],
        [update.end.output if update.end else "" for update in updates],
        [update.after.phase for update in updates],
        [update.after.phase_since for update in updates],
        [update.after.why_digest for update in updates],
        *_event_columns(updates),
        [notice.budget for notice in notices.values()],
        [update.after.paused for update in updates],
    )


def _event_columns(updates: Sequence[StateUpdate]) -> Sequence[Sequence[Any]]:
    rows = (
        (
            update.before.agent_id,
            event.type,
            event.at,
            event.run_id,
            event.resource_id,
            event.actor,
            event.phase,
            event.data,
        )
        for update in updates
        for event in update.events
    )
    return list(zip(*rows, strict=True)) or [()] * EVENT_COLUMN_COUNT


def _notice_columns(notices: Iterable[SystemNotice]) -> Sequence[Sequence[Any]]:
    rows = ((notice.id, notice.title, notice.body, notice.created_at) for notice in notices)
    return list(zip(*rows, strict=True)) or [()] * NOTICE_COLUMN_COUNT


def _update_row(update: StateUpdate) -> tuple[Any, ...]:
    before, after = update.before, update.after
    return (
        before.agent_id,
        before.status,
        before.run_id,
        before.version,
        before.wake_seq if update.guarded else None,
        after.status,
        after.run_id,
        after.run_started_at,
        after.last_wake_reason,
        after.last_wake_interrupted_sleep_until,
        after.sleep_until,
        after.max_sleep_until,
        after.last_started_at,
        after.last_ended_at,
        after.stopped_at,
        after.run_requested_at,
        after.queued_at,
        after.failures,
        after.retries,
        after.left_over,
        after.retry_at,
        after.retry_reason,
        after.last_error,
        after.next_due_at,
        after.seen_until,
        *(NO_START if update.start is None else _start_row(update.start)),
        *(NO_END if update.end is None else _end_row(update.end)),
    )


def _start_row(start: RunStart) -> tuple[Any, ...]:
    return (
        start.run_id,
        start.wake_reason,
        start.interrupted_sleep_until,
        start.max_sleep_until,
        start.started_at,
        start.trace_name,
    )


def _end_row(end: RunEnd) -> tuple[Any, ...]:
    return end.run_id, end.outcome, end.ended_at, end.turns, end.error, end.journal or None
