"""Schedules of a real service: kill -9 while many fall due."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from storage.notifications.schedules import occurrence_id
from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.locks import locked_row
from tests.acceptance.services import Services
from tests.receiver import answering_json, receiving

AGENTS = 20
SCHEDULES = 15  # of each agent
KILLS = 3

# Each falls due at a moment of its own within the next seconds, and then in a year.
PLAN = """
UPDATE schedule SET next_at = due.at, due_at = due.at, version = version + 1
FROM (SELECT id, now() + $1 * interval '1 s' * row_number() OVER (ORDER BY id) AS at FROM schedule) due
WHERE due.id = schedule.id
"""
LOCK_STATE = "SELECT 1 FROM agent_state WHERE agent_id = %s FOR UPDATE"
COUNT_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%agent_state%'
"""
COUNT_OCCURRED = "SELECT count(*) FROM schedule_occurrence"
COUNT = """
SELECT count(*) AS planned, count(o.schedule_id) AS occurred, count(n.id) AS notified,
       (SELECT count(*) FROM notification WHERE source = 'system') AS notifications,
       (SELECT count(*) FROM event WHERE type = 'schedule.occurred') AS events
FROM schedule s LEFT JOIN schedule_occurrence o ON o.schedule_id = s.id
LEFT JOIN notification n ON n.id = o.notification_id
"""


async def _create(client: Client) -> None:
    agents = [await client.create_agent(name=f"Agent {number}") for number in range(AGENTS)]
    for agent in agents:
        for number in range(SCHEDULES):
            body = {"title": f"Task {number}", "every_seconds": 31_536_000, "priority": "low"}
            await client.post("/api/defaults/schedules/", agent=agent, **body)


@pytest.mark.everyday
async def test_killed_service_fires_each_schedule_once(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    await _create(await sign_up(session, service.url))
    database = await asyncpg.connect(database_url)
    await database.execute(PLAN, 0.01)
    for _ in range(KILLS):
        occurred = await database.fetchval(COUNT_OCCURRED)

        async def more(than: int = occurred) -> bool | None:
            count: int = await database.fetchval(COUNT_OCCURRED)
            return count > than or count == AGENTS * SCHEDULES or None

        await eventually(more, "another occurrence")
        await service.kill()
        service = await services.start()

    await _require_each_once(database)


@pytest.mark.everyday
async def test_other_node_fires_what_is_due_when_a_node_dies(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    first = await services.start()
    await services.start()
    await _create(await sign_up(session, first.url))
    database = await asyncpg.connect(database_url)
    await database.execute(PLAN, 0.01)

    async def some() -> bool | None:
        return await database.fetchval(COUNT_OCCURRED) > 0 or None

    await eventually(some, "the first occurrence")
    await first.kill()
    await _require_each_once(database)


@pytest.mark.everyday
async def test_check_that_kill_cuts_off_is_made_again_and_notifies_once(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    async with receiving() as tools:
        tools.answer = answering_json("[1]")
        service = await services.start(outbound={"allow_private": True})
        client = await sign_up(session, service.url)
        adapter = (await client.post("/api/toolbox/adapters/", name="Shop"))["id"]
        tool = {"adapter": adapter, "name": "look", "url": tools.url, "idempotent": True}
        await client.post("/api/toolbox/tools/", **tool)
        agent = await client.create_agent(adapters=[adapter])
        ends_at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        body = {"title": "Prices", "every_seconds": 80_000, "priority": "low", "ends_at": ends_at}
        check = {"tool": "look", "wake_if": "nonempty"}
        schedule = await client.post("/api/defaults/schedules/", agent=agent, **body, check=check)

        database = await asyncpg.connect(database_url)
        with locked_row(database_url, agent, LOCK_STATE):  # so that the answer is not stored
            await database.execute(PLAN, 0.01)
            await tools.wait_for(1)
            await eventually(partial(_waits_for_a_lock, database), "the step to wait for the lock")
            await service.kill()
        assert await database.fetchval(COUNT_OCCURRED) == 0
        await services.start(outbound={"allow_private": True})

        async def occurrence() -> Any:
            return await database.fetchrow("SELECT * FROM schedule_occurrence")

        stored = await eventually(occurrence, "the occurrence")
        assert (stored["outcome"], len(tools.requests)) == ("fired", 2)
        ids = await database.fetch("SELECT id FROM notification WHERE source = 'system'")
        expected = occurrence_id(UUID(schedule["id"]), stored["occurs_at"])
        assert [row["id"] for row in ids] == [stored["notification_id"]] == [expected]
        await database.close()


async def _waits_for_a_lock(database: asyncpg.Connection) -> bool | None:
    return await database.fetchval(COUNT_WAITING) > 0 or None


async def _require_each_once(database: asyncpg.Connection) -> None:
    async def counts() -> Any:
        [row] = await database.fetch(COUNT)
        return dict(row) if row["occurred"] == row["planned"] else None

    row = await eventually(counts, "the last occurrence")
    assert set(row.values()) == {AGENTS * SCHEDULES}
    await database.close()
