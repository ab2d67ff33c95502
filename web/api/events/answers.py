"""The answers that hold events: a stream, which goes on until somebody ends it, and one JSON document."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import structlog
from aiohttp import web

from storage.errors import StorageError
from storage.events.model import Event, EventType, Interest
from storage.storage import Storage
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import (
    FeedClosed,
    FeedError,
    FeedEvent,
    LiveEvent,
    SubscriberTooSlow,
    Subscription,
)
from web.api.events.frames import AT_ONCE, FRAMES, Frame, first_frame, live_frame, progress_frame, reset_frame
from web.api.events.open_streams import OpenStream
from web.api.events.schemas import STREAMED_TYPES
from web.app_keys import EVENT_FEED
from web.errors import ApiError, Unavailable
from web.json import JSON_TYPE, MAX_ANSWER_BYTES
from web.request_room import RequestRoom
from web.routes import EVENT_STREAM

AnyEvent = TypeVar("AnyEvent", bound=FeedEvent)

NOT_FOR_RUNS = "webhook."  # a run may not read deliveries
HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
SKIPPED_IDS = 1000  # that filters left out, after which the client is told the new cursor
CLOSED_RETRY_SECONDS = 1

MAX_PAGES = 20  # of the log that are read for one document; filters may leave out most events

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of a request. A blank `tag` selects all agents."""

    types: frozenset[str] = frozenset(STREAMED_TYPES)
    tag: str = ""
    is_for_run: bool = False

    def has_type(self, type_name: str) -> bool:
        """Return whether events of this type are selected."""
        if self.is_for_run and type_name.startswith(NOT_FOR_RUNS):
            return False
        return type_name in self.types


def last_id(events: Sequence[FeedEvent], default: int) -> int:
    """Return the id of the last event that has one."""
    return next((event.id for event in reversed(events) if isinstance(event, Event)), default)


class SelectedEvents:
    """Reads the events of one subscription. `position` is the cursor: every event up to it was returned.

    The log is read when it is the turn of `owner`, an organization, so that clients who catch up share the
    database fairly.
    """

    def __init__(
        self, storage: Storage, feed: EventFeed, room: RequestRoom, owner: UUID, selection: Selection
    ) -> None:
        self._storage = storage
        self._feed = feed
        self._room = room
        self._owner = owner
        self._selection = selection
        self._is_of_other_log = False
        self.position = 0

    async def start(self, subscription: Subscription, cursor: int | None) -> None:
        """Go to the cursor; None: to the events that the subscription offers.

        A cursor beyond the last id comes from a log that was lost, for example before the database was
        restored from a backup. Raise StorageError if the last id cannot be read.
        """
        self.position = subscription.position if cursor is None else cursor
        if self.position > subscription.position:
            self._is_of_other_log = self.position > await self._storage.events.get_last_id()

    def has_lost_events(self) -> bool:
        """Return whether events after the position have been removed from the log."""
        return self._is_of_other_log or self.position < self._feed.oldest

    def skip_lost_events(self) -> int:
        """Go to the beginning of the log, and return that position."""
        self._is_of_other_log = False
        self.position = self._feed.oldest
        return self.position

    def is_behind(self, subscription: Subscription) -> bool:
        """Return whether the next events lie in the log, before those that the subscription offers."""
        return self._is_of_other_log or self.position < subscription.position

    async def read_log(self, subscription: Subscription) -> Sequence[Event]:
        """Return the selected events among the next ones in the log.

        Return none, without going on, if events before them were removed in the meantime.
        """
        until = subscription.position
        async with self._room.reading(self._owner):
            events = await self._storage.events.list_after(subscription.interest, self.position, until)
        await self._feed.refresh_oldest()
        if self.has_lost_events():
            return ()
        selected = await self._select(events)
        self.position = events[-1].id if events.is_cut else until
        return selected

    async def wait(self, stream: OpenStream, subscription: Subscription) -> Sequence[FeedEvent]:
        """Return the selected events among the next ones that the subscription offers. Raise FeedError."""
        offered = await stream.next_events(subscription)
        new = [event for event in offered if isinstance(event, LiveEvent) or event.id > self.position]
        selected = await self._select(new)
        self.position = last_id(new, self.position)
        return selected

    async def _select(self, events: Sequence[AnyEvent]) -> Sequence[AnyEvent]:
        """Return the selected events. The tags are those that the agents have now, or had in the end."""
        chosen = [event for event in events if self._selection.has_type(event.type)]
        tag = self._selection.tag
        if not tag or not chosen:
            return chosen
        agent_ids = {event.agent_id for event in chosen if event.agent_id is not None}
        tags = await self._storage.event_resources.list_tags(agent_ids)
        return [event for event in chosen if event.agent_id and tag in tags.get(event.agent_id, ())]


class EventStream:
    """Sends events to one client. A client that falls behind gets the events from the log again."""

    def __init__(self, stream: OpenStream, interest: Interest, events: SelectedEvents) -> None:
        self._stream = stream
        self._interest = interest
        self._events = events

    async def run(self, cursor: int | None) -> web.StreamResponse:
        """Answer the request with the events after the cursor; None: from now on.

        Raise Unavailable or StorageError if the stream cannot begin. Later an error only ends it, and the
        client resumes at its last position.
        """
        request, stream = self._stream.request, self._stream
        try:
            while await self._serve(cursor):
                pass
        except (ApiError, StorageError):
            if stream.response is None:
                raise
        except FeedError as error:
            if stream.response is None:
                raise Unavailable("The service is shutting down.", CLOSED_RETRY_SECONDS) from error
        except ConnectionError:
            pass  # the client has disconnected
        except Exception:  # the request's outermost edge; the status has been sent, so no error can follow
            if stream.response is None:
                raise
            log.exception("event stream aborted", path=request.path)
            if request.transport is not None:
                request.transport.abort()
        return await self._end()

    async def _serve(self, cursor: int | None) -> bool:
        """Send events until the subscription ends. Return whether another one must follow it."""
        async with self._stream.request.app[EVENT_FEED].subscribe(self._interest) as subscription:
            self._stream.subscription = subscription
            if self._stream.response is None:
                await self._events.start(subscription, cursor)
                await self._begin()
            try:
                await self._send_log(subscription)
                while not self._stream.is_ended:
                    await self._send(await self._events.wait(self._stream, subscription))
            except SubscriberTooSlow:
                return True
        return False

    async def _begin(self) -> None:
        response = stream_response(self._stream.request)
        await response.prepare(self._stream.request)
        self._stream.response = response
        await self._stream.write([first_frame(self._events.position)], self._events.position)

    async def _send_log(self, subscription: Subscription) -> None:
        events = self._events
        while not self._stream.is_ended and events.is_behind(subscription):
            if events.has_lost_events():
                oldest = events.skip_lost_events()
                await self._stream.write([reset_frame(oldest)], oldest)
            await self._send(await events.read_log(subscription))

    async def _send(self, selected: Sequence[FeedEvent]) -> None:
        """Send these events, and at least the position from time to time."""
        for start in range(0, len(selected), AT_ONCE):
            part = selected[start : start + AT_ONCE]
            await self._stream.write(await self._frames(part), last_id(part, self._stream.position))
        if self._interest.agent_id is not None and any(self._is_end(event) for event in selected):
            self._stream.end()
        elif self._events.position >= self._stream.position + SKIPPED_IDS:
            await self._stream.write([progress_frame(self._events.position)], self._events.position)

    async def _frames(self, events: Sequence[FeedEvent]) -> list[bytes]:
        stored = [event for event in events if isinstance(event, Event)]
        frames = iter(await self._stream.request.app[FRAMES].get(stored))
        return [next(frames).text if isinstance(event, Event) else live_frame(event) for event in events]

    async def _end(self) -> web.StreamResponse:
        """Return the response, which is over. It has not begun if the client had disconnected before."""
        response = self._stream.response
        if response is None:
            return stream_response(self._stream.request)
        with suppress(ConnectionError):
            await response.write_eof()
        return response

    def _is_end(self, event: FeedEvent) -> bool:
        """Return whether nothing can follow, because the agent of the stream was deleted."""
        return event.type == EventType.AGENT_DELETED and event.agent_id == self._interest.agent_id


def stream_response(request: web.Request) -> web.StreamResponse:
    """Return the response of a stream, whose headers are sent at once."""
    return web.StreamResponse(headers=HEADERS)


class EventList:
    """Collects the events of one answer: at most `limit`, and about 1 MiB of them."""

    def __init__(self, stream: OpenStream, events: SelectedEvents, limit: int) -> None:
        self._stream = stream
        self._events = events
        self._limit = limit
        self._frames: list[Frame] = []
        self._bytes = 0
        self._is_full = False
        self._is_reset = False

    async def _read_log(self, subscription: Subscription) -> None:
        """Collect events that lie in the log."""
        for _ in range(MAX_PAGES):
            if not self._events.is_behind(subscription):
                return
            if self._events.has_lost_events():
                self._events.skip_lost_events()
                self._is_reset = True
            await self._add(await self._events.read_log(subscription))
            if self._is_full:
                return

    async def _wait(self, subscription: Subscription, seconds: float) -> None:
        """Wait for the first event, unless there is one already or more of them lie in the log.

        Raise TimeoutError after so many seconds.
        """
        until = asyncio.get_running_loop().time() + seconds
        while not self._frames and not self._events.is_behind(subscription):
            async with asyncio.timeout_at(until):
                offered = await self._events.wait(self._stream, subscription)
            await self._add([event for event in offered if isinstance(event, Event)])

    async def _add(self, events: Sequence[Event]) -> None:
        """Add events while there is room, and go back to the last one that has been added."""
        for start in range(0, len(events), AT_ONCE):
            for frame in await self._stream.request.app[FRAMES].get(events[start : start + AT_ONCE]):
                is_too_long = self._bytes + len(frame.json) > MAX_ANSWER_BYTES
                if self._frames and (len(self._frames) == self._limit or is_too_long):
                    self._is_full = True
                    self._events.position = self._frames[-1].id
                    return
                self._frames.append(frame)
                self._bytes += len(frame.json)

    async def run(self, interest: Interest, cursor: int | None, wait_seconds: int | None) -> web.Response:
        """Answer with the events after the cursor. Without any, wait so many seconds for the first one.

        Raise Unavailable when the service shuts down.
        """
        try:
            async with self._stream.request.app[EVENT_FEED].subscribe(interest) as subscription:
                self._stream.subscription = subscription
                await self._events.start(subscription, cursor)
                await self._read_log(subscription)
                await self._wait(subscription, wait_seconds or 0)
        except FeedClosed as error:
            raise Unavailable("The service is shutting down.", CLOSED_RETRY_SECONDS) from error
        except (TimeoutError, FeedError):
            pass
        return self._answer()

    def _answer(self) -> web.Response:
        """Return what was collected, as an EventsResponse."""
        texts = b",".join([frame.json for frame in self._frames])
        is_reset = b"true" if self._is_reset else b"false"
        body = b'{"events":[%b],"after":%d,"reset":%b}' % (texts, self._events.position, is_reset)
        return web.Response(body=body, headers={"Content-Type": JSON_TYPE})
