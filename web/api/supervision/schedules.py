"""Schedules: what puts a notification into the queue of an agent again and again, at set times."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.ids import new_id
from storage.model import Agent, Priority
from storage.notifications.schedules import (
    IfUncleared,
    Occurrence,
    OccurrenceOutcome,
    OnlyIf,
    PausedReason,
    Schedule,
    WakeIf,
)
from storage.postgres.json_values import to_json
from supervisors.policy.schedules import BadSchedule, changed, hint_of, run_now, says, upcoming
from supervisors.text import format_local
from supervisors.tools.arguments import ToolError
from web.access.auth import Caller
from web.access.path_access import load_agent, load_owned, require_agent
from web.access.references import load_named
from web.api.events.schemas import ActorResponse, actor_of
from web.app_keys import CLOCK, STORAGE, TOOLSET
from web.errors import Conflict, Invalid, NotFound, refusing_constraint_errors
from web.fields import (
    MAX_INT32,
    MAX_SIDE_TEXT,
    Boolean,
    Choice,
    Datetime,
    Integer,
    JsonObject,
    Line,
    ObjectOf,
    Text,
    Timezone,
    UtcDatetime,
    Uuid,
)
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer, json_response
from web.observability.requests import HEADERS, HINT_HEADER
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, localize, read_body, read_query
from web.routes import Routes

SHOWN_MOMENTS = 5
MAX_MOMENTS = 100
MAX_NAME = 100
MAX_BODY = 10_000  # characters: many schedules may be due at the same moment
MIN_EVERY_SECONDS = 60
MAX_SECONDS = 10 * 366 * 86_400
MAX_JITTER_SECONDS = 3600
LOCAL_FIELDS = ("starts_at", "ends_at")


class CheckBody(Body):
    """A call of a tool that decides whether a schedule notifies."""

    tool = Line(required=True, blank=False, max_length=MAX_NAME)
    """The name by which the agent calls the tool, which must be `idempotent`."""
    arguments = JsonObject(load_default=dict)
    """The arguments of the call, at most 10,000 bytes of JSON."""
    wake_if = Choice(WakeIf, load_default=WakeIf.CHANGED)
    """The answer that notifies."""


class PutScheduleBody(Body):
    """The settings of a schedule whose agent and name are known."""

    title = Line(required=True, blank=False, max_length=MAX_SIDE_TEXT)
    body = Text(load_default="", max_length=MAX_BODY)
    priority = Choice(Priority, load_default=Priority.HIGH)
    cron = Line(blank=False, max_length=255, allow_none=True, load_default=None)
    every_seconds = Integer(
        min_value=MIN_EVERY_SECONDS, max_value=MAX_SECONDS, allow_none=True, load_default=None
    )
    timezone = Timezone(blank=False, max_length=255, allow_none=True, load_default=None)
    starts_at = Datetime(allow_none=True, load_default=None)
    ends_at = Datetime(allow_none=True, load_default=None)
    max_occurrences = Integer(min_value=1, max_value=MAX_INT32, allow_none=True, load_default=None)
    late_seconds = Integer(max_value=MAX_SECONDS, allow_none=True, load_default=None)
    if_uncleared = Choice(IfUncleared, load_default=IfUncleared.MERGE)
    only_if = Choice(OnlyIf, load_default=OnlyIf.ALWAYS)
    jitter_seconds = Integer(max_value=MAX_JITTER_SECONDS, load_default=0)
    watch = ObjectOf(CheckBody, data_key="check", allow_none=True, load_default=None)
    paused = Boolean(load_default=False)


class ScheduleChangesBody(PutScheduleBody):
    """The fields to change; `cron` takes the place of `every_seconds`, and the other way round."""

    name = Line(blank=False, max_length=MAX_NAME)


NAMED = ScheduleChangesBody(only=["name"])


class NewScheduleBody(PutScheduleBody):
    """A new schedule."""

    agent_id = Uuid(data_key="agent", required=True)
    name = Line(max_length=MAX_NAME, load_default="")
    """Its name, unique for the agent. Left out: the beginning of the title."""


class SchedulePreviewBody(Body):
    """When to occur, and in which time zone."""

    cron = Line(required=True, blank=False, max_length=255)
    """A cron expression: minute, hour, day of month, month, day of week."""
    timezone = Timezone(blank=False, max_length=255, load_default="UTC")
    """An IANA name."""
    n = Integer(min_value=1, max_value=MAX_MOMENTS, load_default=SHOWN_MOMENTS)
    """How many moments to show."""


class ScheduleQuery(PageQuery):
    agent = Uuid(load_default=None)
    """Only schedules of this agent."""
    paused = Boolean(load_default=None)
    """true: only those that notify nobody at present, whatever the reason. false: only the others."""
    tag = Line(load_default="", max_length=255)
    """Only schedules of agents that have this tag. "": of all agents."""


class OccurrenceQuery(Body):
    outcome = Choice(OccurrenceOutcome, load_default=None)
    """Only those of which this became."""
    since = UtcDatetime(load_default=None)
    """Only those of this time or later. Without an offset it is UTC."""


class MomentResponse(TypedDict):
    """A moment that lies ahead."""

    at: datetime
    """The moment in UTC."""
    local: str
    """The same moment in the zone of the schedule, with its offset: `2026-11-24T09:00:00+01:00`."""


class CheckResponse(TypedDict):
    """A call of a tool that decides whether a schedule notifies."""

    tool: str
    """The name by which the agent calls the tool, which must be `idempotent`."""
    arguments: Mapping[str, Any]
    """The arguments of the call, at most 10,000 bytes of JSON."""
    wake_if: WakeIf
    """The answer that notifies."""


class ScheduleResponse(TypedDict):
    """A schedule: each time it occurs, it puts a notification into the queue of its agent."""

    id: UUID
    """Chosen by the service; it is the `source_id` of the notifications."""
    agent: UUID
    """The agent that it notifies."""
    name: str
    """Its name, unique for the agent."""
    title: str
    """The title of the notifications."""
    body: str
    """Their body, at most 10,000 characters. What was late, missed or merged stands in a line above it."""
    priority: Priority
    """Whether the notifications wake the agent. A low one is a note for its next wake."""
    cron: str | None
    """A cron expression: minute, hour, day of month, month, day of week. null: `every_seconds` counts."""
    every_seconds: int | None
    """Real seconds from `starts_at`, or from the creation; null: `cron` counts."""
    timezone: str | None
    """The IANA time zone of `cron`; null: that of the agent, also when that changes."""
    starts_at: datetime | None
    """It does not occur before; null: from the creation on. Without an offset it is in the agent's zone."""
    ends_at: datetime | None
    """It does not occur after; null: it has no end. Without an offset it is in the agent's zone."""
    max_occurrences: int | None
    """How often it notifies in all, without those on request; null: without end."""
    late_seconds: int | None
    """An occurrence that is later than this and a minute is dropped, with a record. null: it notifies however
    late."""
    if_uncleared: IfUncleared
    """What happens when its last notification still waits."""
    only_if: OnlyIf
    """The condition on which it notifies."""
    jitter_seconds: int
    """It occurs up to this much later than planned, always by the same time, so that many do not coincide."""
    check: CheckResponse | None
    """A tool that is called each time, without a model; only its answer decides whether it notifies, until
    `ends_at`, at most 30 days ahead. null: there is no check."""
    paused: bool
    """Whether its occurrences pass without a notification."""
    paused_reason: PausedReason
    """Why they do; "" if it is not paused."""
    says: str
    """When it occurs, in words."""
    effective_timezone: str
    """The time zone that counts: its own, or that of its agent."""
    next_at: datetime | None
    """When it is planned next; null while it is paused."""
    last_at: datetime | None
    """Its last occurrence; null before the first."""
    last_outcome: OccurrenceOutcome | None
    """What became of that; null before the first."""
    last_notification: UUID | None
    """The last notification that it made; null before the first."""
    missed_count: int
    """How many occurrences were missed, and told of by a later one; of one outage, at most 100 count."""
    created_at: datetime
    """When it was created."""
    created_by: ActorResponse
    """Who created it."""


class WholeScheduleResponse(ScheduleResponse):
    """A schedule with its next moments."""

    upcoming: Sequence[MomentResponse]
    """The next five moments as planned; none while it is paused."""


class SchedulePreviewResponse(TypedDict):
    """When a schedule would occur."""

    says: str
    """When it would occur, in words."""
    hint: str
    """A warning, if the expression may mean something else than is expected; else ""."""
    upcoming: Sequence[MomentResponse]
    """The next moments."""


class OccurrenceResponse(TypedDict):
    """A moment of a schedule, and what became of it."""

    schedule: UUID
    """The schedule."""
    occurs_at: datetime
    """The moment that was planned, or that of the request."""
    outcome: OccurrenceOutcome
    """What became of it."""
    decided_at: datetime
    """When that was decided."""
    missed_count: int
    """How many earlier moments it stands for."""
    notification: UUID | None
    """The notification that it made or updated; null without one."""
    run: UUID | None
    """The run in which the notification was cleared; null while it waits, and if no run did it."""


_SHOWN: dict[str, Any] = {
    "check": "watch",
    "paused": lambda schedule: schedule.shown_reason is not PausedReason.NONE,
    "paused_reason": "shown_reason",
    "says": says,
    "next_at": lambda one: one.next_at if one.shown_reason is PausedReason.NONE else None,
    "last_outcome": lambda schedule: schedule.last_outcome or None,
    "created_by": lambda schedule: actor_of(schedule.created_by),
}
serialize_schedule = Serializer(ScheduleResponse, Schedule, **_SHOWN)
serialize_occurrence = Serializer(OccurrenceResponse, Occurrence)

routes = Routes()


async def _whole(request: web.Request, schedule: Schedule) -> WholeScheduleResponse:
    """Return the schedule with its next moments. The answer to a write has the hint in its head."""
    if request.method != "GET" and (hint := hint_of(schedule)):
        request[HEADERS][HINT_HEADER] = hint
    moments = await asyncio.to_thread(_moments, schedule, request.app[CLOCK].now())
    return {**serialize_schedule(schedule), "upcoming": moments}


def _moments(schedule: Schedule, now: datetime, count: int = SHOWN_MOMENTS) -> list[MomentResponse]:
    zone = schedule.effective_timezone
    return [{"at": moment, "local": format_local(moment, zone)} for moment in upcoming(schedule, now, count)]


def _localize(values: dict[str, Any], timezone: str) -> None:
    """Read times without an offset in this zone, which may be unknown if there are none."""
    if any(values.get(name) for name in LOCAL_FIELDS):
        localize(values, LOCAL_FIELDS, ZoneInfo(timezone))


async def _planned(schedule: Schedule, values: Mapping[str, Any], now: datetime) -> Schedule:
    """Return the schedule with these settings. Raise Invalid if it never occurs."""
    try:
        return await asyncio.to_thread(changed, schedule, values, now)
    except BadSchedule as error:
        raise Invalid({error.field: [str(error)]}) from error


async def _require_check(request: web.Request, agent: Agent | None, values: Mapping[str, Any]) -> None:
    """Raise Invalid unless the agent has the tool of a check, if there is one, and may call it repeatedly."""
    if (watch := values.get("watch")) is None or agent is None:
        return
    if len(to_json(watch["arguments"])) > MAX_BODY:
        raise Invalid({"check": {"arguments": [f"Ensure this value has at most {MAX_BODY} bytes."]}})
    try:
        await request.app[TOOLSET].find_idempotent(agent, watch["tool"])
    except ToolError as error:
        raise Invalid({"check": {"tool": [error.message]}}) from error


def _blank(request: web.Request, caller: Caller, agent: Agent) -> Schedule:
    now = request.app[CLOCK].now()
    return Schedule(new_id(), agent.organization_id, agent.id, "", "", now, caller.identity, agent.timezone)


async def _save(
    request: web.Request, caller: Caller, schedule: Schedule, key: UUID | str, values: dict[str, Any]
) -> WholeScheduleResponse:
    """Change the schedule with this id; or the one with this name, which otherwise is created."""
    now, schedules = request.app[CLOCK].now(), request.app[STORAGE].schedules
    _localize(values, schedule.agent_timezone)
    await _require_check(request, await request.app[STORAGE].agents.get(schedule.agent_id), values)

    async def change(before: Schedule | None) -> Schedule:
        if before is None and key == schedule.id:
            raise NotFound
        return await _planned(before or schedule, values, now)

    with refusing_constraint_errors({"agent_id": schedule.agent_id}):
        stored = await schedules.save(schedule.agent_id, key, change, now, actor=caller.identity)
    return await _whole(request, stored)


@routes.create("/api/defaults/schedules/", body=NewScheduleBody)
async def create_schedule(request: web.Request, caller: Caller) -> WholeScheduleResponse:
    """Create a schedule for an agent.

    An expression that never comes is refused. `X-Hint` warns of one that may mean something else than is
    expected. An agent has at most 100 schedules.
    """
    values, storage = await read_body_once(request, caller), request.app[STORAGE]
    agent = await load_named(caller, storage.agents.get, "agent", values.pop("agent_id"))
    values["name"] = values["name"] or values["title"][:MAX_NAME].strip()
    _localize(values, agent.timezone)
    await _require_check(request, agent, values)
    blank = _blank(request, caller, agent)
    schedule = await _planned(blank, values, blank.created_at)
    answer = await _whole(request, schedule)
    with refusing_constraint_errors({"agent_id": agent.id}):
        await storage.schedules.insert(schedule, receipt_of(request, answer), actor=caller.identity)
    return answer


@routes.put("/api/cloud/agents/{id}/schedules/{name}/", body=PutScheduleBody)
async def put_schedule(request: web.Request, caller: Caller) -> WholeScheduleResponse:
    """Create the schedule of this name, or replace its settings. The same settings again change nothing."""
    agent = await load_agent(request, caller)
    named = NAMED.checked({"name": request.match_info["name"]}, partial=True)
    values = {**await read_body(request), **named}
    return await _save(request, caller, _blank(request, caller, agent), named["name"], values)


@routes.get("/api/defaults/schedules/", answer=list[ScheduleResponse], query=ScheduleQuery)
async def list_schedules(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the schedules of your organizations, newest first."""
    query, schedules = read_query(request), request.app[STORAGE].schedules
    await require_agent(request, caller, query["agent"])
    filters = {name: query[name] for name in ("agent", "paused", "tag")}
    fetch = partial(schedules.list_page, caller.organizations, **filters)
    return await answer_owned(request, query, caller.organizations, schedules.get, fetch, serialize_schedule)


@routes.post("/api/defaults/schedules/preview/", body=SchedulePreviewBody)
async def preview_schedule(request: web.Request, caller: Caller) -> SchedulePreviewResponse:
    """Show when a schedule would occur, without creating one."""
    values, now = await read_body(request), request.app[CLOCK].now()
    count = values.pop("n")
    blank = Schedule(new_id(), new_id(), new_id(), "", "", now, "", values["timezone"])
    schedule = await _planned(blank, values, now)
    moments = await asyncio.to_thread(_moments, schedule, now, count)
    return {"says": says(schedule), "hint": hint_of(schedule), "upcoming": moments}


@routes.get("/api/defaults/schedules/{id}/")
async def get_schedule(request: web.Request, caller: Caller) -> WholeScheduleResponse:
    """Read one schedule with its next moments."""
    return await _whole(request, await _load(request, caller))


async def _load(request: web.Request, caller: Caller) -> Schedule:
    return await load_owned(request, caller, request.app[STORAGE].schedules.get)


@routes.patch("/api/defaults/schedules/{id}/", body=ScheduleChangesBody)
async def change_schedule(request: web.Request, caller: Caller) -> WholeScheduleResponse:
    """Change the fields that the body contains. An occurrence that is due at this moment is not lost."""
    schedule = await _load(request, caller)
    return await _save(request, caller, schedule, schedule.id, await read_body(request))


@routes.delete("/api/defaults/schedules/{id}/")
async def delete_schedule(request: web.Request, caller: Caller) -> None:
    """Delete a schedule and its record. The notifications that it made stay."""
    schedule, now = await _load(request, caller), request.app[CLOCK].now()
    if not await request.app[STORAGE].schedules.delete(schedule.id, now, actor=caller.identity):
        raise NotFound


@routes.post("/api/defaults/schedules/{id}/run/", refusals={409})
async def run_schedule(request: web.Request, caller: Caller) -> OccurrenceResponse:
    """Notify the agent at once, also while the schedule is paused. Its next moment stays as it is.

    The answer is 409 if the schedule is being changed at the same time.
    """
    schedule, now = await _load(request, caller), request.app[CLOCK].now()
    steps = [run_now(schedule, now)]
    for occurrence in await request.app[STORAGE].schedules.fire(steps, now, actor=caller.identity):
        return serialize_occurrence(occurrence)
    raise Conflict("The schedule is being changed. Try again.")


@routes.get(
    "/api/defaults/schedules/{id}/occurrences/", answer=list[OccurrenceResponse], query=OccurrenceQuery
)
async def list_occurrences(request: web.Request, caller: Caller) -> web.Response:
    """List what became of the last 100 occurrences, the latest first."""
    schedule, query = await _load(request, caller), read_query(request)
    schedules = request.app[STORAGE].schedules
    found = await schedules.list_occurrences(schedule.id, query["outcome"], query["since"])
    return json_response([serialize_occurrence(each) for each in found])
