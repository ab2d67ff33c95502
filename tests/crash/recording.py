"""Read the database once all agents are at rest, as a program that is not the service."""

from collections import defaultdict
from datetime import timedelta
from typing import Any

import aiopg

from tests.acceptance.client import Client, eventually
from tests.acceptance.services import Services
from tests.crash.event_verdict import EventRow, judge_events
from tests.crash.ledger import Ledger
from tests.crash.load import Load
from tests.crash.verdict import Found, NoteRow, RunRow, StateRow, judge

# Agents with something still ahead: all but stopped and quarantined ones.
UNSETTLED = """
SELECT s.agent_id::text FROM agent_state s JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
WHERE (s.failures < 5 OR s.retry_at IS NULL)
  AND (s.run_id IS NOT NULL OR s.next_due_at IS NOT NULL
       OR coalesce(s.queued_at, s.run_requested_at, s.retry_at, s.sleep_until) IS NOT NULL
       OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id
                  AND n.activated_at > coalesce(s.stopped_at, '-infinity')))
"""

QUARANTINED = """
SELECT s.agent_id::text FROM agent_state s JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
WHERE s.failures >= 5 AND s.retry_at IS NOT NULL
"""

LATEST_OUTCOMES = "SELECT outcome FROM run WHERE agent_id = %s ORDER BY started_at DESC LIMIT 5"

FAILURES = frozenset({"failed", "timed_out", "interrupted"})

NOTES = """
SELECT n.id::text, n.agent_id::text, n.title, n.source, n.priority, n.cleared_at, n.activated_at
FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
"""

STATES = """
SELECT s.agent_id::text, a.name, s.run_id::text, s.stopped_at
FROM agent_state s JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
"""

RUNS = """
SELECT id::text, agent_id::text, wake_reason, notifications::text[], started_at, ended_at, outcome
FROM run ORDER BY agent_id, started_at, id
"""

# Deleting an agent ends its run and asks it to stop afterwards, which may take one more step.
LATE_SPANS = """
SELECT s.id::text FROM span s JOIN run r ON r.id = s.trace_id
WHERE s.started_at > r.ended_at + %s AND r.error <> 'deleted'
"""

OPEN_TRACES = """
SELECT t.id::text FROM trace t JOIN agent a ON a.id = t.agent_id AND a.deleted_at IS NULL
WHERE t.ended_at IS NULL
"""

EVENTS = "SELECT id, type, agent_id::text, run_id::text, resource_id::text FROM event ORDER BY id"


async def all_is_kept(load: Load, services: Services, standstill: timedelta = timedelta()) -> Found:
    """Wait until all agents are at rest, then fail with every breach of an acknowledged write.

    After a standstill of the database, a run may have gone on for as long without knowing that it was over.
    """
    await load.find_service()
    ledger, client, database_url = load.ledger, load.client, services.database["url"]
    await _come_to_rest(client, database_url)
    found = await _record(database_url, standstill)
    events = [EventRow(*row) for row in await _query(database_url, EVENTS)]
    breaches = judge(ledger, found) + judge_events(ledger, found, events)
    breaches += await _unreadable(ledger, client) + services.crashes()
    assert not breaches, f"{ledger}, and {len(breaches)} breaches:\n" + "\n".join(breaches)
    return found


async def _come_to_rest(client: Client, database_url: str) -> None:
    """Wait until all agents are at rest. Quarantined ones get a run request instead of their wait."""

    async def look() -> bool | None:
        if unsettled := await _query(database_url, UNSETTLED):
            waiting[:] = [agent for (agent,) in unsettled]
            return None
        for (agent,) in await _query(database_url, QUARANTINED):
            outcomes = {outcome for (outcome,) in await _query(database_url, LATEST_OUTCOMES, agent)}
            assert outcomes <= FAILURES, f"{agent} is quarantined after {outcomes}"
            await client.post(f"/api/cloud/agents/{agent}/run/")
            return None
        return True

    waiting: list[str] = []
    try:
        await eventually(look, "every agent to come to rest")
    except AssertionError as error:
        shown = [await client.supervisor(agent) for agent in waiting[:3]]
        raise AssertionError(f"{error}; {len(waiting)} have not, such as {shown}") from None


async def _record(database_url: str, standstill: timedelta) -> Found:
    runs: dict[str, list[RunRow]] = defaultdict(list)
    for run, agent, reason, notifications, *times in await _query(database_url, RUNS):
        runs[agent].append(RunRow(run, agent, reason, tuple(notifications), *times))
    return Found(
        notes={row[0]: NoteRow(*row) for row in await _query(database_url, NOTES)},
        states={row[0]: StateRow(*row) for row in await _query(database_url, STATES)},
        runs=runs,
        late_spans=[span for (span,) in await _query(database_url, LATE_SPANS, standstill)],
        open_traces=[trace for (trace,) in await _query(database_url, OPEN_TRACES)],
        standstill=standstill,
    )


async def _unreadable(ledger: Ledger, client: Client) -> list[str]:
    """Return what the database has and the service does not show to the client that wrote it."""
    breaches = []
    for agent in ledger.agents.values():
        if agent.in_doubt == "DELETE":
            continue
        status = await client.status_of(f"/api/cloud/agents/{agent.id}/")
        if status != (404 if agent.is_deleted else 200):
            breaches.append(f"{agent.id}, deleted: {agent.is_deleted}, is answered with {status}")
        elif not agent.is_deleted:
            shown = {note["id"] for note in await client.notifications(agent.id)}
            missing = {note.id for note in agent.notes if note.is_settled} - shown
            breaches += [f"notification {note} of {agent.id} is not shown" for note in missing]
    return breaches


async def _query(database_url: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = await cursor.fetchall()
        return rows
