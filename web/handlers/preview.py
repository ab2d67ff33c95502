"""Previews: what would happen to an agent. They read and compute; nothing is stored and nothing starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.agent_facts import ActivationPeriod
from storage.model import Agent, Template
from supervisors.engine.snapshot import Present
from supervisors.preview.changes import Change
from supervisors.preview.course import one_by_one
from supervisors.preview.paths import Event
from supervisors.preview.preview import Preview, preview
from web.access.agent_references import resolve
from web.access.auth import Caller
from web.access.path_access import load_agent, load_in_turn
from web.app_keys import STATUS, STORAGE
from web.errors import Invalid
from web.json import json_response
from web.request.local_times import localize
from web.request.parsing import read_body
from web.routes import CallerRoute
from web.schemas.preview import PreviewBody

BODY = PreviewBody()

MAX_DAYS = 31
MAX_REMINDERS = 100  # that are taken one by one
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
HAS_PASSED = "This moment has passed: leave at out to ask about the present."
TOO_FAR = f"This moment may be at most {MAX_DAYS} days ahead."
CHANGED_AS_THEY_ARE = ("max_sleep_hours", "timezone", "paused", "status", "sleep_until")


async def preview_agent(request: web.Request, caller: Caller) -> web.Response:
    """Say in words what would happen to an agent if notifications came, if it were changed, or by itself up
    to a moment ahead.

    The rules of the service compute it on a copy; nothing is stored and nothing starts. It ends with the next
    run, because no rule decides what a run does.
    """
    agent = await load_agent(request, caller)
    body = await read_body(request, BODY)
    event, patch = body["event"] or {}, body["patch"] or {}
    zone = ZoneInfo(agent.timezone)
    localize(body, ("at",), zone)
    with _refused_inside("event"):
        localize(event, ("scheduled_for",), zone)
    with _refused_inside("patch"):
        localize(patch, ("sleep_until",), zone)
        references = await resolve(request.app[STORAGE], lambda _: agent.organization_id, patch)
    present = await _read_present(request)
    _require_near(body["at"], present.now)
    change = await _change(request, agent, references.template, patch, present) if patch else None
    answer = preview(present, event=Event(**event) if event else None, change=change, at=body["at"])
    return json_response(answer)


@contextmanager
def _refused_inside(name: str) -> Iterator[None]:
    """Put the messages of a refusal under the name of the object that they are about."""
    try:
        yield
    except Invalid as error:
        raise Invalid({name: error.body}) from error


async def _read_present(request: web.Request) -> Present:
    """Read what the rules need, with each reminder ahead by itself."""
    present = await load_in_turn(request, request.app[STATUS].present)
    ahead = [group for group in present.facts.pending if group.period is ActivationPeriod.AHEAD]
    if sum(group.count for group in ahead) == len(ahead):
        return present
    found = await request.app[STORAGE].mark_events.list_reminders(
        present.facts.state.agent_id, present.now, LAST_MOMENT, MAX_REMINDERS
    )
    moments = [reminder.scheduled_for for reminder in found if reminder.scheduled_for is not None]
    return replace(present, facts=one_by_one(present.facts, moments))


def _require_near(at: datetime | None, now: datetime) -> None:
    """Raise Invalid for a moment that has passed or is too far ahead."""
    if at is not None and at < now:
        raise Invalid({"at": [HAS_PASSED]})
    if at is not None and at > now + timedelta(days=MAX_DAYS):
        raise Invalid({"at": [TOO_FAR]})


async def _change(
    request: web.Request, agent: Agent, template: Template | None, patch: dict[str, Any], present: Present
) -> Change:
    """Return what the patch changes. `template` is the one that it names."""
    fields = {name: patch[name] for name in CHANGED_AS_THEY_ARE if name in patch}
    if "debounce_window_seconds" in patch:
        fields["agent_window_seconds"] = patch["debounce_window_seconds"]
    if "template_id" in patch:
        fields["template_window_seconds"] = template.debounce_window_seconds if template else None
    if not {"max_cost_usd_per_day", "template_id"} & patch.keys():
        return Change(**fields)
    storage = request.app[STORAGE]
    if "template_id" not in patch and agent.template_id is not None:
        template = await storage.templates.get(agent.template_id)
    own_cap_usd = patch.get("max_cost_usd_per_day", agent.max_cost_usd_per_day)
    inherited_cap_usd = template.max_cost_usd_per_day if template else None
    spent_usd = await storage.spending.get_spent(agent.id, present.now)
    cap_usd = inherited_cap_usd if own_cap_usd is None else own_cap_usd
    return Change(**fields, cap_usd=cap_usd, spent_usd=spent_usd)


ROUTES = (
    CallerRoute(
        "POST",
        "/api/cloud/agents/{id}/preview/",
        preview_agent,
        "What would happen to an agent",
        answer=Preview,
        body=BODY,
    ),
)
