"""Nodes with some of the roles: without `runs` a node serves the API, and leaves every agent to others."""

import asyncio

import aiohttp
import asyncpg

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import OPERATOR_TOKEN, Services

SLOTS = 3
SETTLE_SECONDS = 1.0  # more than a node takes to start a run that is due

NODES_OF_RUNS = "SELECT DISTINCT n.name FROM run r LEFT JOIN node n ON n.id = r.node_id"


async def web_node(services: Services) -> ServiceProcess:
    return await services.start(node={"name": "web", "roles": ["http", "chores"]})


async def runner(services: Services) -> ServiceProcess:
    return await services.start(node={"name": "runner", "roles": ["runs"]}, runs={"max_concurrent": SLOTS})


async def nodes_of_runs(services: Services) -> list[str]:
    connection = await asyncpg.connect(services.database["url"])
    try:
        return [row["name"] for row in await connection.fetch(NODES_OF_RUNS)]
    finally:
        await connection.close()


async def test_node_without_role_runs_leaves_runs_to_others(
    services: Services, session: aiohttp.ClientSession
) -> None:
    web, _ = await web_node(services), await runner(services)
    operator = Client(session, web.url, f"Bearer {OPERATOR_TOKEN}")

    async def look() -> bool | None:
        return (await operator.get("/status/"))["runs"]["limit"] == SLOTS or None

    await eventually(look, f"the other node to tell of its {SLOTS} run slots")
    client = await sign_up(session, web.url)
    for number in range(4):
        agent = await client.create_agent()
        if number % 2:
            await client.notify(agent)
        else:
            answer = await client.post(f"/api/cloud/agents/{agent}/run/")
            assert answer["status"] == "queued"
        await client.ended_run(agent)
    assert await nodes_of_runs(services) == ["runner"]


async def test_agents_stay_due_until_a_node_has_the_role_runs(
    services: Services, session: aiohttp.ClientSession
) -> None:
    client = await sign_up(session, (await web_node(services)).url)
    agent = await client.create_agent()
    await client.notify(agent)
    assert await client.status_of(f"/api/cloud/agents/{agent}/run/", "POST") == 503
    await asyncio.sleep(SETTLE_SECONDS)
    assert "no node starts runs" in (await client.supervisor(agent))["why"]
    assert await client.runs(agent) == []
    await runner(services)
    await client.ended_run(agent)
    assert await nodes_of_runs(services) == ["runner"]
