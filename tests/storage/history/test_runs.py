"""Runs: listing and reading them."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from storage.history.runs import RunFilters, Runs
from storage.ids import new_id
from storage.model import Agent, Outcome, Run
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, SECOND, stored_agent

INSERT_RUN = """
INSERT INTO run (
    id, agent_id, organization_id, wake_reason, notifications, started_at, ended_at, turns, outcome)
VALUES ($1, $2, $3, $8, $4, $5, $6, 3, $7)
"""


async def stored_run(pool: Pool, of: Agent, started_at: datetime = NOW, **fields: Any) -> Run:
    plain = Run(
        id=new_id(),
        agent_id=of.id,
        organization_id=of.organization_id,
        wake_reason="reminder",
        notifications=(new_id(), new_id()),
        notification_count=2,
        interrupted_sleep_until=None,
        max_sleep_until=None,
        started_at=started_at,
        ended_at=started_at + SECOND,
        turns=3,
        outcome=Outcome.SLEPT,
        error="",
    )
    run = replace(plain, **fields)
    await pool.execute(
        INSERT_RUN,
        run.id,
        of.id,
        of.organization_id,
        run.notifications,
        started_at,
        run.ended_at,
        run.outcome,
        run.wake_reason,
    )
    return run


async def test_page_shows_runs_of_agent_last_started_first(pool: Pool) -> None:
    scout, other = await stored_agent(pool), await stored_agent(pool)
    runs = [await stored_run(pool, scout, NOW + (position // 2) * SECOND) for position in range(5)]
    await stored_run(pool, other)
    newest_first = sorted(runs, key=lambda run: (run.started_at, run.id), reverse=True)
    filters = RunFilters(agent_id=scout.id)

    first = await Runs(pool).list_page(filters, Page(limit=2))
    rest = await Runs(pool).list_page(filters, Page(after=(first[-1].started_at, first[-1].id)))

    assert first + rest == newest_first
    assert await Runs(pool).list_page(filters, Page(limit=2, offset=4)) == newest_first[4:]
    assert await Runs(pool).get(runs[0].id) == runs[0]
