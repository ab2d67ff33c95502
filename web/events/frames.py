"""Events as streams and lists send them, each written once for all that receive it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from aiohttp import web

from storage.events.model import Event
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.events.subscription import LiveEvent
from web.events.resources import Representation, represent
from web.json import to_json
from web.request_room import RequestRoom
from web.schemas.events import RESET, ActorType, ResetResponse, actor_of

AT_ONCE = 16  # events that are written together: each may hold a resource as long as a request body
LIFETIME_SECONDS = 5.0
MAX_BYTES = 33_554_432  # of all frames that are kept
FORGOTTEN_AT_ONCE = 64  # more than are written for one call
RETRY_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class Frame:
    """An event as a stream sends it; the JSON inside is what lists contain."""

    id: int
    text: bytes
    json_start: int

    @property
    def json(self) -> bytes:
        return self.text[self.json_start : -2]


class _Writing:
    """Events that are written together. `end` is set when their frames are there, or `error`."""

    __slots__ = ("began_at", "end", "error", "frames")

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.frames: dict[int, Frame] = {}
        self.error: Exception | None = None
        self.end = asyncio.Event()


class EventFrames:
    """Writes events together with what they are about, as it is at that moment.

    A frame is kept for a few seconds: all streams that receive the event send the same bytes.
    """

    def __init__(self, storage: Storage, clock: Clock, room: RequestRoom) -> None:
        self._storage = storage
        self._clock = clock
        self._room = room
        self._writings: dict[int, _Writing] = {}  # by the id of each event, the oldest first
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<EventFrames: {len(self._writings)} with {self._bytes} bytes>"

    async def get(self, events: Sequence[Event]) -> list[Frame]:
        """Return the frames of the events, in their order. Raise StorageError if the database refuses."""
        self._forget_old()
        missing = [event for event in events if event.id not in self._writings]
        for start in range(0, len(missing), AT_ONCE):
            self._begin(missing[start : start + AT_ONCE])
        writings = [self._writings[event.id] for event in events]
        for writing in writings:
            if not writing.end.is_set():
                await writing.end.wait()
            if writing.error is not None:
                raise writing.error
        return [writing.frames[event.id] for event, writing in zip(events, writings, strict=True)]

    def _begin(self, events: Sequence[Event]) -> None:
        """Write the events in a task, because the stream that needs them first may end before the others."""
        writing = _Writing(self._clock.monotonic())
        for event in events:
            self._writings[event.id] = writing
        task = asyncio.create_task(self._write(events, writing), name="event frames")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, events: Sequence[Event], writing: _Writing) -> None:
        try:
            resources = await self._represent(events)
            writing.frames = {event.id: frame_of(event, resources.get(event.id)) for event in events}
            self._bytes += sum(len(frame.text) for frame in writing.frames.values())
        except Exception as error:  # the outermost edge of the task: the streams get the error
            writing.error = error
            for event in events:
                del self._writings[event.id]
        writing.end.set()

    async def _represent(self, events: Sequence[Event]) -> Mapping[int, Representation]:
        organization_id = events[0].organization_id
        async with self._room.reading(organization_id):
            return await represent(self._storage, events)

    def _forget_old(self) -> None:
        """Forget frames that are too old, and the oldest ones if all take too many bytes."""
        oldest = self._clock.monotonic() - LIFETIME_SECONDS
        for event_id, writing in list(islice(self._writings.items(), FORGOTTEN_AT_ONCE)):
            is_kept = writing.began_at > oldest and self._bytes <= MAX_BYTES
            if is_kept or not writing.end.is_set():
                return
            del self._writings[event_id]
            self._bytes -= len(writing.frames[event_id].text)


FRAMES: web.AppKey[EventFrames] = web.AppKey("event_frames")


def frame_of(event: Event, resource: Representation | None) -> Frame:
    """Write an event together with what it is about; None if that is gone."""
    head = f"id: {event.id}\nevent: {event.type}\ndata: ".encode()
    body = to_json(
        {
            "id": event.id,
            "type": event.type,
            "at": event.at,
            "organization": event.organization_id,
            "agent": event.agent_id,
            "run": event.run_id,
            "resource_id": event.resource_id,
            "by": actor_of(event.actor),
            "data": event.data,
            "resource": resource,
        }
    )
    return Frame(event.id, b"%b%b\n\n" % (head, body), len(head))


def live_frame(event: LiveEvent) -> bytes:
    """Write a live event, which has no id and so does not change where a client resumes."""
    body = {
        "id": None,
        "type": event.type,
        "at": event.at,
        "organization": event.organization_id,
        "agent": event.agent_id,
        "run": event.run_id,
        "resource_id": None,
        "by": {"type": ActorType.RUN, "id": event.run_id},
        "data": event.data,
        "resource": None,
    }
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), to_json(body))


def first_frame(position: int) -> bytes:
    """Write the beginning of a stream: how soon to reconnect, and the cursor even if no event follows."""
    return b"retry: %d\nid: %d\n\n" % (RETRY_MILLISECONDS, position)


def progress_frame(position: int) -> bytes:
    """Write a new cursor for a stream whose filters have left out the events up to it."""
    return b"id: %d\n\n" % position


def reset_frame(oldest: int) -> bytes:
    """Write that events were removed before those that follow; `oldest` is the id before the oldest kept."""
    body: ResetResponse = {"type": RESET, "oldest": oldest + 1}
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (oldest, RESET.encode(), to_json(body))
