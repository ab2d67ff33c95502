"""Ten thousand reminders that fall due at the same instant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.foreign_program import ForeignProgram, foreign_program
from tests.acceptance.services import Services

AGENTS = 500
REMINDERS = 10_000
LEAD = timedelta(seconds=5)
STORM_SECONDS = 400.0  # ten on an idle machine
PACE_SECONDS = 0.05

REMIND = """
    INSERT INTO notification (agent_id, title, priority, scheduled_for)
    SELECT agent, 'Remember', 'high', %s FROM unnest(%s::uuid[]) AS agent, generate_series(1, %s)
"""
UNCLEARED = "SELECT count(*) FROM notification WHERE title = 'Remember' AND cleared_at IS NULL"
CLEARED = "SELECT count(*) FROM notification WHERE title = 'Remember' AND cleared_at >= scheduled_for"
RUNS = """
    SELECT count(*), count(DISTINCT agent_id), array_agg(DISTINCT wake_reason),
        min(started_at), max(started_at)
    FROM run WHERE agent_id = ANY(%s::uuid[])
"""


async def test_reminders_of_one_instant_all_fire_and_none_early(
    services: Services,
    session: aiohttp.ClientSession,
    database_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = {"acquire_timeout_seconds": STORM_SECONDS}  # on a slow machine, too, all get a connection
    client = await sign_up(session, (await services.start(database=database)).url)
    with foreign_program(database_url) as program:
        agents = program.insert_agents(AGENTS)
        due_at = datetime.now(UTC) + LEAD
        program.run(REMIND, due_at, agents, REMINDERS // AGENTS)
        async with bystander(client) as answered:
            await _until_all_are_cleared(program)
        assert program.run(CLEARED) == [(REMINDERS,)]
        [(runs, agents_run, reasons, first, last)] = program.run(RUNS, agents)
    with capsys.disabled():
        print(f"\nthe last of {runs} runs began {(last - due_at).total_seconds():.1f} s late")  # noqa: T201
    assert (runs, agents_run, reasons) == (AGENTS, AGENTS, ["reminder"])
    assert first >= due_at
    assert len(answered) > 10


@asynccontextmanager
async def bystander(client: Client) -> AsyncIterator[list[str]]:
    """Write and read while the block lasts; a request that is refused fails the test."""
    agent = await client.create_agent()
    answered: list[str] = []

    async def work() -> None:
        while True:
            notification = await client.notify(agent, priority="low")
            await client.get(f"/api/defaults/notifications/{notification['id']}/")
            answered.append(notification["id"])
            await asyncio.sleep(PACE_SECONDS)

    working = asyncio.create_task(work())
    try:
        yield answered
        assert not working.done(), working.exception()
    finally:
        working.cancel()
        await asyncio.wait([working])


async def _until_all_are_cleared(program: ForeignProgram) -> None:
    async def look() -> bool | None:
        [(uncleared,)] = program.run(UNCLEARED)
        return None if uncleared else True

    await eventually(look, f"{REMINDERS} reminders to be cleared", STORM_SECONDS)
