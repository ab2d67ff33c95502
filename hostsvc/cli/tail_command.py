"""`hostsvc tail`: print the events of a running service as they happen."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import click
from aiohttp.http_exceptions import LineTooLong
from rich.console import Console

from hostsvc.cli.moments import FORMS, InvalidMoment, parse_moment
from hostsvc.cli.runner import config_option, run_command
from hostsvc.cli.status_client import (
    DatabaseLost,
    Query,
    ServiceNotRunning,
    StatusClient,
    StatusUnavailable,
    status_client,
)
from hostsvc.cli.status_command import address, authenticate, find_agent
from hostsvc.cli.tail_lines import event_line
from hostsvc.config import Config
from hostsvc.database import operator_token
from storage.events.model import SHOWN_TYPES
from supervisors.clock import SystemClock

Json = dict[str, Any]

RESET = "reset"
STORED_TYPES = tuple(dict.fromkeys(f"{type_.partition('.')[0]}.*" for type_ in SHOWN_TYPES))

RETRY_SECONDS = 1.0
TRANSIENT = (ServiceNotRunning, DatabaseLost)  # a restart or a failover brings it back


@dataclass(frozen=True, slots=True)
class TailOptions:
    """The events to print: those of one agent, since a moment, of some types; None or () for all."""

    agent: str | None = None
    since: datetime | None = None
    types: tuple[str, ...] = ()
    as_json: bool = False


@click.command("tail")
@click.argument("agent", metavar="[AGENT]", required=False)
@click.option("--since", metavar="MOMENT", help=f"Begin with the events since then: {FORMS}.")
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Print only events of this type, such as run.ended or notification.*; may be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each event as JSON on one line.")
@click.option("--url", metavar="URL", help="The address of the service. Without it: the configured one.")
@config_option
def tail_command(
    agent: str | None,
    since: str | None,
    types: tuple[str, ...],
    as_json: bool,
    url: str | None,
    file: Path | None,
) -> None:
    """Print what happens in a running service, until Ctrl-C.

    With AGENT, the id or the name of an agent: only what happens to this agent. Times are those of this
    machine's time zone. The text that models write is printed only with --type model.delta.

    The exit code is 3 if no service answers, and 5 if it has lost its database. Once it has begun, the
    command goes on where it was when the service restarts.
    """
    try:
        moment = parse_moment(since, SystemClock().now()) if since is not None else None
    except InvalidMoment as error:
        raise click.UsageError(f"--since: {error}") from None
    run_command(file, partial(_tail, options=TailOptions(agent, moment, types, as_json), url=url))


async def _tail(config: Config, *, options: TailOptions, url: str | None) -> None:
    """Print events until Ctrl-C. Raise StatusUnavailable if the first request fails."""
    following = asyncio.ensure_future(_follow(config, options, address(config, url)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, following.cancel)
    with suppress(asyncio.CancelledError):
        await following


async def _follow(config: Config, options: TailOptions, url: str) -> None:
    async with status_client(url) as client:
        await authenticate(client, url, partial(operator_token, config))
        query = [("type", type_) for type_ in options.types or STORED_TYPES]
        if options.agent is not None:
            agent_id = await find_agent(client, options.agent)
            await client.supervisor(agent_id)  # an id that no agent has would be silence for ever
            query.append(("agent", str(agent_id)))
        position = await position_at(client, options.since)
        printer = EventPrinter(client, options)
        await EventFollower(client, query, position, printer.print_event, print_break).run()


def print_break(problem: str) -> None:
    """Say on stderr that the stream has broken off, or with "" that it goes on."""
    click.echo(f"hostsvc: {problem}; reconnecting" if problem else "hostsvc: connected again", err=True)


class EventPrinter:
    """Prints events: as lines in the colors of a terminal, as plain lines, or as JSON."""

    def __init__(self, client: StatusClient, options: TailOptions) -> None:
        self._client = client
        self._options = options
        self._console = Console(highlight=False) if sys.stdout.isatty() else None
        self._names: dict[str, str] = {}  # by the agent's id

    async def print_event(self, type_: str, event: Json) -> None:
        """Print the event."""
        if self._options.as_json:
            click.echo(escaped_json(event))
        elif type_ == RESET:
            click.echo("hostsvc: older events have been deleted; the oldest that is kept follows", err=True)
        else:
            line = event_line(event, await self._name_of(event))
            if self._console is None:
                click.echo(line.plain)
            else:
                self._console.print(line, soft_wrap=True)

    async def _name_of(self, event: Json) -> str:
        """Return the name of the event's agent, or its id if the agent is gone."""
        id_, resource = event["agent"], event["resource"] or {}
        if id_ is None:
            return ""
        if resource.get("id") == id_:
            self._names[id_] = resource["name"]
        elif id_ not in self._names:
            self._names[id_] = await self._read_name(id_)
        return self._names[id_]

    async def _read_name(self, id_: str) -> str:
        try:
            return str((await self._client.supervisor(UUID(id_)))["name"])
        except StatusUnavailable:
            return id_


def escaped_json(event: Json) -> str:
    """Return the event as JSON of ASCII on one line, so that no text in it can command a terminal."""
    return json.dumps(event).replace("\x7f", "\\u007f")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a stream: an event with its data, or, without data, only a new position."""

    position: str
    type: str
    data: str


async def read_frames(lines: AsyncIterable[bytes], position: str) -> AsyncIterator[Frame]:
    """Yield the frames that the lines of a stream make. Comments and unknown fields are ignored."""
    type_, data = "", list[str]()
    async for line in lines:
        text = line.decode().rstrip("\r\n")
        name, _, value = text.partition(":")
        match name:
            case "id":
                position = value.removeprefix(" ")
            case "event":
                type_ = value.removeprefix(" ")
            case "data":
                data.append(value.removeprefix(" "))
            case _ if not text:
                yield Frame(position, type_, "\n".join(data))
                type_, data = "", []


async def position_at(client: StatusClient, since: datetime | None) -> str:
    """Return the position after the newest event, or before those at or after `since`.

    It is found by halving: ids grow with time, and each look reads one event.
    """
    newest = str((await client.event_page([("limit", "1"), ("wait", "0")]))["after"])
    if since is None:
        return newest
    low, high = 0, int(newest)
    while low < high:
        middle = (low + high) // 2
        page = await client.event_page([("limit", "1"), ("wait", "0"), ("after", str(middle))])
        event = next(iter(page["events"]), None)
        if event is None or datetime.fromisoformat(event["at"]) >= since:
            high = middle
        else:
            low = min(event["id"], high)
    return str(low)


@dataclass(slots=True, eq=False)
class EventFollower:
    """Passes on the events after a position, in their order, and reconnects where the stream breaks off.

    `on_break` is told what is wrong when it breaks off, and "" when it goes on.
    """

    client: StatusClient
    query: Query
    position: str
    on_event: Callable[[str, Json], Awaitable[None]]
    on_break: Callable[[str], None]
    _is_broken: bool = False

    async def run(self) -> None:
        """Pass on events for ever. Raise StatusUnavailable if the service refuses the stream."""
        while True:
            problem = "the service has ended the stream"
            try:
                await self._read_stream()
            except (ValueError, LineTooLong) as error:
                reason = "a line is too long" if isinstance(error, LineTooLong) else error
                raise StatusUnavailable(f"the stream is none of hostsvc: {reason}; correct --url") from error
            except StatusUnavailable as error:
                if not isinstance(error, TRANSIENT):
                    raise
                problem = str(error)
            if not self._is_broken:
                self._is_broken = True
                self.on_break(problem)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_stream(self) -> None:
        async with self.client.event_stream(self.query, self.position) as content:
            if self._is_broken:
                self._is_broken = False
                self.on_break("")
            async for frame in read_frames(content, self.position):
                self.position = frame.position
                if frame.data:
                    await self.on_event(frame.type, json.loads(frame.data))
