"""The time tool: an agent reads the clock of its own time zone."""

from typing import Any
from zoneinfo import ZoneInfo

from supervisors.timestamps import format_local
from supervisors.tools.toolkit import ToolDefinition, ToolInvocation, schema

GET_TIME = ToolDefinition(name="get_time", description="Tells the time where you are.", parameters=schema())


async def get_time(call: ToolInvocation) -> dict[str, Any]:
    """Return the time, the day of the week and the time zone of the agent."""
    timezone = call.agent.timezone
    return {
        "time": format_local(call.now, timezone),
        "weekday": f"{call.now.astimezone(ZoneInfo(timezone)):%A}",
        "timezone": timezone,
    }
