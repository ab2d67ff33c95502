"""Phases and marks of timelines: what is read, and that nothing else is looked at."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from storage.events.timeline import MarkEvents, PhaseEvents
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

AGENT, OTHER, ORGANIZATION = UUID(int=1), UUID(int=2), UUID(int=3)
INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, phase, actor)
SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[])
"""
STEPS = (
    (0, "notification.created", None, "key:00000000-0000-0000-0000-000000000009"),
    (1, "run.started", "running", ""),
    (21, "run.ended", None, ""),
    (21, "agent.asleep", "asleep", "run:00000000-0000-0000-0000-000000000008"),
)


async def write_runs(pool: Pool, agent_id: UUID, start: datetime, number: int) -> None:
    """Write the events of runs of 20 s, one a minute, and a pause in their organization."""
    rows: list[tuple[object, ...]] = [
        (start + index * MINUTE + timedelta(seconds=seconds), kind, ORGANIZATION, agent_id, phase, actor)
        for index in range(number)
        for seconds, kind, phase, actor in STEPS
    ]
    rows.append((start, "organization.paused", ORGANIZATION, None, None, "operator"))
    await pool.execute(INSERT, *zip(*rows, strict=True))


async def test_phase_since_is_that_of_its_first_event(pool: Pool) -> None:
    await write_runs(pool, AGENT, NOW, 2)
    await pool.execute(
        INSERT, [NOW + 2 * MINUTE], ["agent.rescheduled"], [ORGANIZATION], [AGENT], ["asleep"], [""]
    )
    phases = PhaseEvents(pool)
    moment = NOW + 3 * MINUTE

    (last,) = await phases.list_changes(AGENT, moment, moment, 0)

    assert last.at == NOW + 2 * MINUTE
    assert await phases.get_since(AGENT, last) == NOW + MINUTE + timedelta(seconds=21)


async def test_marks_are_what_others_than_rules_and_runs_did(pool: Pool) -> None:
    await write_runs(pool, AGENT, NOW, 3)

    marks = await MarkEvents(pool).list_marks(AGENT, NOW, NOW + HOUR, 2)

    assert [mark.type for mark in marks] == ["notification.created", "notification.created"]
    assert marks[0].at == NOW + 2 * MINUTE
    assert await MarkEvents(pool).count_marks(AGENT, NOW, NOW + HOUR) == 3


async def test_short_period_of_a_long_log_reads_few_rows(pool: Pool) -> None:
    await write_runs(pool, AGENT, NOW - 20 * HOUR, 1200)
    await write_runs(pool, OTHER, NOW - 20 * HOUR, 1200)
    await pool.execute("ANALYZE event")
    explaining = ExplainingPool(pool)
    phases, marks = PhaseEvents(explaining), MarkEvents(explaining)
    start, end = NOW - 10 * HOUR, NOW - 10 * HOUR + 5 * MINUTE

    assert len(await phases.list_changes(AGENT, start, end, 100)) == 12
    assert len(await marks.list_marks(AGENT, start, end, 100)) == 5
    await phases.list_pauses(ORGANIZATION, start, end, 100)
    await marks.list_waiting(AGENT, start, end, 100)

    assert max(explaining.rows_touched.values()) <= 12
