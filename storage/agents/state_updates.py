"""State updates on their way to storage: one statement for all that are made together."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from storage.agent_facts import AgentState, RunEnd, RunStart, StateUpdate, SystemNotice
from storage.delivery.receipts import RECEIPT
from storage.events.model import NewEvent
from storage.postgres.pool import Fetch
from storage.postgres.statement import Columns, Statement, columns_of, values_of

Part = TypeVar("Part")

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
    **columns_of(AgentState, path="after.", without=("agent_id", "wake_seq", "version")),
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

NOTICE = columns_of(SystemNotice)
EVENT = columns_of(NewEvent, without=("agent_id",))

# Many updates share one statement and one commit. Rows are locked in id order, so that two batches (or a
# batch and an insert into the queue) cannot deadlock. An update is made only if its guard still holds on the
# newest version of the row and nobody has updated the row since: an update that was given up because its
# answer was lost may still be committed much later. SKIP LOCKED passes over rows that another transaction
# holds, so that such a row delays no other agent; `update_states` reports them, and the caller makes those
# updates one by one after locking the row. The journal of an ended run gets titles and messages here, along
# primary keys and the index of the run's messages: the end of a run must not cost a statement more. A sleep
# is granted only if nothing is active, so only a run that ended otherwise has left something uncleared.
# Receipts are inserted in the order of their keys, so that batches with the same repeats cannot deadlock.
#
# What an update brings is JSON, because asyncpg takes longer for an array of each column. The updates are an
# array of documents: of a single one the planner would expect a hundred rows, and read the whole agent_state.
UPDATE = Statement(
    """
WITH item AS (
    SELECT i.* FROM unnest(:item::json[]) AS u (item) CROSS JOIN json_to_record(u.item) AS i (
        agent_id uuid, seen_status text, seen_run_id uuid, seen_version bigint, seen_seq bigint,
        status text, run_id uuid, run_started_at timestamptz, last_wake_reason text,
        last_wake_interrupted_sleep_until timestamptz, sleep_until timestamptz, max_sleep_until timestamptz,
        last_started_at timestamptz, last_ended_at timestamptz, stopped_at timestamptz, stop_reason text,
        run_requested_at timestamptz, queued_at timestamptz, failures integer, retries integer,
        left_over integer, retry_at timestamptz, retry_reason text, last_error text, next_due_at timestamptz,
        seen_until timestamptz, phase text, phase_since timestamptz, why_digest bigint, paused boolean,
        node_id integer, lingers boolean,
        start_id uuid, start_reason text, start_interrupted timestamptz, start_max_sleep_until timestamptz,
        start_at timestamptz, start_name text, end_id uuid, end_outcome text, end_at timestamptz,
        end_turns integer, end_error text, end_output text, end_journal text)
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
        paused = i.paused, node_id = i.node_id, lingers = i.lingers
    FROM locked i
    WHERE s.agent_id = i.agent_id
      AND s.status = i.seen_status
      AND s.run_id IS NOT DISTINCT FROM i.seen_run_id
      AND s.version = i.seen_version
      AND (i.seen_seq IS NULL OR s.wake_seq = i.seen_seq)
    RETURNING s.agent_id, s.organization_id
), started_run AS (
    INSERT INTO run (id, agent_id, organization_id, wake_reason, notifications, notifications_left_out,
                     interrupted_sleep_until, max_sleep_until, started_at, node_id, prompt)
    SELECT i.start_id, i.agent_id, updated.organization_id, i.start_reason,
           coalesce(active.ids[1 : :max_notifications::integer], '{}'),
           greatest(active.count - :max_notifications::integer, 0),
           i.start_interrupted, i.start_max_sleep_until, i.start_at, i.node_id, (
               SELECT CASE
                   WHEN a.system_prompt <> ''
                   THEN json_build_object('of', 'agent', 'id', a.id, 'version', a.prompt_version)
                   WHEN t.system_prompt <> ''
                   THEN json_build_object('of', 'template', 'id', t.id, 'version', t.prompt_version) END
               FROM agent a LEFT JOIN template t ON t.id = a.template_id WHERE a.id = i.agent_id
           )
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
        failed_calls = coalesce((i.end_journal::json ->> 'failed_calls')::integer, 0),
        needs_person = CASE
            WHEN i.end_outcome = 'stopped' THEN false
            -- The agent goes on, but nothing wakes it for what is cleared.
            WHEN i.end_outcome = 'interrupted' THEN i.end_journal::json -> 'unanswered' ->> 0 IS NOT NULL
            -- The agent tries again, with all that it was woken for.
            WHEN i.retry_at IS NOT NULL AND i.end_journal::json ->> 'cleared_count' = '0' THEN false
            WHEN i.end_journal::json ->> 'trouble' = 'unsent' THEN messages.failed + messages.queued = 0
            ELSE coalesce(i.end_journal::json ->> 'trouble' = 'unsolved', false) END,
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
            'sent_count', messages.sent,
            'failed_count', messages.failed,
            'unanswered', i.end_journal::json -> 'unanswered',
            'tools', i.end_journal::json -> 'tools',
            'cost_usd', i.end_journal::json -> 'cost_usd',
            'unpriced_calls', i.end_journal::json -> 'unpriced_calls'
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
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE m.status = 'sent') AS sent,
               count(*) FILTER (WHERE m.status = 'failed') AS failed,
               count(*) FILTER (WHERE m.status = 'queued') AS queued
        FROM message m WHERE m.run_id = i.end_id
    ) messages
    WHERE r.id = i.end_id AND r.ended_at IS NULL
), left_queued AS (
    UPDATE message m SET needs_person = true FROM updated JOIN item i USING (agent_id)
    WHERE m.run_id = i.end_id AND m.status = 'queued' AND i.end_outcome <> 'slept'
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
    FROM json_to_recordset(:receipts::json) AS r (
        agent_id uuid, credential uuid, method text, path text, key text, body_hash bytea,
        status smallint, answer bytea, created_at timestamptz)
    JOIN updated USING (agent_id)
    ORDER BY r.credential, r.method, r.path, r.key
), inserted_notice AS (
    INSERT INTO notification (id, organization_id, agent_id, source, title, body, created_at)
    SELECT r.id, updated.organization_id, agent_id, 'system', r.title, r.body, r.created_at
    FROM json_to_recordset(:notices::json) AS r (
        agent_id uuid, id uuid, title text, body text, created_at timestamptz)
    JOIN updated USING (agent_id)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, organization_id, agent_id, created_at
), event_row AS (
    SELECT e.at, e.type, updated.organization_id, agent_id, e.run_id, e.resource_id, e.actor, e.phase,
           e.data, e.address, e.ordinal
    FROM ROWS FROM (
        json_to_recordset(:events::json) AS (
            agent_id uuid, type text, at timestamptz, run_id uuid, resource_id uuid, actor text, phase text,
            data text, address text)
    ) WITH ORDINALITY AS e (agent_id, type, at, run_id, resource_id, actor, phase, data, address, ordinal)
    JOIN updated USING (agent_id)
    UNION ALL
    SELECT n.created_at, e.type, n.organization_id, n.agent_id, NULL, e.resource_id, '', NULL,
           e.data, '', NULL
    FROM inserted_notice n
    JOIN json_to_recordset(:notices::json) AS r (id uuid, budget text) USING (id)
    CROSS JOIN LATERAL (VALUES
        ('notification.created', n.id, '{"source":"system","priority":"low"}'),
        ('budget.reached', NULL, r.budget)) AS e (type, resource_id, data)
    WHERE e.data <> ''
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, phase, data, address)
    SELECT at, type, organization_id, agent_id, run_id, resource_id, actor, phase, data::json, address
    FROM event_row ORDER BY ordinal
)
SELECT i.agent_id, updated.agent_id IS NOT NULL AS updated, locked.agent_id IS NOT NULL AS locked
FROM item i LEFT JOIN locked USING (agent_id) LEFT JOIN updated USING (agent_id)
    """,
    ["item", "receipts", "notices", "events", "max_notifications"],
)


async def update_states(fetch: Fetch, updates: Sequence[StateUpdate]) -> dict[UUID, bool | None]:
    """Make the updates, at most one for each agent, and return by agent whether its update was made.

    None stands for a row that another transaction holds: its update was not tried.
    """
    statement = UPDATE.given(
        item=[values_of(ITEM, update) for update in updates],
        receipts=[_row(update, RECEIPT, update.receipt) for update in updates if update.receipt is not None],
        notices=[_row(update, NOTICE, update.notice) for update in updates if update.notice is not None],
        events=[_row(update, EVENT, event) for update in updates for event in update.events],
        max_notifications=MAX_RUN_NOTIFICATIONS,
    )
    rows = await fetch(*statement)
    return {row["agent_id"]: row["updated"] if row["locked"] else None for row in rows}


def _row(update: StateUpdate, columns: Columns[Part], part: Part) -> dict[str, object]:
    """Return what an update brings with it as a row, with the id of the agent."""
    return {"agent_id": update.before.agent_id, **values_of(columns, part)}
