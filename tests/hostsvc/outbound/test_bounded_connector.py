"""The connector: limits on bytes before, in and around a response body, and one call per connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from hostsvc.outbound.bounded_connector import MAX_BYTES, MAX_HEAD_BYTES, BoundedConnector
from supervisors.outbound import NoAnswer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
INFORMATIONAL = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@asynccontextmanager
async def serving(response: bytes) -> AsyncIterator[tuple[str, list[int]]]:
    """Yield the URL of a server that sends these bytes, and the ports of its connections."""
    ports: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("peername")[1])
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(response)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", ports


async def get(url: str) -> bytes:
    async with aiohttp.ClientSession(connector=BoundedConnector()) as session, session.get(url) as response:
        return await response.read()


async def test_normal_response_is_read() -> None:
    async with serving(INFORMATIONAL * 3 + HEAD + b"hi") as (url, _):
        assert await get(url) == b"hi"


async def test_each_call_has_its_own_connection() -> None:
    async with (
        serving(HEAD + b"hi") as (url, ports),
        aiohttp.ClientSession(connector=BoundedConnector()) as session,
    ):
        for _ in range(2):
            async with session.get(url) as response:
                assert await response.read() == b"hi"
    assert len(set(ports)) == 2


async def test_too_many_informational_responses_are_refused() -> None:
    flood = INFORMATIONAL * (MAX_HEAD_BYTES // len(INFORMATIONAL) + 500)
    async with serving(flood + HEAD + b"hi") as (url, _):
        with pytest.raises(NoAnswer, match=r"^The head of the answer is longer than 65,536 bytes"):
            await get(url)


async def test_too_long_chunk_headers_are_refused() -> None:
    chunks = b"1;" + b"x" * 1000 + b"\r\na\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(head + chunks * (2 * MAX_BYTES // len(chunks))) as (url, _):
        with pytest.raises(NoAnswer, match=r"^The answer is longer than 1,048,576 bytes"):
            await get(url)
