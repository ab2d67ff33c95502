"""The sleep tool: with it an agent ends its run."""

from datetime import timedelta
from typing import Any

from supervisors.engine.messages import SleepRefused, SleepRequest
from supervisors.errors import RunIsOver
from supervisors.timestamps import format_timestamp
from supervisors.tools.errors import ToolError
from supervisors.tools.toolkit import ToolDefinition, ToolInvocation, schema

MAX_HOURS = 87_600

SLEEP = ToolDefinition(
    name="sleep",
    description=(
        "Ends this run. You sleep until the given time, at most until your sleep cap, or until something "
        "wakes you. Refused while high-priority notifications are uncleared."
    ),
    parameters=schema(
        until={"type": "string", "format": "date-time", "description": "ISO 8601. Not together with hours."},
        hours={"type": "number", "exclusiveMinimum": 0, "maximum": MAX_HOURS},
    ),
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
    if isinstance(reply, SleepRefused):
        raise ToolError(
            "uncleared_high_priority",
            "You cannot sleep while high-priority notifications are uncleared. "
            "Handle them, clear them with clear_notification, then sleep.",
            notifications=[str(blocker) for blocker in reply.blockers],
        )
    return {"sleep_until": format_timestamp(reply.sleep_until), "clamped": reply.clamped}
