"""The event streams that are open in this process: counted, kept alive, checked and ended."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import cast
from uuid import UUID

from aiohttp import web

from supervisors.events.feed import EventFeed
from supervisors.events.subscription import FeedError, FeedEvent, Subscription
from supervisors.fair_slots import decrement
from supervisors.maintenance.loop import repeat
from web.access.auth import Caller, reread_caller
from web.api.events.frames import progress_frame
from web.app_keys import CLOCK, SETTINGS
from web.errors import TooManyRequests
from web.paging import write_in_pieces
from web.request_room import PLACE

TICK_SECONDS = 1.0
CHECK_SECONDS = 3.0  # between two checks of the credentials
HEARTBEAT_SECONDS = 15.0
HEARTBEATS_AT_ONCE = 100  # before other work has a turn
HEARTBEAT = b":\n"
RETRY_SECONDS = 5
OPERATOR = UUID(int=0)  # counts the streams of the operator's token


class StreamEnded(FeedError):
    """The client is gone, or may no longer read the stream."""


class OpenStream:
    """A stream or a wait. Its handler writes events to `response`, and heartbeats come in between."""

    __slots__ = (
        "_is_waiting",
        "_is_writing",
        "_written_at",
        "caller",
        "is_ended",
        "position",
        "request",
        "response",
        "subscription",
    )

    def __init__(self, request: web.Request, caller: Caller | None) -> None:
        self.request = request
        self.caller = caller
        self.response: web.StreamResponse | None = None  # None: the answer is one JSON document
        self.subscription: Subscription | None = None
        self.position = 0  # the last cursor that was written
        self.is_ended = False
        self._written_at = 0.0
        self._is_waiting = False
        self._is_writing = False

    async def next_events(self, subscription: Subscription) -> Sequence[FeedEvent]:
        """Wait for the next events of the subscription. Raise FeedError if it has ended."""
        self._is_waiting = True
        try:
            return await subscription.get()
        finally:
            self._is_waiting = False

    async def write(self, frames: Sequence[bytes], position: int) -> None:
        """Write whole frames that bring the client to this position. Raise ConnectionError if it is gone."""
        if self.response is None:
            return
        self._is_writing = True
        try:
            for text in frames:
                await write_in_pieces(self.response, text)
        finally:
            self._is_writing = False
        self._written_at, self.position = self.request.app[CLOCK].monotonic(), position

    def end(self) -> None:
        """End the stream, at once if its handler waits for events."""
        self.is_ended = True
        if self.subscription is not None:
            self.subscription.end(StreamEnded("the stream has ended"))

    def is_lost(self) -> bool:
        """Return whether the client has disconnected."""
        return self.request.transport is None

    def needs_heartbeat(self, now: float) -> bool:
        """Return whether nothing was written for a while, and no bytes wait for the client."""
        if self.response is None or self._is_writing or now - self._written_at < HEARTBEAT_SECONDS:
            return False
        transport = cast("asyncio.WriteTransport | None", self.request.transport)
        return transport is not None and transport.get_write_buffer_size() == 0

    async def write_heartbeat(self, settled: int) -> None:
        """Write a comment, and the settled id as the cursor if every event up to it was written."""
        is_idle = self._is_waiting and self.subscription is not None and self.subscription.is_drained
        if is_idle and settled > self.position:
            await self.write((HEARTBEAT + progress_frame(settled),), settled)
        else:
            await self.write((HEARTBEAT,), self.position)


class OpenStreams:
    """The streams of one process: at most so many for each credential.

    One task notices clients that have disconnected, and writes heartbeats. Another one ends the streams of
    credentials that are no longer valid or reach other organizations now. It waits for the database, which
    must not delay heartbeats.
    """

    def __init__(self, app: web.Application, feed: EventFeed) -> None:
        self._app = app
        self._feed = feed
        self._clock = app[CLOCK]
        self._counts: Counter[UUID] = Counter()
        self._streams: dict[OpenStream, None] = {}
        self._opened = asyncio.Event()

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def open(self, request: web.Request, caller: Caller | None) -> Iterator[OpenStream]:
        """Count a stream of the caller; None: the operator. Raise TooManyRequests if it has too many.

        It takes no room of the requests in flight, because it mostly waits.
        """
        credential = OPERATOR if caller is None else caller.credential
        maximum = self._app[SETTINGS].limits.event_streams_per_caller
        if self._counts[credential] >= maximum:
            detail = (
                f"limits.event_streams_per_caller: at most {maximum} event streams are open "
                "for one credential at a time; close one of them."
            )
            raise TooManyRequests(detail, RETRY_SECONDS)
        if PLACE in request:
            request[PLACE].leave()
        stream = OpenStream(request, caller)
        self._counts[credential] += 1
        self._streams[stream] = None
        self._opened.set()
        try:
            yield stream
        finally:
            del self._streams[stream]
            if not self._streams:
                self._opened.clear()
            decrement(self._counts, credential)

    async def run_once(self) -> None:
        """End the streams of clients that have disconnected, and write the heartbeats that are due.

        Wait while no stream is open.
        """
        await self._opened.wait()
        for stream in list(self._streams):
            if stream.is_lost():
                stream.end()
        await self._write_heartbeats()

    async def check_callers(self) -> None:
        """End the streams of callers who are no longer what they were. Wait while no stream is open."""
        await self._opened.wait()
        callers = {stream.caller.credential: stream.caller for stream in self._streams if stream.caller}
        current = await asyncio.gather(*(reread_caller(self._app, caller) for caller in callers.values()))
        by_credential = dict(zip(callers, current, strict=True))
        for stream in list(self._streams):
            caller = stream.caller
            if caller and caller.credential in by_credential and by_credential[caller.credential] != caller:
                stream.end()

    async def _write_heartbeats(self) -> None:
        now = self._clock.monotonic()
        due = [stream for stream in self._streams if stream.needs_heartbeat(now)]
        for count, stream in enumerate(due, 1):
            if stream in self._streams and stream.needs_heartbeat(now):
                with suppress(ConnectionError):
                    await stream.write_heartbeat(self._feed.settled)
            if count % HEARTBEATS_AT_ONCE == 0:
                await self._clock.sleep(0)


OPEN_STREAMS: web.AppKey[OpenStreams] = web.AppKey("open_streams")


async def look_after_streams(app: web.Application) -> AsyncIterator[None]:
    """Run the tasks that serve the streams, for as long as the application."""
    streams, clock = app[OPEN_STREAMS], app[CLOCK]
    loops = (
        repeat("event streams", streams.run_once, TICK_SECONDS, clock),
        repeat("callers of event streams", streams.check_callers, CHECK_SECONDS, clock),
    )
    tasks = {asyncio.create_task(loop, name="event streams") for loop in loops}
    yield
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
