"""Schedule tools: an agent has itself notified again and again, at set times."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from storage.ids import new_id
from storage.notifications.schedules import OnlyIf, Schedule
from supervisors.client_values import TIMEZONES, timezone_hint
from supervisors.policy.schedules import BadSchedule, changed, hint_of, local_time, says, too_close, upcoming
from supervisors.text import excerpt
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import ToolInvocation, agent_tool

MAX_OWN = 20  # that an agent makes itself
MIN_MINUTES = 5
MAX_MINUTES = 527_040  # a year
MAX_NAME = 100
MAX_CHARACTERS = {"name": MAX_NAME, "title": 1000, "body": 10_000}
SHOWN_MOMENTS = 3
BY_RUN = "run:"


@agent_tool(
    "Has you notified again and again, until you delete the schedule. It wakes you each time. Give either "
    "cron or every_minutes; for a single moment, create a notification with scheduled_for instead. A "
    "schedule of yours that has this name is replaced, so repeating the call does no harm.",
    ("name", "title"),
    name={"type": "string", "maxLength": MAX_NAME, "description": "Identifies the schedule."},
    title={"type": "string", "description": "What you are told each time."},
    body={"type": "string", "maxLength": MAX_CHARACTERS["body"], "default": ""},
    cron={
        "type": "string",
        "description": "minute hour day-of-month month day-of-week, such as 0 9 * * 1-5.",
    },
    every_minutes={"type": "integer", "minimum": MIN_MINUTES},
    timezone={"type": "string", "description": "An IANA name; left out: your own time zone."},
    late_minutes={
        "type": "integer",
        "minimum": 0,
        "description": "Drop it if it comes later than this; left out: never.",
    },
    only_if={
        "type": "string",
        "enum": list(OnlyIf),
        "default": OnlyIf.ALWAYS,
        "description": "waiting: only if something else waits in your queue.",
    },
)
async def set_schedule(call: ToolInvocation) -> dict[str, Any]:
    """Create the agent's schedule of this name, or replace its settings."""
    values = _settings(call)
    name, agent = values["name"], call.agent
    blank = Schedule(new_id(), agent.organization_id, agent.id, "", "", call.now, call.actor, agent.timezone)

    def allow(present: Sequence[Schedule]) -> None:
        own = {each.name: _is_own(each, call) for each in present}
        if not own.get(name, True):
            raise ToolError("not_allowed", f'The schedule "{name}" is not yours. Choose another name.')
        if name not in own and sum(own.values()) >= MAX_OWN:
            raise ToolError("limit_reached", f"You have {MAX_OWN} schedules. Delete one first.")

    async def change(before: Schedule | None) -> Schedule:
        return await asyncio.to_thread(_checked, before or blank, values, call)

    save = call.stores.schedules.save
    stored = await save(agent.id, name, change, call.now, allow=allow, actor=call.actor)
    hint, moments = hint_of(stored), await asyncio.to_thread(upcoming, stored, call.now, SHOWN_MOMENTS)
    return {
        "says": says(stored),
        "next": [local_time(stored, moment) for moment in moments],
        "schedules": await _list(call),
    } | ({"hint": hint} if hint else {})


@agent_tool("Lists your schedules, with what they say and when they come next.")
async def list_schedules(call: ToolInvocation) -> list[dict[str, Any]]:
    """List all schedules of the agent by name, those that people made among them."""
    return await _list(call)


@agent_tool("Deletes a schedule that you have made.", ("name",), name={"type": "string"})
async def delete_schedule(call: ToolInvocation) -> dict[str, Any]:
    """Delete the agent's own schedule of this name."""
    name = call.arguments.line("name")
    for each in await call.stores.schedules.list_of_agent(call.agent.id):
        if each.name == name and _is_own(each, call):
            await call.stores.schedules.delete(each.id, call.now, actor=call.actor)
            return {"deleted": name, "schedules": await _list(call)}
    raise ToolError("not_found", f'You have no schedule "{name}" that you have made.')


def _is_own(schedule: Schedule, call: ToolInvocation) -> bool:
    """Return whether an agent has made it; a client that calls on behalf of the agent may change all."""
    return call.run_id is None or schedule.created_by.startswith(BY_RUN)


def _settings(call: ToolInvocation) -> dict[str, Any]:
    given = call.arguments
    minutes = given.integer("every_minutes", 0, minimum=MIN_MINUTES)
    late = given.integer("late_minutes", -1, minimum=0)
    zone = given.optional_line("timezone", MAX_NAME) or None
    values: dict[str, Any] = {
        "name": given.line("name"),
        "title": given.line("title"),
        "body": given.text("body", ""),
        "cron": given.optional_line("cron", 255) or None,
        "every_seconds": minutes * 60 or None,
        "timezone": zone,
        "late_seconds": None if late < 0 else late * 60,
        "only_if": given.choice("only_if", OnlyIf) or OnlyIf.ALWAYS,
    }
    for name, most in MAX_CHARACTERS.items():
        if len(values[name]) > most:
            raise ToolError("invalid", f"{name} takes at most {most} characters.", parameter=name)
    if max(minutes, late) > MAX_MINUTES:
        raise ToolError("invalid", f"every_minutes and late_minutes take at most {MAX_MINUTES}.")
    if zone is not None and zone not in TIMEZONES:
        hint = timezone_hint(zone)
        raise ToolError("invalid", f"timezone takes an IANA name.{hint}", parameter="timezone")
    return values


def _checked(before: Schedule, values: Mapping[str, Any], call: ToolInvocation) -> Schedule:
    """Return the schedule with these settings. Raise ToolError if it comes never, or too often."""
    try:
        after = changed(before, values, call.now)
    except BadSchedule as error:
        raise ToolError("invalid", str(error), parameter=error.field) from error
    pair = too_close(after, call.now)
    if pair is not None:
        first, second = (local_time(after, moment) for moment in pair)
        message = f"It comes at {first} and at {second}: leave at least {MIN_MINUTES} minutes between."
        raise ToolError("invalid", message, parameter="cron")
    return after


async def _list(call: ToolInvocation) -> list[dict[str, Any]]:
    """Return the schedules of the agent in short."""
    return [
        {
            "name": each.name,
            "title": excerpt(each.title, MAX_NAME),
            "says": says(each),
            "next": local_time(each, each.next_at) if each.next_at and not each.shown_reason else None,
            "paused": each.shown_reason or None,
        }
        for each in await call.stores.schedules.list_of_agent(call.agent.id)
    ]
