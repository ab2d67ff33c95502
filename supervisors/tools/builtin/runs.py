"""Run tools: an agent ends its run by going to sleep, looks up its earlier runs, and reads its clock."""

from datetime import timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from storage.history.runs import RunFilters
from storage.model import Run
from supervisors.engine.messages import SleepRefused, SleepRequest
from supervisors.errors import RunIsOver
from supervisors.text import cut, format_local, format_timestamp
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.listing import AFTER, LIMIT, read_page
from supervisors.tools.tool import PartialResult, ToolInvocation, agent_tool

MAX_HOURS = 87_600
MAX_NAMED_CALLS = 10  # failed ones, because of which sleep is refused


MAX_LISTED_CHARACTERS = 1000  # of an error, and of an output


@agent_tool(
    "Ends this run. You sleep until the given time, at most until your sleep cap, or until something "
    "wakes you. Refused while high-priority notifications are uncleared, and if another call of the same "
    "turn failed.",
    until={"type": "string", "format": "date-time", "description": "ISO 8601. Not together with hours."},
    hours={"type": "number", "exclusiveMinimum": 0, "maximum": MAX_HOURS},
)
async def sleep(call: ToolInvocation) -> dict[str, Any]:
    """Ask the supervisor for sleep. Raise ToolError if it is refused."""
    until = call.arguments.moment("until", call.agent.timezone)
    hours = call.arguments.number("hours", MAX_HOURS)
    if until is not None and hours is not None:
        raise ToolError("invalid", "Give until or hours, not both.", parameter="hours")
    if until is not None and until <= call.now:
        raise ToolError("invalid", "until must be a time in the future.", parameter="until")
    if hours is not None:
        until = call.now + timedelta(hours=hours)
    if call.run_id is None:
        raise ToolError("not_running", "Only a run of the agent can sleep.")
    try:
        reply = await call.ask(call.agent.id, SleepRequest(call.run_id, until))
    except RunIsOver as error:
        raise ToolError("not_running", str(error)) from error
    if isinstance(reply, SleepRefused) and reply.failed_calls:
        failed = reply.failed_calls[:MAX_NAMED_CALLS]
        raise ToolError(
            "other_call_failed",
            f"You do not sleep yet, because other calls of this turn failed: {', '.join(failed)}. Read their "
            "errors, do what is still to be done, then call sleep again.",
            calls=list(failed),
        )
    if isinstance(reply, SleepRefused):
        raise ToolError(
            "uncleared_high_priority",
            "You cannot sleep while high-priority notifications are uncleared. "
            "Handle them, clear them with clear_notification, then sleep.",
            notifications=[str(blocker) for blocker in reply.blockers],
        )
    return {"sleep_until": format_timestamp(reply.sleep_until), "clamped": reply.clamped}


@agent_tool("Lists your runs, newest first, the present one included.", limit=LIMIT, after=AFTER)
async def list_runs(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the agent's own runs, last started first."""
    runs, agent = call.stores.runs, call.agent
    fetch, serialize = (
        partial(runs.list_page, RunFilters(agent_id=agent.id)),
        partial(_serialize, agent.timezone),
    )
    page = await read_page(call, "run", runs.get, fetch, serialize, sorted_by="started_at")
    return page.result()


def _serialize(timezone: str, run: Run) -> dict[str, Any]:
    return {
        "id": str(run.id),
        "started_at": format_local(run.started_at, timezone),
        "ended_at": run.ended_at and format_local(run.ended_at, timezone),
        "wake_reason": run.wake_reason,
        "notifications": run.notification_count,
        "turns": run.turns,
        "outcome": run.outcome,
        "error": cut(run.error, MAX_LISTED_CHARACTERS),
        "output": cut(run.output, MAX_LISTED_CHARACTERS),
    }


@agent_tool("Tells the time where you are.")
async def get_time(call: ToolInvocation) -> dict[str, Any]:
    """Return the time, the day of the week and the time zone of the agent."""
    timezone = call.agent.timezone
    return {
        "time": format_local(call.now, timezone),
        "weekday": f"{call.now.astimezone(ZoneInfo(timezone)):%A}",
        "timezone": timezone,
    }
