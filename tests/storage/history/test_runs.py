"""Runs: listing and reading them."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from storage.agents.agents import Agents
from storage.history.runs import RunFilters, Runs
from storage.ids import new_id
from storage.model import Agent, Outcome, Run
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.postgres.query import Period
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


async def test_page_shows_runs_of_all_agents_of_organizations(pool: Pool) -> None:
    scout, other, stranger = [await stored_agent(pool) for _ in range(3)]
    sibling = await stored_agent(pool, scout.organization_id)
    runs = [
        await stored_run(pool, of, NOW + position * SECOND)
        for position, of in enumerate((scout, other, sibling, scout))
    ]
    await stored_run(pool, stranger)
    filters = RunFilters((scout.organization_id, other.organization_id))

    first = await Runs(pool).list_page(filters, Page(limit=2))
    rest = await Runs(pool).list_page(filters, Page(after=(first[-1].started_at, first[-1].id)))

    assert first + rest == runs[::-1]
    assert await Runs(pool).list_page(filters, Page(limit=2, offset=3)) == runs[:1]
    assert await Runs(pool).list_page(RunFilters(), Page()) == []


async def test_page_filters_narrow_the_runs(pool: Pool) -> None:
    scout = await stored_agent(pool)
    slept = await stored_run(pool, scout)
    failed = await stored_run(
        pool, scout, NOW + SECOND, outcome=Outcome.FAILED, wake_reason="notification:sms"
    )
    active = await stored_run(
        pool, scout, NOW + 2 * SECOND, outcome=None, ended_at=None, wake_reason="notification:api"
    )

    async def listed(**filters: Any) -> list[Run]:
        of_agent = await Runs(pool).list_page(RunFilters(agent_id=scout.id, **filters), Page())
        of_all = await Runs(pool).list_page(RunFilters((scout.organization_id,), **filters), Page())
        assert of_agent == of_all
        return of_all

    assert await listed(outcome=Outcome.FAILED) == [failed]
    assert await listed(wake_reasons=("reminder",)) == [slept]
    assert await listed(wake_reasons=("notification:sms", "notification:api")) == [active, failed]
    assert await listed(is_active=True) == [active]
    assert await listed(is_active=False) == [failed, slept]
    assert await listed(started=Period(NOW + SECOND, NOW + 2 * SECOND)) == [failed]
    assert await listed(is_active=False, started=Period(NOW + 2 * SECOND)) == []


async def test_runs_of_deleted_agent_are_not_found(pool: Pool) -> None:
    scout = await stored_agent(pool)
    run = await stored_run(pool, scout)

    await Agents(pool).delete(scout.id, NOW)

    assert await Runs(pool).get(run.id) is None
    assert await Runs(pool).list_page(RunFilters(agent_id=scout.id), Page()) == []
    assert await Runs(pool).list_page(RunFilters((scout.organization_id,)), Page()) == []
