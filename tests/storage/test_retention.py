"""Retention: what each method deletes, in batches, and what it leaves."""

from datetime import timedelta

import pytest

from storage.agents.agents import Agents
from storage.channels.documents import Documents, Writer
from storage.events.model import EventType
from storage.history.traces import Traces
from storage.ids import new_id
from storage.postgres.pool import Pool
from storage.retention import LATE_WRITES, Retention
from tests.storage.channels.resources import document
from tests.storage.events.log import write
from tests.storage.factories import NOW, new_span, stored_agent

DAY = timedelta(days=1)

INSERT_NOTIFICATIONS = """
INSERT INTO notification (organization_id, agent_id, title, created_at, cleared, cleared_at)
SELECT $1, $2, 'Hello', $3, $4, CASE WHEN $4 THEN $3::timestamptz END FROM generate_series(1, $5)
"""

INSERT_RUN = """
WITH run AS (
    INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome)
    VALUES ($1, $2, $3, 'run_requested', $4, $5, CASE WHEN $5::timestamptz IS NOT NULL THEN 'slept' END)
)
INSERT INTO trace (id, agent_id, organization_id, name, started_at) VALUES ($1, $2, $3, 'Scout', $4)
"""

INSERT_SPENDING = "INSERT INTO spending (owner_id, day, cost_usd) VALUES ($1, $2, 1)"


@pytest.fixture
def retention(pool: Pool) -> Retention:
    return Retention(pool)


async def test_documents_deleted_by_agents_expire_with_versions(pool: Pool, retention: Retention) -> None:
    scout, documents = await stored_agent(pool), Documents(pool)
    for deleted_at in (NOW - DAY, NOW - DAY, NOW, None):
        note = document(scout)
        await documents.insert(note)
        changes = {"content": "more", "deleted_at": deleted_at}
        await documents.update(note, changes, Writer("agent:scout"), NOW)

    assert [await retention.delete_documents(NOW, 1) for _ in range(3)] == [1, 1, 0]

    for table in ("document", "document_version"):
        assert await pool.fetchval(f"SELECT count(*) FROM {table}") == 2, table  # noqa: S608


async def test_events_are_deleted_from_the_beginning_of_the_log(pool: Pool, retention: Retention) -> None:
    moments = [NOW - DAY, NOW - DAY, NOW + DAY, NOW - DAY, NOW, NOW - DAY]
    ids = [await write(pool, at=moment) for moment in moments]

    assert [await retention.delete_events(NOW, 2) for _ in range(2)] == [2, 2], "the younger one goes along"
    assert [await retention.delete_events(NOW, 1)] == [0], "an event that is kept keeps those after it"

    kept = await pool.fetch("SELECT id FROM event ORDER BY id")
    assert [row["id"] for row in kept] == ids[4:]


async def test_audited_event_stays_until_the_audit_log_has_it(pool: Pool, retention: Retention) -> None:
    types = (EventType.RUN_STARTED, EventType.AGENT_CREATED, EventType.RUN_STARTED)
    ids = [await write(pool, each, at=NOW - DAY) for each in types]
    assert [await retention.delete_events(NOW, 9) for _ in range(2)] == [1, 0]
    await pool.execute("UPDATE instance SET chained_event_id = $1", ids[1])
    assert await retention.delete_events(NOW, 9) == 2


async def test_traces_are_deleted_with_spans_and_runs(pool: Pool, retention: Retention) -> None:
    scout = await stored_agent(pool)
    ended, active, recent = new_id(), new_id(), new_id()
    for run_id, started_at, ended_at in (
        (ended, NOW - DAY, NOW),
        (active, NOW - DAY, None),
        (recent, NOW, NOW),
    ):
        await pool.execute(INSERT_RUN, run_id, scout.id, scout.organization_id, started_at, ended_at)
        await Traces(pool).insert_spans([new_span(run_id, {"some": "metadata"}) for _ in range(3)])

    deleted = [await retention.delete_traces(NOW, 2) for _ in range(3)]

    assert deleted == [2, 2, 0], "3 spans and a trace, at most 2 at a time"
    for table, key in (("trace", "id"), ("run", "id"), ("span", "trace_id"), ("trace_size", "trace_id")):
        rows = await pool.fetch(f"SELECT DISTINCT {key} AS id FROM {table}")  # noqa: S608 -- constants
        assert {row["id"] for row in rows} == {active, recent}
    assert await pool.fetchval("SELECT count(*) FROM span_metadata") == 6


async def test_spending_of_past_days_is_deleted(pool: Pool, retention: Retention) -> None:
    for day in range(3):
        await pool.execute(INSERT_SPENDING, new_id(), (NOW - day * DAY).date())
    assert [await retention.delete_spending(NOW, 9) for _ in range(2)] == [2, 0]
    assert await pool.fetchval("SELECT day FROM spending") == NOW.date()


async def test_deleted_agent_is_emptied_then_removed(pool: Pool, retention: Retention) -> None:
    scout, other = await stored_agent(pool), await stored_agent(pool)
    for agent in (scout, other):
        await pool.execute(INSERT_NOTIFICATIONS, agent.organization_id, agent.id, NOW, True, 3)
        await pool.execute(INSERT_RUN, new_id(), agent.id, agent.organization_id, NOW, NOW)
    await Agents(pool).delete(scout.id, NOW)

    assert [await retention.delete_leftovers(NOW, 3) for _ in range(3)] == [3, 1, 0]
    assert await retention.delete_agents(NOW + DAY, 9) == 1, "its trace"
    assert await retention.delete_agents(NOW + DAY, 9) == 0, "late writes may still arrive"

    later = NOW + LATE_WRITES + timedelta(seconds=1)
    assert await retention.delete_leftovers(later, 3) == 0
    assert await retention.delete_agents(NOW, 9) == 0, "the agent was deleted at this moment, not before"
    assert await retention.delete_agents(later, 9) == 1
    assert await pool.fetchval("SELECT id FROM agent") == other.id
    assert await pool.fetchval("SELECT count(*) FROM notification") == 3
