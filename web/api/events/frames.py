"""Events as streams and lists send them, with what they are about, each written once for all receivers."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from aiohttp import web

from storage.events.model import Event
from storage.model import Agent
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.events.subscription import LiveEvent
from web.api.agents.agents import serialize_agent
from web.api.agents.runs import serialize_run
from web.api.channels.messages import serialize_message
from web.api.channels.notifications import serialize_notification
from web.api.events.schemas import RESET, ActorType, EventResponse, ResetResponse, actor_of
from web.api.organizations.webhooks import serialize_delivery
from web.json import Serializer, to_json
from web.request_room import RequestRoom

Representation = Mapping[str, Any]

AT_ONCE = 16  # events that are written together: each may hold a resource as long as a request body
LIFETIME_SECONDS = 5.0
MAX_BYTES = 33_554_432  # of all frames that are kept
FORGOTTEN_AT_ONCE = 64  # more than are written for one call
RETRY_MILLISECONDS = 1000


class _Kind(NamedTuple):
    """A kind of resource: which column of an event names it, and how it is read and represented."""

    column: str
    read: Callable[[Storage, Collection[UUID]], Awaitable[Sequence[Any]]]
    serialize: Callable[[Any], Representation]


async def _list_agents(storage: Storage, ids: Collection[UUID]) -> list[Agent]:
    """Read the agents by one statement, which concurrent reads share."""
    return [agent for agent in await asyncio.gather(*map(storage.agents.get, ids)) if agent is not None]


KINDS: Mapping[str, _Kind] = {  # by the family of the event's type
    "agent": _Kind("agent_id", _list_agents, serialize_agent),
    "run": _Kind("run_id", lambda storage, ids: storage.event_resources.list_runs(ids), serialize_run),
    "notification": _Kind(
        "resource_id",
        lambda storage, ids: storage.event_resources.list_notifications(ids),
        serialize_notification,
    ),
    "message": _Kind(
        "resource_id", lambda storage, ids: storage.event_resources.list_messages(ids), serialize_message
    ),
    "webhook": _Kind(
        "resource_id", lambda storage, ids: storage.event_resources.list_deliveries(ids), serialize_delivery
    ),
}


async def represent(storage: Storage, events: Iterable[Event]) -> dict[int, Representation]:
    """Return what the events are about, by the ids of the events; that which is gone is left out.

    A resource that another program has given to another agent is gone, too: the readers of the event may not
    reach that agent.
    """
    by_kind: dict[str, list[tuple[Event, UUID]]] = {}
    for event in events:
        family = event.type.partition(".")[0]
        resource_id = getattr(event, KINDS[family].column) if family in KINDS else None
        if resource_id is not None:
            by_kind.setdefault(family, []).append((event, resource_id))
    found: dict[int, Representation] = {}
    for family, named in by_kind.items():
        kind = KINDS[family]
        resources = await kind.read(storage, {resource_id for _, resource_id in named})
        owners = {resource.id: _owner(resource) for resource in resources}
        shown = {resource.id: kind.serialize(resource) for resource in resources}
        for event, resource_id in named:
            if owners.get(resource_id) == (event.organization_id, event.agent_id):
                found[event.id] = shown[resource_id]
    return found


def _owner(resource: Any) -> tuple[UUID, UUID | None]:
    """Return the organization and the agent that a resource belongs to."""
    agent_id = resource.id if isinstance(resource, Agent) else resource.agent_id
    return resource.organization_id, agent_id


@dataclass(frozen=True, slots=True)
class Frame:
    """An event as a stream sends it; the JSON inside is what lists contain."""

    id: int
    text: bytes
    json_start: int

    @property
    def json(self) -> bytes:
        return self.text[self.json_start : -2]


class _Writing(NamedTuple):
    """Events that are written together: when that began, and the frames by the ids of the events."""

    began_at: float
    frames: asyncio.Task[dict[int, Frame]]


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

    async def get(self, events: Sequence[Event]) -> list[Frame]:
        """Return the frames of the events, in their order. Raise StorageError if the database refuses."""
        self._forget_old()
        missing = [event for event in events if event.id not in self._writings]
        for start in range(0, len(missing), AT_ONCE):
            self._begin(missing[start : start + AT_ONCE])
        writings = [self._writings[event.id] for event in events]
        frames = [await asyncio.shield(writing.frames) for writing in writings]
        return [those[event.id] for event, those in zip(events, frames, strict=True)]

    def _begin(self, events: Sequence[Event]) -> None:
        """Write the events in a task, because the stream that needs them first may end before the others."""
        task = asyncio.create_task(self._write(events), name="event frames")
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the streams raise it
        writing = _Writing(self._clock.monotonic(), task)
        self._writings.update((event.id, writing) for event in events)

    async def _write(self, events: Sequence[Event]) -> dict[int, Frame]:
        try:
            async with self._room.reading(events[0].organization_id):
                resources = await represent(self._storage, events)
            frames = {event.id: frame_of(event, resources.get(event.id)) for event in events}
        except BaseException:
            for event in events:
                del self._writings[event.id]
            raise
        self._bytes += sum(len(frame.text) for frame in frames.values())
        return frames

    def _forget_old(self) -> None:
        """Forget frames that are too old, and the oldest ones if all take too many bytes."""
        oldest = self._clock.monotonic() - LIFETIME_SECONDS
        for event_id, writing in list(islice(self._writings.items(), FORGOTTEN_AT_ONCE)):
            is_kept = writing.began_at > oldest and self._bytes <= MAX_BYTES
            if is_kept or not writing.frames.done():
                return
            del self._writings[event_id]
            self._bytes -= len(writing.frames.result()[event_id].text)


FRAMES: web.AppKey[EventFrames] = web.AppKey("event_frames")


def _nothing(_: object) -> None:
    """Show null."""


_serialize_event = Serializer(EventResponse, Event, by=lambda event: actor_of(event.actor), resource=_nothing)
_serialize_live_event = Serializer(
    EventResponse,
    LiveEvent,
    **dict.fromkeys(("id", "resource_id", "resource"), _nothing),
    by=lambda event: {"type": ActorType.RUN, "id": event.run_id},
)


def frame_of(event: Event, resource: Representation | None) -> Frame:
    """Write an event together with what it is about; None if that is gone."""
    head = f"id: {event.id}\nevent: {event.type}\ndata: ".encode()
    body = to_json({**_serialize_event(event), "resource": resource})
    return Frame(event.id, b"%b%b\n\n" % (head, body), len(head))


def live_frame(event: LiveEvent) -> bytes:
    """Write a live event, which has no id and so does not change where a client resumes."""
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), to_json(_serialize_live_event(event)))


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
