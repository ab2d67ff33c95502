"""Rewinds: a recorded period of an agent under other settings. They read and compute; nothing starts."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.model import Agent, Priority, Source
from storage.notifications.schedules import Schedule
from supervisors.engine.snapshot import Present
from supervisors.fair_slots import QueueFull
from supervisors.policy.schedules import BadSchedule, changed, moments_after
from supervisors.rewind.recording import Recording, with_schedules
from supervisors.rewind.replay import Period, Rules
from supervisors.rewind.rewinds import (
    MAX_RECORDED,
    MAX_REPLAY_SECONDS,
    NotKept,
    Rewind,
    TookTooLong,
)
from supervisors.text import format_timestamp
from supervisors.timeline.timelines import MAX_PAUSES, TooManyChanges
from web.access.auth import Caller
from web.access.path_access import turn_to_read
from web.access.references import load_named, resolve
from web.api.supervision.preview import (
    PENDING,
    RETRY_SECONDS,
    SettingsPatchBody,
    refused_inside,
    with_settings,
)
from web.api.supervision.timeline import LONGER_BY_CLOCK, MAX_DAYS, TOO_LONG
from web.app_keys import CLOCK, REWINDS, STATUS, STORAGE
from web.errors import Invalid, PermissionDenied, Unavailable, require_found
from web.fields import Boolean, Choice, Datetime, Line, ListOf, ObjectOf, Uuid, unknown_id
from web.request.parsing import Body, localize, read_body
from web.routes import Routes

MAX_SCHEDULES = 20
FROM_NOT_BEFORE_TO = "from must be before to."
NOT_AHEAD = "The period must be over: choose a moment that has passed."
NOT_KEPT = "Events are kept from {} on: choose that or a later moment."
TOO_MANY = (
    f"Choose a to up to {{}}, or a later from: this period has more than {MAX_RECORDED:,} events or runs, or "
    f"{MAX_PAUSES:,} pauses."
)
TAKES_TOO_LONG = f"This period takes longer than {MAX_REPLAY_SECONDS:.0f} s to replay: choose a shorter one."


class PriorityRuleBody(Body):
    """Another priority for all that comes from a source."""

    source = Choice(Source, required=True)
    """The source."""
    priority = Choice(Priority, load_default=Priority.LOW)
    """The priority that its notifications would have had when they came; left out: `low`."""


class ScheduleChangeBody(Body):
    """A schedule of the agent that would have been paused, or have had another expression."""

    schedule_id = Uuid(data_key="id", required=True)
    """The id of the schedule."""
    paused = Boolean(load_default=False)
    """Whether it would have been paused."""
    cron = Line(max_length=100, load_default=None, allow_none=True)
    """Another cron expression, by which it would have notified each time; null: its own times."""


class RewindPatchBody(SettingsPatchBody):
    """The settings that the agent would have had."""

    priorities = ListOf(ObjectOf(PriorityRuleBody), load_default=list)
    """Other priorities, by source."""
    schedules = ListOf(ObjectOf(ScheduleChangeBody), max_items=MAX_SCHEDULES, load_default=list)
    """Other times of its schedules."""


class RewindBody(Body):
    """A period of an agent, and the settings that it would have had in it."""

    agent_id = Uuid(data_key="agent", required=True)
    """The agent."""
    start = Datetime(data_key="from", required=True)
    """The start of the period, in the agent's time zone if it has no offset."""
    end = Datetime(data_key="to", required=True)
    """The end of the period, at most 31 days later; it has passed."""
    patch = ObjectOf(RewindPatchBody, required=True)
    """The settings; without any it shows how much of the period follows from those of today."""


routes = Routes()


@routes.post("/api/cloud/rewind/", body=RewindBody)
async def rewind_agent(request: web.Request, caller: Caller) -> Rewind:
    """Replay a recorded period of an agent under other settings, by the same rules that start it.

    Arrivals, requests and the lengths of runs are those of the event log. No model is asked, nothing is
    stored and nothing starts. A period that the log no longer keeps, or that is too long, is refused.
    """
    body = await read_body(request)
    storage, rewinds = request.app[STORAGE], request.app[REWINDS]
    agent = await load_named(caller, storage.agents.get, "agent", body["agent_id"])
    moments = {"from": body["start"], "to": body["end"]}
    localize(moments, ("from", "to"), ZoneInfo(agent.timezone))
    start, end, patch = moments["from"], moments["to"], body["patch"]
    _check_period(start, end, request.app[CLOCK].now())
    with refused_inside("patch"):
        references = await resolve(storage, lambda _: agent.organization_id, patch)
        replaced = await _replaced(request, caller, agent, patch["schedules"], (start, end))
    async with turn_to_read(request):
        present = require_found(await request.app[STATUS].present(agent.id))
        facts = await with_settings(request, agent, references.template, patch, present)
        recording = await _read(request, present, start, end)
    priorities = {rule["source"]: rule["priority"] for rule in patch["priorities"]}
    before, after = Rules(present.facts, present.policy), Rules(facts, present.policy, priorities)
    try:
        return await rewinds.rewind(recording, with_schedules(recording, replaced), before, after)
    except TookTooLong:
        raise Invalid({"to": [TAKES_TOO_LONG]}) from None
    except QueueFull:
        raise Unavailable(PENDING, RETRY_SECONDS) from None


def _check_period(start: datetime, end: datetime, now: datetime) -> None:
    if start >= end:
        raise Invalid({"from": [FROM_NOT_BEFORE_TO]})
    if end > now:
        raise Invalid({"to": [NOT_AHEAD]})
    if end - start > timedelta(days=MAX_DAYS) + LONGER_BY_CLOCK:
        raise Invalid({"from": [TOO_LONG]})


async def _read(request: web.Request, present: Present, start: datetime, end: datetime) -> Recording:
    try:
        return require_found(await request.app[REWINDS].read(present, start, end))
    except NotKept as error:
        raise Invalid({"from": [NOT_KEPT.format(format_timestamp(error.oldest_at))]}) from None
    except TooManyChanges as error:
        raise Invalid({"to": [TOO_MANY.format(format_timestamp(error.fits_until))]}) from None


async def _replaced(
    request: web.Request, caller: Caller, agent: Agent, changes: Sequence[Mapping[str, Any]], period: Period
) -> dict[Schedule, list[datetime]]:
    """Return the changed schedules with their moments in the period. Raise Invalid or PermissionDenied."""
    replaced = {}
    for change in changes:
        get, id_ = request.app[STORAGE].schedules.get, change["schedule_id"]
        schedule = await load_named(caller, get, "schedules", id_)
        if schedule.organization_id != agent.organization_id:
            raise PermissionDenied
        if schedule.agent_id != agent.id:
            raise Invalid({"schedules": [unknown_id(id_)]})
        try:
            replaced[schedule] = await asyncio.to_thread(_moments, schedule, change, period)
        except BadSchedule as error:
            raise Invalid({"schedules": [str(error)]}) from error
    return replaced


def _moments(schedule: Schedule, change: Mapping[str, Any], period: Period) -> list[datetime]:
    if change["paused"]:
        return []
    start, end = period
    values = {} if change["cron"] is None else {"cron": change["cron"]}
    moments = moments_after(changed(schedule, values, start), start)
    return list(islice(takewhile(lambda moment: moment < end, moments), MAX_RECORDED))
