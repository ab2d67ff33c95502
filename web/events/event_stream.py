"""One event stream: the events in the log after the cursor, then new ones, until somebody ends it."""

from collections.abc import Sequence
from contextlib import suppress

import structlog
from aiohttp import web

from storage.errors import StorageError
from storage.events.catalogue import EventType
from storage.events.model import Event, Interest
from supervisors.events.subscription import FeedError, FeedEvent, SubscriberTooSlow, Subscription
from web.app_keys import EVENT_FEED
from web.errors import ApiError, Unavailable
from web.events.frames import AT_ONCE, FRAMES, first_frame, live_frame, progress_frame, reset_frame
from web.events.open_streams import OpenStream
from web.events.selected_events import SelectedEvents, last_id
from web.media_types import EVENT_STREAM

HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
SKIPPED_IDS = 1000  # that filters left out, after which the client is told the new cursor
CLOSED_RETRY_SECONDS = 1

log = structlog.get_logger(__name__)


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
