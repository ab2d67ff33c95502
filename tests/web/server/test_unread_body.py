"""What is read of a body whose request was refused."""

import asyncio

import pytest

from tests.web.server.clients import GET, Client, small_server
from web.server import unread_body
from web.server.settings import ConnectionSettings

HEAD = b"POST /refuse HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 1_048_576
CHUNK = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
MAX_SENT = 32 * MIB  # what the server reads, and what the kernel takes at both ends


async def send_endlessly(client: Client, piece: bytes) -> int:
    """Send until the server ends the connection, and return how many bytes could be sent."""
    sent = 0
    try:
        while sent < 10 * MAX_SENT:
            async with asyncio.timeout(5):
                await client.send(piece)
            sent += len(piece)
    except ConnectionError:
        pass
    return sent


@pytest.mark.parametrize(
    "head", [CHUNKED, HEAD + b"Content-Length: 1073741824\r\n\r\n"], ids=["chunked", "announced"]
)
async def test_endless_body_of_refused_request_is_cut_off(head: bytes) -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=head)
        assert (await client.answer()).status == 401
        assert await send_endlessly(client, CHUNK) < MAX_SENT


async def test_body_that_stops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_body, "DISCARD_SECONDS", 0.1)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=CHUNKED + CHUNK)
        assert (await client.answer()).status == 401
        assert await client.end() == b""


async def test_short_rest_of_body_leaves_the_connection_usable() -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=HEAD + b"Content-Length: 4\r\n\r\n")
        assert (await client.answer()).status == 401
        await client.send(b"rest" + GET)
        assert (await client.answer()).status == 200


async def test_malformed_rest_of_body_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_body, "DISCARD_SECONDS", 0.1)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=CHUNKED)
        assert (await client.answer()).status == 401
        await client.send(b"no chunk\r\n" + GET)
        assert b"200 OK" not in await client.end()


@pytest.mark.parametrize("header", [b"Content-Length: 2000000", b"Content-Length: 5\r\nExpect: 100-continue"])
async def test_refusal_announces_that_the_rest_is_not_wanted(
    header: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_body, "DISCARD_SECONDS", 0.1)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=HEAD + header + b"\r\n\r\n")
        if b"Expect" in header:
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert await client.end() == b""
