"""`hostsvc status`: show a running service, or one of its agents, once or continuously."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import UUID

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from hostsvc.cli.status_client import StatusClient, StatusUnavailable, status_client
from hostsvc.cli.status_screen import agent_screen, service_screen
from hostsvc.config import ServerSettings

WATCH_SECONDS = 1.0
MAX_AGENTS = 20
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- where to reach a service that listens on all addresses

FetchToken = Callable[[], Awaitable[str]]


async def show_status(
    url: str, fetch_token: FetchToken, agent_id: UUID | None, phase: str | None, *, watch: bool
) -> None:
    """Print the status, with `watch` every second. Raise StatusUnavailable if the first request fails."""
    console = Console(highlight=False)
    async with status_client(url) as client:
        await client.require_service()  # before opening a database to read the token from it
        client.token = await fetch_token()
        screen = await _screen(client, agent_id, phase)
        if not watch:
            console.print(screen)
            return
        await _watch(console, screen, lambda: _screen(client, agent_id, phase))


def url_of(server: ServerSettings) -> str:
    """Return the URL at which this machine reaches the configured service."""
    if server.base_url:
        return server.base_url
    if server.port == 0:
        raise StatusUnavailable(
            "server.port is 0, which selects any free port: set --url to the address that the service printed"
        )
    host = LOOPBACK_OF.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


async def _screen(client: StatusClient, agent_id: UUID | None, phase: str | None) -> RenderableType:
    if agent_id is not None:
        return agent_screen(await client.supervisor(agent_id))
    status, agents = await asyncio.gather(client.overview(), client.supervisors(phase, MAX_AGENTS))
    return service_screen(status, agents, MAX_AGENTS)


async def _watch(
    console: Console, screen: RenderableType, fetch_screen: Callable[[], Awaitable[RenderableType]]
) -> None:
    """Show the screen, then fetch it again every second, even while the service does not answer."""
    end_requested = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, end_requested.set)
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while not end_requested.is_set():
            if console.is_terminal:
                live.update(screen, refresh=True)
            else:
                console.print(screen)
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await end_requested.wait()
            try:
                screen = await fetch_screen()
            except StatusUnavailable as error:
                screen = Text(f"{error} (trying again every second)")
