"""The stream of events of a running service: frames, where to begin, and how it goes on after a break."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hostsvc.cli.status_client import (
    DatabaseLost,
    Query,
    ServiceNotRunning,
    ServiceStandingBy,
    StatusClient,
    StatusUnavailable,
)

Json = dict[str, Any]

RETRY_SECONDS = 1.0
MAX_FRAME_BYTES = 2**25  # the longest resource is a tenth of it
TRANSIENT = (ServiceNotRunning, ServiceStandingBy, DatabaseLost)  # a restart or a failover brings it back


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a stream: an event with its data, or, without data, only a new position."""

    position: str
    type: str
    data: str


@dataclass(slots=True)
class FrameParser:
    """Splits the bytes of a stream into frames. Comments and unknown fields are ignored."""

    position: str
    _rest: bytes = b""
    _type: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that this chunk completes. Raise ValueError for a stream of another kind."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MAX_FRAME_BYTES:
            raise ValueError("a line of the stream is too long")
        return [frame for line in lines if (frame := self._take(line.rstrip(b"\r").decode())) is not None]

    def _take(self, line: str) -> Frame | None:
        if not line:
            frame = Frame(self.position, self._type, "\n".join(self._data))
            self._type, self._data = "", []
            return frame
        name, _, value = line.partition(":")
        match name:
            case "id":
                self.position = value.removeprefix(" ")
            case "event":
                self._type = value.removeprefix(" ")
            case "data":
                self._data.append(value.removeprefix(" "))
        return None


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


class EventFollower:
    """Passes on the events after a position, in their order, and reconnects where the stream breaks off.

    `on_break` is told what is wrong when it breaks off, and "" when it goes on.
    """

    def __init__(
        self,
        client: StatusClient,
        query: Query,
        position: str,
        on_event: Callable[[str, Json], Awaitable[None]],
        on_break: Callable[[str], None],
    ) -> None:
        self._client = client
        self._query = query
        self._position = position
        self._on_event = on_event
        self._on_break = on_break
        self._is_broken = False

    async def run(self) -> None:
        """Pass on events for ever. Raise StatusUnavailable if the service refuses the stream."""
        while True:
            problem = "the service has ended the stream"
            try:
                await self._read_stream()
            except ValueError as error:
                raise StatusUnavailable(f"the stream is none of hostsvc: {error}; correct --url") from error
            except StatusUnavailable as error:
                if not isinstance(error, TRANSIENT):
                    raise
                problem = str(error)
            if not self._is_broken:
                self._is_broken = True
                self._on_break(problem)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_stream(self) -> None:
        parser = FrameParser(self._position)
        async with self._client.event_stream(self._query, self._position) as content:
            if self._is_broken:
                self._is_broken = False
                self._on_break("")
            async for chunk in content.iter_any():
                for frame in parser.feed(chunk):
                    self._position = frame.position
                    if frame.data:
                        await self._on_event(frame.type, json.loads(frame.data))
