"""The time limit of request heads, on real connections."""

import asyncio

import pytest

from tests.web.server.clients import GET, Client, small_server
from web.server.head_limit import HEAD_TOO_LONG, MAX_HEAD_BYTES
from web.server.settings import ConnectionSettings

LIMITED = ConnectionSettings(head_seconds=0.4)
POST = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n"
LATE = b'{"detail":"The request head did not arrive within 0.4 seconds."}'


async def trickle(client: Client) -> None:
    """Send a long head byte by byte until the server ends the connection; fail if it never does."""
    ended = asyncio.create_task(client.end())
    for byte in GET[:-2] + b"A: b\r\n" * 100:
        done, _ = await asyncio.wait({ended}, timeout=0.02)
        if done:
            return
        client.writer.write(bytes([byte]))
    raise AssertionError("the server has waited for the whole head")


async def test_connection_that_sends_nothing_is_closed() -> None:
    async with small_server(LIMITED) as server:
        assert await (await server.connect()).end() == b""


async def test_head_that_is_not_completed_is_refused() -> None:
    async with small_server(LIMITED) as server:
        answer = await (await server.connect(data=GET[:-2])).end()
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert answer.endswith(LATE)


async def test_head_that_trickles_ends_the_connection() -> None:
    async with small_server(LIMITED) as server:
        await trickle(await server.connect())


async def test_further_head_on_a_connection_has_the_same_limit() -> None:
    async with small_server(LIMITED) as server:
        for _ in range(2):
            client = await server.connect(data=GET)
            assert (await client.answer()).status == 200
        await trickle(client)
        first = server.clients[0]
        await first.send(GET[:-2])
        assert (await first.end()).endswith(LATE)


async def test_late_head_behind_a_request_ends_the_connection_after_it() -> None:
    async with small_server(LIMITED) as server:
        client = await server.connect(data=GET.replace(b"/healthz", b"/slow"))
        await server.wait_for_slow_requests(1)
        await client.send(GET[:10])
        asyncio.get_running_loop().call_later(0.9, server.release.set)
        assert (await client.answer()).status == 200
        assert await client.end() == b""


async def test_idle_connection_stays_open_beyond_the_head_limit() -> None:
    async with small_server(ConnectionSettings(head_seconds=0.3)) as server:
        client = await server.connect(data=GET)
        await client.answer()
        idle = asyncio.create_task(client.reader.read(1))
        done, _ = await asyncio.wait({idle}, timeout=0.5)
        assert not done
        await client.send(GET)
        assert await idle == b"H"


async def test_idle_connection_ends_after_its_own_limit() -> None:
    async with small_server(ConnectionSettings(keepalive_seconds=0.5)) as server:
        client = await server.connect(data=GET)
        await client.answer()
        assert await client.end() == b""


async def test_body_that_trickles_is_not_taken_for_a_head() -> None:
    async with small_server(ConnectionSettings(head_seconds=0.3)) as server:
        client = await server.connect(data=POST)
        answered = asyncio.create_task(client.answer())
        for _ in range(6):
            await asyncio.wait({answered}, timeout=0.1)
            await client.send(b"x")
        assert (await answered).body == 6
        idle = asyncio.create_task(client.reader.read(1))
        done, _ = await asyncio.wait({idle}, timeout=0.5)
        assert not done
        await client.send(GET)
        assert await idle == b"H"


LONG_HEAD = GET[:-2] + b"".join(b"X-%d: " % number + b"x" * 4000 + b"\r\n" for number in range(5))


@pytest.mark.parametrize("sent", [LONG_HEAD + b"\r\n", LONG_HEAD])
async def test_long_head_is_refused_before_it_is_kept(sent: bytes) -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=GET)
        await client.answer()
        await client.send(sent)
        refused = await client.answer()
        assert (refused.status, refused.body) == (431, {"detail": HEAD_TOO_LONG})
        assert await client.end() == b""


async def test_long_head_behind_pipelined_requests_is_refused() -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=GET * 500 + LONG_HEAD + b"\r\n")
        assert [(await client.answer()).status for _ in range(501)] == [200] * 500 + [431]


async def test_body_beyond_the_head_limit_is_read() -> None:
    body = b"x" * 4 * MAX_HEAD_BYTES
    head = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=head + body + GET + head)
        assert (await client.answer()).body == len(body)
        assert (await client.answer()).status == 200
        await client.send(body)
        assert (await client.answer()).body == len(body)
