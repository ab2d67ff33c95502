"""A node waits, and says for whom, while nodes live beside which its version cannot work."""

import socket

import aiohttp
import asyncpg

from tests.acceptance.client import eventually
from tests.acceptance.log_lines import line_of, lines_of
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services

WAITING = "waiting until nodes have left"
BE_OF_ANOTHER_VERSION = "UPDATE node SET version = '9.0.0', protocol = 9"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def answer(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as response:
        return response.status, await response.text()


async def unready_answer(session: aiohttp.ClientSession, url: str) -> str:
    """Return what /readyz answers while the process waits."""

    async def look() -> str | None:
        try:
            status, text = await answer(session, f"{url}/readyz")
        except aiohttp.ClientConnectionError:
            return None  # it does not listen yet
        return text if status == 503 else None

    return await eventually(look, "/readyz to answer 503")


async def others(services: Services) -> list[ServiceProcess]:
    """Start two nodes, and make them nodes of another version."""
    nodes = [await services.start(node={"name": name}) for name in ("one", "two")]
    connection = await asyncpg.connect(services.database["url"])
    try:
        await connection.execute(BE_OF_ANOTHER_VERSION)
    finally:
        await connection.close()
    return nodes


async def test_node_waits_until_nodes_of_a_distant_protocol_have_left(
    services: Services, session: aiohttp.ClientSession
) -> None:
    one, two = await others(services)
    url = f"http://127.0.0.1:{(port := free_port())}"
    waiting = await services.spawn(server={"port": port})
    reason = "a node with protocol 1 cannot join until these nodes have left: "
    both = "one (hostsvc 9.0.0, protocol 9), two (hostsvc 9.0.0, protocol 9)"
    await line_of(waiting, event=WAITING, reason=reason + both)
    assert both in await unready_answer(session, url)
    assert (await answer(session, f"{url}/healthz"))[0] == 200
    await one.close()
    await line_of(waiting, event=WAITING, reason=f"{reason}two (hostsvc 9.0.0, protocol 9)")
    await two.kill()
    assert await waiting.ready() == url
    assert (await answer(session, f"{url}/readyz"))[0] == 200
    assert len([line for line in lines_of(waiting) if line["event"] == WAITING]) == 2


async def test_node_that_waits_ends_at_once(services: Services) -> None:
    await others(services)
    waiting = await services.spawn()
    await line_of(waiting, event=WAITING)
    waiting.terminate()
    assert await waiting.exit_code() == 0
    assert "node joined" not in waiting.log()
