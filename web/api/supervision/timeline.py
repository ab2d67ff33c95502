"""The timeline of an agent: what happened to it in a period."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.events.model import EventType
from storage.events.timeline import NotificationTimes
from storage.model import Agent, Priority
from supervisors.text import format_timestamp
from supervisors.timeline.bands import Band, BandPhase
from supervisors.timeline.marks import Ahead, AheadKind, Mark
from supervisors.timeline.timelines import MAX_CHANGES, MAX_PAUSES, PastState, TooManyChanges
from web.access.auth import Caller
from web.access.path_access import load_agent, turn_to_read
from web.api.events.schemas import ActorResponse, actor_of
from web.app_keys import CLOCK, TIMELINES
from web.errors import Invalid, require_found
from web.fields import Datetime
from web.json import Serializer
from web.request.parsing import Body, localize, read_query
from web.routes import Routes


class TimelineQuery(Body):
    """The period to show."""

    start = Datetime(load_default=None)
    """The start of the period, in the agent's time zone if it has no offset. Left out: a day before `end`."""
    end = Datetime(load_default=None)
    """The end of the period, at most 31 days after its start, and an hour if the clock is set back; it may
    lie ahead. Left out: now."""


class SupervisorAtQuery(Body):
    """The moment to explain."""

    at = Datetime(load_default=None)
    """A moment in the past; in the agent's time zone if it has no offset. Left out: now."""


class BandResponse(TypedDict):
    """A part of a period in which the agent was in one phase for one reason."""

    phase: BandPhase
    """The phase of the agent."""
    start: datetime
    """When the band begins: at the end of the one before it."""
    end: datetime
    """When the band ends, itself excluded."""
    why: str | None
    """The sentence that explained the agent at that time; null if it is not kept."""
    run: UUID | None
    """The run that was active; null if there was none."""
    event: int | None
    """The id of the event that began the band; null if that is not kept."""


class MarkResponse(TypedDict):
    """Something that happened beside the phases. A notification is one mark, from arrival to clearing."""

    at: datetime
    """When it happened; for a notification when it arrived, which may be before the period."""
    type: EventType
    """The type of the event. A change of the phase is a mark if a person or program asked for it."""
    event: int
    """The id of the event."""
    resource: UUID | None
    """The notification, message or delivery that it is about; null if it is about the agent or a run."""
    run: UUID | None
    """The run that did it, or that it is about; null if there is none."""
    by: ActorResponse
    """The one who did it."""
    data: Mapping[str, Any]
    """The data of the event, by its type."""
    title: str | None
    """The beginning of the notification's title; null if it is about something else, or no longer exists."""
    priority: Priority | None
    """The priority of the notification; null if it is about something else, or no longer exists."""
    due_at: datetime | None
    """When the notification, a reminder, falls due; null for all others."""
    cleared_at: datetime | None
    """When the notification was cleared, which may be after the period; null if it is not."""
    cleared_by: ActorResponse | None
    """The one who cleared it; null if nobody has, or if that was after the period."""


class AheadResponse(TypedDict):
    """A moment that lies ahead, as far as it is decided at present."""

    at: datetime
    """When it will be."""
    kind: AheadKind
    """What will be then."""
    because: str
    """The reason, as a sentence."""
    resource: UUID | None
    """The reminder or the schedule; null for other kinds."""


class WaitingResponse(TypedDict):
    """A notification that waited during the whole period: it arrived before it, and was not cleared in it."""

    notification: UUID
    """The notification."""
    title: str
    """The beginning of its title."""
    priority: Priority
    """Its priority."""
    created_at: datetime
    """When it arrived, before the period."""
    due_at: datetime | None
    """When it, a reminder, falls due, before the end of the period; null for all others."""
    cleared_at: datetime | None
    """When it was cleared, after the period; null while it is not."""


class TimelineResponse(TypedDict):
    """What happened to an agent in a period."""

    agent: UUID
    """The agent."""
    start: datetime
    """The start of the period."""
    end: datetime
    """The end of the period, itself excluded."""
    bands: list[BandResponse]
    """The phases, without gaps or overlaps from `start` to `end`, or to now if `end` lies ahead."""
    marks: list[MarkResponse]
    """What happened beside the phases, by time, for up to 4,000 events."""
    marks_left_out: int
    """How many earlier events of the period have no mark; a shorter period shows them."""
    waiting: list[WaitingResponse]
    """Notifications that waited during the whole period, the oldest first: of the last 500 from before it,
    and of the last 500 of those that nobody has cleared."""
    ahead: list[AheadResponse]
    """What lies ahead until `end`, by time, with up to 100 reminders and ten moments of each schedule;
    empty if `end` is past."""


class PastSupervisorResponse(TypedDict):
    """One agent as it was at a moment in the past."""

    agent: UUID
    """The id of the agent."""
    name: str
    """The present name of the agent."""
    organization: UUID
    """The organization that the agent belongs to."""
    at: datetime
    """The moment."""
    phase: BandPhase
    """The phase of the agent at that moment; `unknown` if it did not exist yet or is not known any more."""
    since: datetime | None
    """When the phase began; null if that is not known."""
    why: str | None
    """Why the agent was in this phase, or why that is not known; null if only the phase is known."""
    next_wake_at: datetime | None
    """When it was to wake by itself; null if only something new could wake it, or each message postponed
    it (`holding`)."""
    run: UUID | None
    """The run that was active; null if there was none."""
    event: int | None
    """The id of the event that this is known from; null if that is not kept."""


def serialize_past(agent: Agent, at: datetime, past: PastState) -> PastSupervisorResponse:
    state = past.state
    return {
        "agent": agent.id,
        "name": agent.name,
        "organization": agent.organization_id,
        "at": at,
        "phase": state.phase,
        "since": past.since,
        "why": state.why,
        "next_wake_at": datetime.fromisoformat(state.next_wake_at) if state.next_wake_at else None,
        "run": state.run_id,
        "event": state.event_id,
    }


def _serialize_bands(bands: Sequence[Band]) -> list[Any]:
    """Return the fields of BandResponses. Each limit is formatted once: there are thousands of them."""
    limits = [format_timestamp(band.start) for band in bands]
    limits += [format_timestamp(bands[-1].end)] if bands else []
    return [
        {
            "phase": state.phase,
            "start": start,
            "end": end,
            "why": state.why,
            "run": state.run_id,
            "event": state.event_id,
        }
        for (start, end), (_, _, state) in zip(pairwise(limits), bands, strict=True)
    ]


_serialize_mark = Serializer(
    MarkResponse,
    Mark,
    event="event_id",
    resource="resource_id",
    run="run_id",
    by=lambda mark: actor_of(mark.actor),
    cleared_by=lambda mark: None if mark.cleared_by is None else actor_of(mark.cleared_by),
)
_serialize_ahead = Serializer(AheadResponse, Ahead)
_serialize_waiting = Serializer(WaitingResponse, NotificationTimes, notification="id", due_at="scheduled_for")

routes = Routes()

DEFAULT_PERIOD = timedelta(days=1)
MAX_DAYS = 31
LONGER_BY_CLOCK = timedelta(hours=1)  # 31 days are an hour longer if the clock is set back in one of them
MIN_DATETIME = datetime.min.replace(tzinfo=UTC)
TOO_LONG = f"The period may be at most {MAX_DAYS} days long: choose a later start or an earlier end."
TOO_MANY_CHANGES = (
    f"Choose an end up to {{}}, or a later start: in this period the agent changed its phase more than "
    f"{MAX_CHANGES:,} times, or its organization was paused or unpaused more than {MAX_PAUSES:,} times."
)


@routes.get("/api/cloud/agents/{id}/timeline/", query=TimelineQuery)
async def get_timeline(request: web.Request, caller: Caller) -> TimelineResponse:
    """Show what happened to an agent in a period, by default the last 24 hours: its phases, and what was
    beside them, such as notifications, messages and changes by people.

    If the period reaches past now, the answer says what lies ahead. A period with more than 4,000 changes of
    the phase is refused, with the latest `end` that its `start` takes.
    """
    return await read_timeline(request, await load_agent(request, caller), read_query(request))


async def read_timeline(request: web.Request, agent: Agent, query: dict[str, Any]) -> TimelineResponse:
    """Return the timeline of the agent in the period of a `TimelineQuery`.

    Raise NotFound if the agent was deleted, Invalid for a period that is refused.
    """
    localize(query, ("start", "end"), ZoneInfo(agent.timezone))
    start, end = _period(query, request.app[CLOCK].now())
    try:
        async with turn_to_read(request):
            timeline = require_found(await request.app[TIMELINES].timeline(agent.id, start=start, end=end))
    except TooManyChanges as error:
        raise Invalid({"end": [TOO_MANY_CHANGES.format(format_timestamp(error.fits_until))]}) from None
    return {
        "agent": agent.id,
        "start": start,
        "end": end,
        "bands": _serialize_bands(timeline.bands),
        "marks": [_serialize_mark(mark) for mark in timeline.marks],
        "marks_left_out": timeline.marks_left_out,
        "waiting": [_serialize_waiting(notification) for notification in timeline.waiting],
        "ahead": [_serialize_ahead(moment) for moment in timeline.ahead],
    }


def _period(query: dict[str, Any], now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end of the period. Raise Invalid for a period that is empty or too long."""
    end: datetime = query["end"] or now
    start: datetime = query["start"] or end - min(DEFAULT_PERIOD, end - MIN_DATETIME)
    require_period({"start": start, "end": end})
    return start, end


def require_period(fields: Mapping[str, datetime]) -> None:
    """Raise Invalid for a period that is empty or too long. `fields`: its start and its end, by name."""
    (first, start), (last, end) = fields.items()
    if start >= end:
        raise Invalid({first: [f"{first} must be before {last}."]})
    if end - start > timedelta(days=MAX_DAYS) + LONGER_BY_CLOCK:
        raise Invalid({first: [TOO_LONG]})
