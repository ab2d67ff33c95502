"""Other programs may write the queue themselves: plain SQL over a connection that is none of ours."""

import aiohttp
import aiopg

from tests.acceptance.client import moment, sign_up
from tests.acceptance.services import Services

INSERT = "INSERT INTO notification (agent_id, title, priority) VALUES (%s, %s, 'high') RETURNING id"
SCAN_SECONDS = 1.0
LATE_SECONDS = 1.0


async def test_an_insert_by_another_program_wakes_the_agent_within_a_scan(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(supervisors={"scan_interval_seconds": SCAN_SECONDS})
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    notification = await _insert(database_url, agent)
    run = await client.ended_run(agent)
    assert (run["wake_reason"], run["outcome"]) == ("notification:api", "slept")
    assert run["notifications"] == [notification]
    [kept] = await client.notifications(agent)
    waited = moment(run["started_at"]) - moment(kept["created_at"])
    assert waited.total_seconds() < SCAN_SECONDS + LATE_SECONDS


async def test_an_insert_by_another_program_is_seen_by_the_next_start(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    await service.kill()
    notification = await _insert(database_url, agent)
    again = client.at((await services.start()).url)
    run = await again.ended_run(agent)
    assert (run["wake_reason"], run["notifications"]) == ("notification:api", [notification])


async def _insert(database_url: str, agent: str) -> str:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(INSERT, (agent, "From psql"))
        [notification] = await cursor.fetchone()
        return str(notification)
