"""`hostsvc status`: a running service, or one of its agents, shown once or over and over."""

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
AGENTS_SHOWN = 20
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- where a service that listens there is reached

FetchToken = Callable[[], Awaitable[str]]


async def show_status(
    url: str, fetch_token: FetchToken, agent_id: UUID | None, phase: str | None, *, watch: bool
) -> None:
    """Print it; with `watch` until Ctrl-C. Raises StatusUnavailable if there is nothing to show at first."""
    console = Console(highlight=False)
    async with status_client(url) as client:
        await client.require_service()  # before a database is opened to find the token in
        client.token = await fetch_token()
        screen = await _screen(client, agent_id, phase)
        if not watch:
            console.print(screen)
            return
        await _watch(console, screen, lambda: _screen(client, agent_id, phase))


def url_of(server: ServerSettings) -> str:
    """Where the service of this configuration is reached from this machine."""
    if server.base_url:
        return server.base_url
    if server.port == 0:
        raise StatusUnavailable("server.port is 0, any free one: give the --url that the service printed")
    host = ANYWHERE.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


async def _screen(client: StatusClient, agent_id: UUID | None, phase: str | None) -> RenderableType:
    if agent_id is not None:
        return agent_screen(await client.supervisor(agent_id))
    status, agents = await asyncio.gather(client.overview(), client.supervisors(phase, AGENTS_SHOWN))
    return service_screen(status, agents, AGENTS_SHOWN)


async def _watch(
    console: Console, screen: RenderableType, look: Callable[[], Awaitable[RenderableType]]
) -> None:
    """Show the screen, then a fresh one every second; a service that is away for a while may come back."""
    asked_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, asked_to_end.set)
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while not asked_to_end.is_set():
            if console.is_terminal:
                live.update(screen, refresh=True)
            else:
                console.print(screen)
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await asked_to_end.wait()
            try:
                screen = await look()
            except StatusUnavailable as error:
                screen = Text(f"{error} (asked again every second)")
