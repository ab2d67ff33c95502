"""Schedules of a real service: kill -9 while many fall due."""

from typing import Any

import aiohttp
import asyncpg
import pytest

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.services import Services

AGENTS = 20
SCHEDULES = 15  # of each agent
KILLS = 3

# Each falls due at a moment of its own within the next seconds, and then in a year.
PLAN = """
UPDATE schedule SET next_at = due.at, due_at = due.at, version = version + 1
FROM (SELECT id, now() + $1 * interval '1 s' * row_number() OVER (ORDER BY id) AS at FROM schedule) due
WHERE due.id = schedule.id
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


async def _require_each_once(database: asyncpg.Connection) -> None:
    async def counts() -> Any:
        [row] = await database.fetch(COUNT)
        return dict(row) if row["occurred"] == row["planned"] else None

    row = await eventually(counts, "the last occurrence")
    assert set(row.values()) == {AGENTS * SCHEDULES}
    await database.close()
