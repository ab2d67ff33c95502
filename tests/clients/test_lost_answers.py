"""A proxy drops each answer once, after the effect: nothing is lost, and nothing happens twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from aiohttp import ClientSession, web
from hostsvc_client import AsyncHostsvc, Hostsvc
from hostsvc_client.errors import SecretLost

from tests.clients.process import Service

AT_A_TIME = 16


@asynccontextmanager
async def dropping(url: str) -> AsyncIterator[str]:
    """Yield the address of a proxy to the service that drops the first answer under each idempotency key."""
    seen: set[str] = set()

    async def forward(request: web.Request) -> web.StreamResponse:
        key = request.headers.get("Idempotency-Key", "")
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        body = await request.read()
        async with session.request(
            request.method, url + request.path_qs, data=body, headers=headers
        ) as answer:
            content = await answer.read()
        if key and key not in seen:
            seen.add(key)
            assert request.transport is not None
            request.transport.close()
        kept = {
            name: value for name, value in answer.headers.items() if name in ("Idempotency-Replayed", "Link")
        }
        return web.Response(
            body=content, status=answer.status, headers={**kept, "Content-Type": "application/json"}
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None)
    async with ClientSession() as session:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
async def test_each_sent_notification_is_stored_once(shared: Service, key: str, count: int) -> None:
    async with dropping(shared.url) as url, AsyncHostsvc(url, key) as client:
        agent = await client.agents.create(name="Ada", model="builtin/inbox")
        gate = asyncio.Semaphore(AT_A_TIME)

        async def send(number: int) -> str:
            async with gate:
                return (await client.notifications.create(agent=agent.id, title=f"{number}")).id

        sent = await asyncio.gather(*map(send, range(count)))
        stored = [each async for each in client.notifications.list(agent=agent.id, limit=500)]
    assert len(sent) == len(stored) == count
    assert {each.id for each in stored} == set(sent)
    assert {each.title for each in stored} == {f"{number}" for number in range(count)}


async def test_key_whose_answer_was_dropped_is_reported(shared: Service, key: str) -> None:
    """The synchronous client says which key to delete."""

    def create(url: str) -> None:
        with Hostsvc(url, key) as client, pytest.raises(SecretLost) as caught:
            client.api_keys.create(name="dropped")
        with Hostsvc(shared.url, key) as client:
            client.api_keys.delete(caught.value.answer.id)
            assert "dropped" not in [each.name for each in client.api_keys.list()]

    async with dropping(shared.url) as url:
        await asyncio.to_thread(create, url)


async def test_repetition_waits_for_an_attempt_that_timed_out(
    own_service: Service, database_url: str
) -> None:
    """The service still works on the first attempt when the second one comes."""
    key = await asyncio.to_thread(own_service.sign_up, "late@example.org")
    other_program = await asyncpg.connect(database_url)
    async with AsyncHostsvc(own_service.url, key, timeout=0.3) as client:
        async with other_program.transaction():
            await other_program.execute("LOCK TABLE template IN SHARE MODE")
            creation = asyncio.create_task(client.templates.create(name="Clerk"))
            while await other_program.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < 2:
                pass
        created = await creation
        assert [each.id async for each in client.templates.list()] == [created.id]
    await other_program.close()
