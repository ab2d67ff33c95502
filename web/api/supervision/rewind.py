"""Rewinds: a recorded period of an agent under other settings. They read and compute; nothing starts."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from functools import partial
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.model import Agent, Priority, Source
from storage.notifications.schedules import Schedule
from supervisors.policy.schedules import BadSchedule, changed, moments_after
from supervisors.rewind.least_change import in_words
from supervisors.rewind.replay import Period, Rules
from supervisors.rewind.rewinds import MAX_RECORDED, Rewind, rewind
from web.access.auth import Caller
from web.access.path_access import turn_to_read
from web.access.references import load_named, resolve
from web.api.supervision.preview import SettingsPatchBody, refused_inside, refused_replay, with_settings
from web.api.supervision.timeline import require_period
from web.app_keys import CLOCK, REWINDS, STATUS, STORAGE
from web.errors import Invalid, PermissionDenied, require_found
from web.fields import Boolean, Choice, Datetime, Line, ListOf, ObjectOf, Uuid, unknown_id
from web.request.parsing import Body, localize, read_body
from web.routes import Routes

MAX_SCHEDULES = 20
NOT_AHEAD = "The period must be over: choose a moment that has passed."
TOO_OFTEN = f"These schedules would notify more than {MAX_RECORDED:,} times: choose a shorter period."


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
    patch, zone, now = body["patch"], ZoneInfo(agent.timezone), request.app[CLOCK].now()
    moments = {"from": body["start"], "to": body["end"]}
    localize(moments, ("from", "to"), zone)
    require_period(moments)
    start, end = moments.values()
    if end > now:
        raise Invalid({"to": [NOT_AHEAD]})
    with refused_inside("patch"):
        references = await resolve(storage, lambda _: agent.organization_id, patch)
        schedules = await _moments_of(
            request, caller, agent, patch["schedules"], (max(start, agent.created_at), end)
        )
    async with turn_to_read(request):
        present = require_found(await request.app[STATUS].present(agent.id))
        facts = await with_settings(request, agent, references.template, patch, present)
    before = Rules(present.facts, present.policy)
    priorities = {rule["source"]: rule["priority"] for rule in patch["priorities"]}
    after = Rules(facts, present.policy, priorities, schedules)
    said = f"With {in_words(patch)} {_whose(start.astimezone(zone), end.astimezone(zone), now)}"
    with refused_replay("from", "to"):
        replayed = await rewinds.compute(present, start, end, partial(rewind, before, after, said))
    return require_found(replayed)


def _whose(start: datetime, end: datetime, now: datetime) -> str:
    """Return the word before the recorded wakes, of a period in the agent's time zone."""
    today = now.astimezone(start.tzinfo).date()
    is_yesterday = (start.date(), end.date()) == (today - timedelta(days=1), today)
    return "yesterday's" if is_yesterday and start.time() == end.time() == time() else "the"


async def _moments_of(
    request: web.Request, caller: Caller, agent: Agent, changes: Sequence[Mapping[str, Any]], period: Period
) -> list[tuple[Schedule, list[datetime]]]:
    """Return the changed schedules with their moments in the period. Raise Invalid or PermissionDenied."""
    found, left = [], MAX_RECORDED
    for change in changes:
        get, id_ = request.app[STORAGE].schedules.get, change["schedule_id"]
        schedule = await load_named(caller, get, "schedules", id_)
        if schedule.organization_id != agent.organization_id:
            raise PermissionDenied
        if schedule.agent_id != agent.id:
            raise Invalid({"schedules": [unknown_id(id_)]})
        try:
            moments = await asyncio.to_thread(_moments, schedule, change, period, left + 1)
        except BadSchedule as error:
            raise Invalid({"schedules": [str(error)]}) from error
        found.append((schedule, moments))
        left -= len(moments)
        if left < 0:
            raise Invalid({"schedules": [TOO_OFTEN]})
    return found


def _moments(schedule: Schedule, change: Mapping[str, Any], period: Period, limit: int) -> list[datetime]:
    if change["paused"]:
        return []
    start, end = period
    values = {} if change["cron"] is None else {"cron": change["cron"]}
    moments = moments_after(changed(schedule, values, start), start)
    return list(islice(takewhile(lambda moment: moment < end, moments), limit))
