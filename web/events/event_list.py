"""Events as one JSON document, for clients without streams."""

import asyncio
from collections.abc import Sequence

from aiohttp import web

from storage.events.model import Event, Interest
from supervisors.events.subscription import FeedClosed, FeedError, Subscription
from web.app_keys import EVENT_FEED
from web.errors import Unavailable
from web.events.frames import AT_ONCE, FRAMES, Frame
from web.events.open_streams import OpenStream
from web.events.selected_events import SelectedEvents
from web.json import JSON_TYPE, MAX_ANSWER_BYTES
from web.schemas.events import DEFAULT_EVENTS

MAX_PAGES = 20  # of the log that are read for one answer; filters may leave out most events
CLOSED_RETRY_SECONDS = 1


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

    async def read_log(self, subscription: Subscription) -> None:
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

    async def wait(self, subscription: Subscription, seconds: float) -> None:
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

    def answer(self) -> web.Response:
        """Return what was collected, as an EventsResponse."""
        texts = b",".join([frame.json for frame in self._frames])
        is_reset = b"true" if self._is_reset else b"false"
        body = b'{"events":[%b],"after":%d,"reset":%b}' % (texts, self._events.position, is_reset)
        return web.Response(body=body, headers={"Content-Type": JSON_TYPE})


async def list_events(
    stream: OpenStream,
    interest: Interest,
    events: SelectedEvents,
    cursor: int | None,
    limit: int | None,
    wait_seconds: int | None,
) -> web.Response:
    """Answer with the events after the cursor. Without any, wait so many seconds for the first one.

    Raise Unavailable when the service shuts down.
    """
    collected = EventList(stream, events, limit or DEFAULT_EVENTS)
    try:
        async with stream.request.app[EVENT_FEED].subscribe(interest) as subscription:
            stream.subscription = subscription
            await events.start(subscription, cursor)
            await collected.read_log(subscription)
            await collected.wait(subscription, wait_seconds or 0)
    except FeedClosed as error:
        raise Unavailable("The service is shutting down.", CLOSED_RETRY_SECONDS) from error
    except (TimeoutError, FeedError):
        pass
    return collected.answer()
