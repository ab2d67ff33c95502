"""State updates on their way to storage: one statement for all that are made together."""

from collections.abc import Callable, Sequence
from uuid import UUID

from storage.agent_facts import RunEnd, RunStart, StateUpdate, SystemNotice
from storage.delivery.receipts import RECEIPT
from storage.events.model import NewEvent
from storage.postgres.pool import Fetch
from storage.postgres.statement import Columns, Statement, arrays_of

MAX_RUN_NOTIFICATIONS = 1000  # of those active when a run starts: the ids that its row keeps


def _of_start(value_of: Callable[[RunStart], object]) -> Callable[[StateUpdate], object]:
    """Return a function that reads the run which an update starts; None for an update that starts none."""
    return lambda update: None if update.start is None else value_of(update.start)


def _of_end(value_of: Callable[[RunEnd], object]) -> Callable[[StateUpdate], object]:
    """Return a function that reads the end which an update gives to its run; None if the run goes on."""
    return lambda update: None if update.end is None else value_of(update.end)


ITEM: Columns[StateUpdate] = {
    "agent_id": lambda update: update.before.agent_id,
    "seen_status": lambda update: update.before.status,
    "seen_run_id": lambda update: update.before.run_id,
    "seen_version": lambda update: update.before.version,
    "seen_seq": lambda update: update.before.wake_seq if update.guarded else None,
    "status": lambda update: update.after.status,
    "run_id": lambda update: update.after.run_id,
    "run_started_at": lambda update: update.after.run_started_at,
    "last_wake_reason": lambda update: update.after.last_wake_reason,
    "last_wake_interrupted_sleep_until": lambda update: update.after.last_wake_interrupted_sleep_until,
    "sleep_until": lambda update: update.after.sleep_until,
    "max_sleep_until": lambda update: update.after.max_sleep_until,
    "last_started_at": lambda update: update.after.last_started_at,
    "last_ended_at": lambda update: update.after.last_ended_at,
    "stopped_at": lambda update: update.after.stopped_at,
    "stop_reason": lambda update: update.after.stop_reason,
    "run_requested_at": lambda update: update.after.run_requested_at,
    "queued_at": lambda update: update.after.queued_at,
    "failures": lambda update: update.after.failures,
    "retries": lambda update: update.after.retries,
    "left_over": lambda update: update.after.left_over,
    "retry_at": lambda update: update.after.retry_at,
    "retry_reason": lambda update: update.after.retry_reason,
    "last_error": lambda update: update.after.last_error,
    "next_due_at": lambda update: update.after.next_due_at,
    "seen_until": lambda update: update.after.seen_until,
    "phase": lambda update: update.after.phase,
    "phase_since": lambda update: update.after.phase_since,
    "why_digest": lambda update: update.after.why_digest,
    "paused": lambda update: update.after.paused,
    "start_id": _of_start(lambda start: start.run_id),
    "start_reason": _of_start(lambda start: start.wake_reason),
    "start_interrupted": _of_start(lambda start: start.interrupted_sleep_until),
    "start_max_sleep_until": _of_start(lambda start: start.max_sleep_until),
    "start_at": _of_start(lambda start: start.started_at),
    "start_name": _of_start(lambda start: start.trace_name),
    "end_id": _of_end(lambda end: end.run_id),
    "end_outcome": _of_end(lambda end: end.outcome),
    "end_at": _of_end(lambda end: end.ended_at),
    "end_turns": _of_end(lambda end: end.turns),
    "end_error": _of_end(lambda end: end.error),
    "end_output": _of_end(lambda end: end.output),
    "end_journal": _of_end(lambda end: end.journal or None),
}

NOTICE: Columns[tuple[UUID, SystemNotice]] = {
    "notice_agent_id": lambda item: item[0],
    "notice_id": lambda item: item[1].id,
    "notice_title": lambda item: item[1].title,
    "notice_body": lambda item: item[1].body,
    "notice_created_at": lambda item: item[1].created_at,
    "notice_budget": lambda item: item[1].budget,
}

EVENT: Columns[tuple[UUID, NewEvent]] = {
    "event_agent_id": lambda item: item[0],
    "event_type": lambda item: item[1].type,
    "event_at": lambda item: item[1].at,
    "event_run_id": lambda item: item[1].run_id,
    "event_resource_id": lambda item: item[1].resource_id,
    "event_actor": lambda item: item[1].actor,
    "event_phase": lambda item: item[1].phase,
    "event_data": lambda item: item[1].data,
}

# Many updates share one statement and one commit. Rows are locked in id order, so that two batches (or a
# batch and an insert into the queue) cannot deadlock. An update is made only if its guard still holds on the
# newest version of the row and nobody has updated the row since: an update that was given up because its
# answer was lost may still be committed much later. SKIP LOCKED passes over rows that another transaction
# holds, so that such a row delays no other agent; `update_states` reports them, and the caller makes those
# updates one by one after locking the row. The journal of an ended run gets titles and messages here, along
# primary keys and the index of the run's messages: the end of a run must not cost a statement more. A sleep
# is granted only if nothing is active, so only a run that ended otherwise has left something uncleared.
UPDATE = Statement(
    """
WITH item AS (
    SELECT * FROM unnest(
        :agent_id::uuid[], :seen_status::text[], :seen_run_id::uuid[], :seen_version::bigint[],
        :seen_seq::bigint[], :status::text[], :run_id::uuid[], :run_started_at::timestamptz[],
        :last_wake_reason::text[], :last_wake_interrupted_sleep_until::timestamptz[],
        :sleep_until::timestamptz[], :max_sleep_until::timestamptz[], :last_started_at::timestamptz[],
        :last_ended_at::timestamptz[], :stopped_at::timestamptz[], :run_requested_at::timestamptz[],
        :queued_at::timestamptz[], :failures::integer[], :retries::integer[], :left_over::integer[],
        :retry_at::timestamptz[], :retry_reason::text[], :last_error::text[],
        :next_due_at::timestamptz[], :seen_until::timestamptz[], :start_id::uuid[],
        :start_reason::text[], :start_interrupted::timestamptz[],
        :start_max_sleep_until::timestamptz[], :start_at::timestamptz[], :start_name::text[],
        :end_id::uuid[], :end_outcome::text[], :end_at::timestamptz[], :end_turns::integer[],
        :end_error::text[], :end_journal::text[], :stop_reason::text[], :end_output::text[],
        :phase::text[], :phase_since::timestamptz[], :why_digest::bigint[], :paused::boolean[]
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
           coalesce(active.ids[1 : :max_notifications::integer], '{}'),
           greatest(active.count - :max_notifications::integer, 0),
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
        :receipt_agent_id::uuid[], :receipt_credential::uuid[], :receipt_method::text[],
        :receipt_path::text[], :receipt_key::text[], :receipt_body_hash::bytea[],
        :receipt_status::smallint[], :receipt_answer::bytea[], :receipt_created_at::timestamptz[]
    ) AS r (agent_id, credential, method, path, key, body_hash, status, answer, created_at)
    JOIN updated USING (agent_id)
), inserted_notice AS (
    INSERT INTO notification (id, organization_id, agent_id, source, title, body, created_at)
    SELECT r.id, updated.organization_id, agent_id, 'system', r.title, r.body, r.created_at
    FROM unnest(
        :notice_agent_id::uuid[], :notice_id::uuid[], :notice_title::text[], :notice_body::text[],
        :notice_created_at::timestamptz[]
    )
        AS r (agent_id, id, title, body, created_at)
    JOIN updated USING (agent_id)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, organization_id, agent_id, created_at
), event_row AS (
    SELECT e.at, e.type, updated.organization_id, agent_id, e.run_id, e.resource_id, e.actor, e.phase,
           e.data, e.ordinal
    FROM unnest(
        :event_agent_id::uuid[], :event_type::text[], :event_at::timestamptz[], :event_run_id::uuid[],
        :event_resource_id::uuid[], :event_actor::text[], :event_phase::text[], :event_data::text[]
    ) WITH ORDINALITY AS e (agent_id, type, at, run_id, resource_id, actor, phase, data, ordinal)
    JOIN updated USING (agent_id)
    UNION ALL
    SELECT n.created_at, e.type, n.organization_id, n.agent_id, NULL, e.resource_id, '', NULL, e.data, NULL
    FROM inserted_notice n
    JOIN unnest(:notice_id::uuid[], :notice_budget::text[]) AS r (id, budget) USING (id)
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
    """,
    [*ITEM, *RECEIPT, "receipt_agent_id", *NOTICE, *EVENT, "max_notifications"],
)


async def update_states(fetch: Fetch, updates: Sequence[StateUpdate]) -> dict[UUID, bool | None]:
    """Make the updates, at most one for each agent, and return by agent whether its update was made.

    None stands for a row that another transaction holds: its update was not tried.
    """
    receipts = {update.before.agent_id: update.receipt for update in updates if update.receipt is not None}
    notices = [(update.before.agent_id, update.notice) for update in updates if update.notice is not None]
    events = [(update.before.agent_id, event) for update in updates for event in update.events]
    statement = UPDATE.given(
        arrays_of(ITEM, updates)
        | arrays_of(RECEIPT, list(receipts.values()))
        | arrays_of(NOTICE, notices)
        | arrays_of(EVENT, events),
        receipt_agent_id=list(receipts),
        max_notifications=MAX_RUN_NOTIFICATIONS,
    )
    rows = await fetch(*statement)
    return {row["agent_id"]: row["updated"] if row["locked"] else None for row in rows}
