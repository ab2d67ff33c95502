"""`hostsvc tail`: print the events of a running service as they happen."""

import asyncio
import json
import signal
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import click
from rich.console import Console

from hostsvc.cli.status_client import StatusClient, StatusUnavailable, status_client
from hostsvc.cli.status_command import FetchToken, authenticate, find_agent
from hostsvc.cli.tail_lines import event_line
from hostsvc.cli.tail_stream import EventFollower, position_at
from storage.events.catalogue import EventType

Json = dict[str, Any]

MAX_NAMES = 10_000  # of agents, kept by their ids
RESET = "reset"
STORED_TYPES = tuple(dict.fromkeys(f"{type_.partition('.')[0]}.*" for type_ in EventType))  # no `model.delta`


@dataclass(frozen=True, slots=True)
class TailOptions:
    """The events to print: those of one agent, since a moment, of some types; None or () for all."""

    agent: str | None = None
    since: datetime | None = None
    types: tuple[str, ...] = ()
    as_json: bool = False


async def tail(url: str, fetch_token: FetchToken, options: TailOptions) -> int:
    """Print events until Ctrl-C, and return the exit code.

    Raise StatusUnavailable if the first request fails.
    """
    following = asyncio.ensure_future(_follow(url, fetch_token, options))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, following.cancel)
    with suppress(asyncio.CancelledError):
        await following
    return 0


async def _follow(url: str, fetch_token: FetchToken, options: TailOptions) -> None:
    async with status_client(url) as client:
        await authenticate(client, url, fetch_token)
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
        self._names: OrderedDict[str, str] = OrderedDict()  # by the agent's id

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
            self._remember(id_, resource["name"])
        elif id_ not in self._names:
            self._remember(id_, await self._read_name(id_))
        return self._names[id_]

    def _remember(self, id_: str, name: str) -> None:
        self._names[id_] = name
        if len(self._names) > MAX_NAMES:
            self._names.popitem(last=False)

    async def _read_name(self, id_: str) -> str:
        try:
            return str((await self._client.supervisor(UUID(id_)))["name"])
        except StatusUnavailable:
            return id_


def escaped_json(event: Json) -> str:
    """Return the event as JSON of ASCII on one line, so that no text in it can command a terminal."""
    return json.dumps(event).replace("\x7f", "\\u007f")
