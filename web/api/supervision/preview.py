"""Previews: what would happen to an agent. They read and compute; nothing is stored and nothing starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.agent_facts import WAKE_LIMITS, AgentFacts, Budget
from storage.model import Agent, AgentStatus, Priority, Source, Template
from supervisors.engine.effects import after_owned_fields
from supervisors.engine.messages import OwnedFieldsRequest
from supervisors.engine.snapshot import Present
from supervisors.fair_slots import QueueFull
from supervisors.policy.limits import limits_of
from supervisors.preview import Event, Preview, preview
from supervisors.rewind.least_change import LeastChange, least_change
from supervisors.rewind.replay import Rules
from supervisors.rewind.rewinds import MAX_RECORDED, MAX_REPLAY_SECONDS, NotKept, TookTooLong
from supervisors.text import format_timestamp
from supervisors.timeline.timelines import MAX_PAUSES, TooManyChanges
from web.access.auth import Caller
from web.access.path_access import load_agent, load_in_turn
from web.access.references import resolve
from web.app_keys import REWINDS, STATUS, STORAGE
from web.errors import Invalid, Unavailable, require_found
from web.fields import (
    MAX_INT32,
    Boolean,
    Choice,
    Datetime,
    Integer,
    Money,
    ObjectOf,
    QuietHours,
    Uuid,
    unknown_id,
)
from web.request.parsing import Body, localize, read_body
from web.routes import Routes

MAX_COUNT = 100
MAX_SECONDS_APART = 3600


class PreviewEventBody(Body):
    """Notifications that might come. None is created."""

    source = Choice(Source, load_default=Source.API)
    """Where they come from."""
    priority = Choice(Priority, load_default=Priority.HIGH)
    """Their priority; left out: `high`."""
    scheduled_for = Datetime(allow_none=True, load_default=None)
    """When they would become active, in the agent's time zone if it has no offset; null or a time before they
    come: at once."""
    count = Integer(min_value=1, max_value=MAX_COUNT, load_default=1)
    """How many come one after the other."""
    seconds_apart = Integer(min_value=0, max_value=MAX_SECONDS_APART, load_default=0)
    """How many seconds after the one before it each of them comes."""
    urgent = Boolean(load_default=False)
    """Whether they wake the agent in spite of its limits."""


class SettingsPatchBody(Body):
    """Settings of an agent that have an effect on when it wakes."""

    template_id = Uuid(data_key="template", allow_none=True)
    """Another template, whose debounce window, cap and limits count where the agent has none of its own;
    null: none."""
    debounce_window_seconds = Integer(min_value=0, max_value=MAX_INT32, allow_none=True)
    """Another debounce window; null: the template's."""
    max_sleep_hours = Integer(min_value=0, max_value=MAX_INT32, allow_none=True)
    """Another maximum length of a sleep; null: no limit."""
    max_cost_usd_per_day = Money(allow_none=True)
    """Another cap; null: the template's."""
    max_wakes_per_hour = Integer(min_value=1, max_value=MAX_INT32, allow_none=True)
    """Another limit of wakes in 60 minutes; null: the template's."""
    max_wakes_per_day = Integer(min_value=1, max_value=MAX_INT32, allow_none=True)
    """Another limit of wakes in a day; null: the template's."""
    quiet_hours = QuietHours(allow_none=True)
    """Other quiet hours; null: the template's."""


class PreviewPatchBody(SettingsPatchBody):
    """The fields of an agent that might be changed. Only these have an effect on when the agent wakes."""

    paused = Boolean()
    """A pause of the agent, or its end."""
    status = Choice(AgentStatus)
    """A run request (`running`), a stop or restore (`sleeping`), or an archive (`archived`)."""
    sleep_until = Datetime(allow_none=True)
    """Another end of its sleep, in the agent's time zone if it has no offset; null: as late as it may be."""


class WantedBody(Body):
    """What should have happened."""

    woken_by = Uuid(required=True)
    """A notification that should have woken the agent."""


class PreviewBody(Body):
    """A question about the future of an agent. Its parts may be combined."""

    event = ObjectOf(PreviewEventBody, allow_none=True, load_default=None)
    """Notifications that might come, at `at`; null: none."""
    patch = ObjectOf(PreviewPatchBody, allow_none=True, load_default=None)
    """A change that might be made now; null: none."""
    wanted = ObjectOf(WantedBody, allow_none=True, load_default=None)
    """What should have happened by `as_of`: the answer names the least change for it; null: nothing."""
    as_of = Datetime(allow_none=True, load_default=None)
    """With `wanted`, a moment in the past, in the agent's time zone if it has no offset; null: now."""
    at = Datetime(allow_none=True, load_default=None)
    """A moment at most 31 days ahead, in the agent's time zone if it has no offset; null: now."""


routes = Routes()

MAX_DAYS = 31
HAS_PASSED = "This moment has passed: leave at out to ask about the present."
TOO_FAR = f"This moment may be at most {MAX_DAYS} days ahead."
NOT_AFTER_IT = f"Choose a past moment after the notification came, at most {MAX_DAYS} days later."
NOT_KEPT = "Events are kept from {} on: ask about that time or later."
TOO_MANY = (
    f"Choose a moment up to {{}}, or a later start: this period has more than {MAX_RECORDED:,} events or "
    f"runs, or {MAX_PAUSES:,} pauses."
)
TAKES_TOO_LONG = f"This takes longer than {MAX_REPLAY_SECONDS:.0f} s to replay: choose a shorter period."
PENDING, RETRY_SECONDS = "Too many rewinds of your organization wait for their turn.", 5
OWNED_FIELDS = ("paused", "status", "sleep_until")


@routes.post("/api/cloud/agents/{id}/preview/", body=PreviewBody, refusals={409})
async def preview_agent(request: web.Request, caller: Caller) -> Preview:
    """Explain an agent as it is now, and as it would be if notifications came, if it were changed, or by
    itself at a moment ahead.

    The rules of the service compute it on a copy; nothing is stored and nothing starts. It ends with the next
    run, because no rule decides what a run does. A change that PATCH would refuse is refused.
    """
    agent = await load_agent(request, caller)
    body = await read_body(request)
    event, patch = body["event"] or {}, body["patch"] or {}
    zone = ZoneInfo(agent.timezone)
    localize(body, ("at", "as_of"), zone)
    with refused_inside("event"):
        localize(event, ("scheduled_for",), zone)
    with refused_inside("patch"):
        localize(patch, ("sleep_until",), zone)
        references = await resolve(request.app[STORAGE], lambda _: agent.organization_id, patch)
    present = await load_in_turn(request, request.app[STATUS].present)
    if body["at"] is not None and body["at"] < present.now:
        raise Invalid({"at": [HAS_PASSED]})
    if body["at"] is not None and body["at"] > present.now + timedelta(days=MAX_DAYS):
        raise Invalid({"at": [TOO_FAR]})
    changed = await with_settings(request, agent, references.template, patch, present)
    owned = OwnedFieldsRequest(**{name: patch[name] for name in OWNED_FIELDS if name in patch})
    changed = after_owned_fields(changed, owned, present.now, run_is_stopping=present.run_is_stopping)
    shown = preview(present, changed, event=Event(**event) if event else None, at=body["at"])
    return (
        shown
        if body["wanted"] is None
        else replace(shown, least_change=await _least(request, body, present, zone))
    )


async def _least(request: web.Request, body: dict[str, Any], present: Present, zone: ZoneInfo) -> LeastChange:
    """Return the least change by which the wanted notification would have woken the agent."""
    storage, rewinds, facts = request.app[STORAGE], request.app[REWINDS], present.facts
    id_, as_of = body["wanted"]["woken_by"], body["as_of"] or present.now
    notification = await storage.notifications.get(id_)
    if notification is None or notification.agent_id != facts.state.agent_id:
        raise Invalid({"wanted": {"woken_by": [unknown_id(id_)]}})
    came_at = notification.created_at
    if not came_at < as_of <= min(present.now, came_at + timedelta(days=MAX_DAYS)):
        raise Invalid({"as_of": [NOT_AFTER_IT]})
    with refused_replay("wanted", "as_of"):
        search = partial(least_change, Rules(facts, present.policy), id_, zone)
        return require_found(await rewinds.compute(present, came_at, as_of, search))


@contextmanager
def refused_replay(start: str, end: str) -> Iterator[None]:
    """Refuse a period that cannot be replayed, under the names of the fields with its start and its end."""
    try:
        yield
    except NotKept as error:
        raise Invalid({start: [NOT_KEPT.format(format_timestamp(error.oldest_at))]}) from None
    except TooManyChanges as error:
        raise Invalid({end: [TOO_MANY.format(format_timestamp(error.fits_until))]}) from None
    except TookTooLong:
        raise Invalid({end: [TAKES_TOO_LONG]}) from None
    except QueueFull:
        raise Unavailable(PENDING, RETRY_SECONDS) from None


@contextmanager
def refused_inside(name: str) -> Iterator[None]:
    """Put the messages of a refusal under the name of the object that they are about."""
    try:
        yield
    except Invalid as error:
        raise Invalid({name: error.body}) from error


async def with_settings(
    request: web.Request, agent: Agent, template: Template | None, patch: dict[str, Any], present: Present
) -> AgentFacts:
    """Return the facts with the settings of the patch. `template` is the one that it names."""
    facts, storage = present.facts, request.app[STORAGE]
    if "debounce_window_seconds" in patch:
        facts = replace(facts, agent_window_seconds=patch["debounce_window_seconds"])
    if "max_sleep_hours" in patch:
        facts = replace(facts, max_sleep_hours=patch["max_sleep_hours"])
    if "template_id" in patch:
        facts = replace(facts, template_window_seconds=template.debounce_window_seconds if template else None)
    elif patch.keys().isdisjoint(("max_cost_usd_per_day", *WAKE_LIMITS)):
        return facts
    elif agent.template_id is not None:
        template = await storage.templates.get(agent.template_id)
    cap_usd = patch.get("max_cost_usd_per_day", agent.max_cost_usd_per_day)
    if cap_usd is None and template is not None:
        cap_usd = template.max_cost_usd_per_day
    budgets = tuple(budget for budget in facts.budgets if budget.of_organization)
    if cap_usd is not None:
        spent_usd = await storage.spending.get_spent(agent.id, present.now)
        budgets = (Budget(False, cap_usd, spent_usd), *budgets)
    limits = await storage.runs.with_starts(agent.id, limits_of(agent, template, patch), present.now)
    return replace(facts, budgets=budgets, limits=limits)
