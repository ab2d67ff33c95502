"""Parked calls of a real service: kill -9 during the call of a tool, and the time from decision to call."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from storage.parked_calls import CallState
from storage.postgres.pool import DatabaseSettings, open_pool
from storage.storage import Storage
from supervisors.policy.parked_calls import Decision, decide
from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.services import Services
from tests.receiver import Receiver, answering_json, hang, receiving

PRIVATE = {"allow_private": True}
ALWAYS = "UPDATE tool SET approval = '\"always\"'"
LEASE_IS_OVER = "UPDATE parked_call SET due_at = now() WHERE state = 'calling'"
GET = "SELECT state, outcome FROM parked_call WHERE id = $1"
COUNT_TOLD = "SELECT count(*) FROM notification WHERE source = 'system' AND source_id = $1"


async def agent_with_tool(client: Client, database: Any, server: Receiver, **tool: Any) -> str:
    """Create an agent with the tool `refund`, each call of which needs an approval."""
    adapter = (await client.post("/api/toolbox/adapters/", name="Shop"))["id"]
    await client.post("/api/toolbox/tools/", adapter=adapter, name="refund", url=server.url, **tool)
    await database.execute(ALWAYS)
    return await client.create_agent(adapters=[adapter])


async def park(client: Client, agent: str, amount: int) -> str:
    answer = await client.post(f"/api/cloud/agents/{agent}/tools/refund/", amount=amount)
    return str(answer["result"]["call"])


@asynccontextmanager
async def deciding(database_url: str) -> AsyncIterator[Storage]:
    """Open the storage of somebody who decides beside the service, whose runner is not told."""
    async with open_pool(DatabaseSettings(url=database_url), node=None) as pool:
        yield Storage(pool, on_commit=lambda _: None, sleep=asyncio.sleep)


async def approve(storage: Storage, call_id: str) -> None:
    now = datetime.now(UTC)
    rule = partial(decide, decision=Decision(approve=True), by="operator", now=now)
    step = await storage.parked_calls.change(UUID(call_id), rule, now, actor="operator")
    assert step is not None
    assert step.after.state is CallState.DUE


async def ended(database: Any, call_id: str) -> Any:
    row = await database.fetchrow(GET, UUID(call_id))
    return row if row["state"] in {"done", "failed"} else None


@pytest.mark.everyday
@pytest.mark.parametrize(("is_idempotent", "state", "calls"), [(True, "done", 2), (False, "failed", 1)])
async def test_call_that_kill_cuts_off_is_told_of_once(
    services: Services,
    session: aiohttp.ClientSession,
    database_url: str,
    is_idempotent: bool,
    state: str,
    calls: int,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        server_at = {"port": reserved.getsockname()[1]}  # it is part of the body, in the address for results
    async with receiving() as server, deciding(database_url) as storage:
        server.answer = hang
        service = await services.start(outbound=PRIVATE, server=server_at)
        client = await sign_up(session, service.url)
        database = await asyncpg.connect(database_url)
        agent = await agent_with_tool(client, database, server, idempotent=is_idempotent)
        call_id = await park(client, agent, 80)
        await approve(storage, call_id)
        await server.wait_for(1)
        await service.kill()
        server.answer = answering_json('"paid"')
        await database.execute(LEASE_IS_OVER)
        service = await services.start(outbound=PRIVATE, server=server_at)

        row = await eventually(partial(ended, database, call_id), "the end of the call")
        assert row["state"] == state
        assert len({(request.id, request.body) for request in server.requests}) == 1
        assert len(server.requests) == calls
        await client.at(service.url).ended_run(agent)
        assert await database.fetchval(COUNT_TOLD, call_id) == 1
        await database.close()


async def test_end_of_the_service_waits_a_little_for_the_answer_to_a_call(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    async with receiving() as server, deciding(database_url) as storage:
        server.answer = hang
        service = await services.start(outbound=PRIVATE)
        client = await sign_up(session, service.url)
        database = await asyncpg.connect(database_url)
        agent = await agent_with_tool(client, database, server)
        call_id = await park(client, agent, 80)
        await approve(storage, call_id)
        await server.wait_for(1)
        service.terminate()
        assert await service.exit_code() == 0
        assert await database.fetchval("SELECT state FROM parked_call") == "calling"
        await database.close()
