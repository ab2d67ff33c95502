"""`hostsvc status`: show a running service, or one of its agents, once or continuously."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from io import StringIO
from pathlib import Path
from uuid import UUID

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from hostsvc.cli.moments import FORMS, InvalidMoment, parse_moment
from hostsvc.cli.runner import config_option, run_command
from hostsvc.cli.status_client import (
    AgentNotFound,
    DatabaseLost,
    StatusClient,
    StatusUnavailable,
    status_client,
)
from hostsvc.cli.status_screen import agent_screen, past_screen, plain, service_screen
from hostsvc.config import Config, ServerSettings
from hostsvc.database import operator_token
from hostsvc.embedded_postgres import EmbeddedPostgresError
from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.model import AgentStatus
from supervisors.clock import SystemClock
from supervisors.policy.phases import Phase
from web.fields import parse_uuid

WATCH_SECONDS = 1.0
MAX_AGENTS = 20
MAX_NAMES = 200  # among which a similar one is looked for
UNLIMITED_WIDTH = 10_000  # characters of a line that goes to a file or a program
PHASES = tuple(phase.value for phase in Phase)
PHASES_AND_STATUSES = (*PHASES, *(status.value for status in AgentStatus if status.value not in PHASES))
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- where to reach a service that listens on all addresses

FetchToken = Callable[[], Awaitable[str]]
Screen = tuple[RenderableType, int]  # with the exit code


@dataclass(frozen=True, slots=True)
class Selection:
    """The agents to show: one, given by its id or its name, or those of a phase or a status.

    `at`: the moment in the past at which the one is shown; None: the present.
    """

    agent: str | None = None
    phase: str | None = None
    at: datetime | None = None

    def filters(self) -> dict[str, str]:
        """Return the query that selects them. A word that is a phase and a status means the phase."""
        if self.phase is None:
            return {}
        return {"phase" if self.phase in PHASES else "status": self.phase}


@click.command("status")
@click.argument("agent", metavar="[AGENT]", required=False)
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@click.option(
    "--phase",
    metavar="PHASE",
    type=click.Choice(PHASES_AND_STATUSES),
    help=f"Show only the agents in this phase or with this status: {', '.join(PHASES_AND_STATUSES)}.",
)
@click.option(
    "--at",
    "moment",
    metavar="MOMENT",
    help=f"Show AGENT as it was then. Forms: {FORMS}. Times are in the time zone of this machine, "
    "unless they name another.",
)
@click.option("--url", metavar="URL", help="The address of the service. Without it: that of this machine.")
@config_option
def status_command(
    agent: str | None, watch: bool, phase: str | None, moment: str | None, url: str | None, file: Path | None
) -> None:
    """Show the state of a running service.

    With AGENT, the id or the name of an agent: show what it is doing and why, and what wakes it next.

    The exit code is 3 if no service answers, and 5 if it has lost its database.
    """
    if agent and phase:
        raise click.UsageError("--phase selects agents of the list: leave it out to show one AGENT")
    selection = Selection(agent, phase, _past_moment(moment, agent, watch=watch))
    run_command(file, partial(_status, selection=selection, watch=watch, url=url))


def _past_moment(text: str | None, agent: str | None, *, watch: bool) -> datetime | None:
    """Return the moment of --at. Raise UsageError unless it is a moment in the past of one AGENT."""
    if text is None:
        return None
    if agent is None:
        raise click.UsageError("--at shows one agent as it was: name an AGENT")
    if watch:
        raise click.UsageError("the past does not change: leave out --watch or --at")
    now = SystemClock().now()
    try:
        moment = parse_moment(text, now)
    except InvalidMoment as error:
        raise click.UsageError(f"--at: {error}") from error
    if moment > now:
        raise click.UsageError(f"--at: {text!r} lies ahead; leave --at out to see the present")
    return moment


async def _status(config: Config, *, selection: Selection, watch: bool, url: str | None) -> int:
    return await show_status(address(config, url), partial(operator_token, config), selection, watch=watch)


def address(config: Config, url: str | None) -> str:
    """Return the address of the service: `url`, or else the one at which this machine reaches it."""
    return url.rstrip("/") if url else url_of(config.server)


async def show_status(url: str, fetch_token: FetchToken, selection: Selection, *, watch: bool) -> int:
    """Print the status, with `watch` every second, and return the exit code.

    Raise StatusUnavailable if the first request fails.
    """
    async with status_client(url) as client:
        await authenticate(client, url, fetch_token)
        agent_id = await find_agent(client, selection.agent) if selection.agent else None
        if watch:
            await _watch(lambda: _screen(client, agent_id, selection))
            return 0
        screen, exit_code = await _screen(client, agent_id, selection)
        print_screen(screen)
        return exit_code


async def authenticate(client: StatusClient, url: str, fetch_token: FetchToken) -> None:
    """Give the client the operator token. Raise StatusUnavailable if no service answers."""
    await client.require_service()  # before opening a database to read the token from it
    client.token = await _token(client, url, fetch_token)


async def find_agent(client: StatusClient, id_or_name: str) -> UUID:
    """Return the id of the agent with this id, or else of the only one with this name.

    Raise AgentNotFound, with the ids to choose from if several agents have the name.
    """
    agent_id = parse_uuid(id_or_name)
    if agent_id is not None:
        return agent_id
    matches = await client.supervisors(MAX_AGENTS, name=id_or_name)  # ignoring case
    exact = [agent for agent in matches if agent["name"] == id_or_name]
    matches = exact if len(exact) == 1 else matches
    if len(matches) > 1:
        number = f"at least {MAX_AGENTS}" if len(matches) == MAX_AGENTS else str(len(matches))
        raise AgentNotFound(
            f"{number} agents have the name {id_or_name}; give one of the ids:",
            *(f"{agent['agent']}  organization {agent['organization']}" for agent in matches),
        )
    if not matches:
        names = {agent["name"] for agent in await client.supervisors(MAX_NAMES)}
        similar = get_close_matches(id_or_name, names)
        hint = f"; did you mean {' or '.join(plain(name) for name in similar)}?" if similar else ""
        raise AgentNotFound(f"there is no agent with the name {id_or_name}{hint}")
    return UUID(matches[0]["agent"])


def print_screen(screen: RenderableType) -> None:
    """Print a screen: as wide as the terminal, or in lines of any length for a file or a program."""
    if sys.stdout.isatty():
        Console(highlight=False).print(screen)
        return
    text = StringIO()
    Console(highlight=False, width=UNLIMITED_WIDTH, file=text).print(screen)
    click.echo("\n".join(line.rstrip() for line in text.getvalue().splitlines()))


async def _token(client: StatusClient, url: str, fetch_token: FetchToken) -> str:
    """Return the operator token. Raise DatabaseLost if it is in a database that does not answer."""
    try:
        return await fetch_token()
    except (DatabaseUnavailable, DatabaseRefused, EmbeddedPostgresError, OSError) as error:
        advice = (
            f"the operator token cannot be read from the database ({error}); to see more, set "
            "HOSTSVC__OPERATOR__TOKEN to the token that hostsvc operator-token printed earlier"
        )
        if problem := await client.readiness_problem():
            raise DatabaseLost(f"the service at {url} runs, but cannot serve: {problem}", advice) from error
        raise StatusUnavailable(f"the service at {url} runs and is ready, but {advice}") from error


def url_of(server: ServerSettings) -> str:
    """Return the URL at which this machine reaches the configured service, without the proxy before it."""
    if server.port == 0:
        raise StatusUnavailable(
            "server.port is 0, which selects any free port: set --url to the address that the service printed"
        )
    host = LOOPBACK_OF.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


async def _screen(client: StatusClient, agent_id: UUID | None, selection: Selection) -> Screen:
    if agent_id is not None and selection.at is not None:
        return past_screen(await client.supervisor_at(agent_id, selection.at)), 0
    if agent_id is not None:
        return agent_screen(await client.supervisor(agent_id)), 0
    status = await client.overview()
    try:
        agents = await client.supervisors(MAX_AGENTS, **selection.filters())
    except DatabaseLost as error:  # the service as a whole is shown from memory
        return service_screen(status, None, MAX_AGENTS), error.exit_code
    return service_screen(status, agents, MAX_AGENTS), 0


async def _watch(fetch_screen: Callable[[], Awaitable[Screen]]) -> None:
    """Show the screen, then fetch it again every second, even while the service does not answer."""
    screen, _ = await fetch_screen()
    console = Console(highlight=False)
    end_requested = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, end_requested.set)
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while not end_requested.is_set():
            if console.is_terminal:
                live.update(screen, refresh=True)
            else:
                print_screen(screen)
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await end_requested.wait()
            try:
                screen, _ = await fetch_screen()
            except StatusUnavailable as error:
                screen = Text(f"{error} (trying again every second)")
