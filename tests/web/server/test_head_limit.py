"""The time limit of request heads, on real connections."""

import asyncio

from tests.web.server.clients import GET, Client, small_server
from web.server.settings import ConnectionSettings

LIMITED = ConnectionSettings(head_seconds=0.2)
POST = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n"
LATE = b'{"detail":"The request head did not arrive within 0.2 seconds."}'


async def trickle(client: Client, data: bytes) -> bytes:
    """Send a byte at a time until the server closes the connection, and return what it sent."""
    ended = asyncio.create_task(client.end())
    for byte in data:
        done, _ = await asyncio.wait({ended}, timeout=0.02)
        if done:
            break
        client.writer.write(bytes([byte]))
    return await ended


async def test_connection_that_sends_nothing_is_closed() -> None:
    async with small_server(LIMITED) as server:
        assert await (await server.connect()).end() == b""


async def test_head_that_trickles_is_refused() -> None:
    async with small_server(LIMITED) as server:
        answer = await trickle(await server.connect(), GET[:-2] + b"A: b\r\n" * 100)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert answer.endswith(LATE)


async def test_further_head_on_a_connection_has_the_same_limit() -> None:
    async with small_server(LIMITED) as server:
        client = await server.connect(data=GET)
        assert (await client.answer()).status == 200
        assert (await trickle(client, GET[:-2] + b"A: b\r\n" * 100)).endswith(LATE)


async def test_late_head_behind_a_request_ends_the_connection_after_it() -> None:
    async with small_server(LIMITED) as server:
        client = await server.connect(data=GET.replace(b"/healthz", b"/slow"))
        await server.wait_for_slow_requests(1)
        await client.send(GET[:10])
        asyncio.get_running_loop().call_later(0.5, server.release.set)
        assert (await client.answer()).status == 200
        assert await client.end() == b""


async def test_idle_connection_stays_open_beyond_the_head_limit() -> None:
    async with small_server(ConnectionSettings(head_seconds=0.1)) as server:
        client = await server.connect(data=GET)
        await client.answer()
        idle = asyncio.create_task(client.reader.read(1))
        done, _ = await asyncio.wait({idle}, timeout=0.3)
        assert not done
        await client.send(GET)
        assert await idle == b"H"


async def test_idle_connection_ends_after_its_own_limit() -> None:
    async with small_server(ConnectionSettings(keepalive_seconds=0.1)) as server:
        client = await server.connect(data=GET)
        await client.answer()
        assert await client.end() == b""


async def test_body_that_trickles_is_not_taken_for_a_head() -> None:
    async with small_server(ConnectionSettings(head_seconds=0.1)) as server:
        client = await server.connect(data=POST)
        answered = asyncio.create_task(client.answer())
        for _ in range(6):
            await asyncio.wait({answered}, timeout=0.05)
            await client.send(b"x")
        assert (await answered).body == 6
        idle = asyncio.create_task(client.reader.read(1))
        done, _ = await asyncio.wait({idle}, timeout=0.2)
        assert not done
        await client.send(GET)
        assert await idle == b"H"
