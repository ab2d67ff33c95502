"""One run of an agent, as a function of the test sees it that does the work of a harness."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from storage.model import Agent, Notification
from supervisors.tools.arguments import ToolError

UNCLEARED = "uncleared_high_priority"


@dataclass(frozen=True, slots=True)
class AgentRun:
    """A run. Each method calls a tool of the service, and raises ToolError if the tool refuses."""

    agent: Agent  # with its id, name, parent_id, timezone, …
    reason: str  # why the agent was woken
    now: Callable[[], datetime]
    queue: Callable[[], Awaitable[list[Notification]]]  # what waits: high priority first, then the oldest
    call: Callable[..., Awaitable[Any]]  # a tool by its name, with its arguments (docs/tools.md)

    async def clear(self, *notifications: Notification) -> None:
        """Clear what is dealt with."""
        for one in notifications:
            await self.call("clear_notification", notification_id=str(one.id))

    async def send_text(self, to: Notification | str, body: str) -> None:
        """Answer the sender of a notification, or write to a contact by its id, number or address."""
        await self.call("send_message", contact_id=getattr(to, "source_id", to), body=body)

    async def remind(self, title: str, at: datetime | None = None, body: str = "", **ahead: float) -> None:
        """Wake the agent at this time, or as far ahead as the arguments of `timedelta` say."""
        moment = (at or self.now() + timedelta(**ahead)).isoformat()
        reminder = {"title": title, "body": body, "priority": "high", "scheduled_for": moment}
        await self.call("create_notification", **reminder)

    async def sleep(self, until: datetime | None = None, **ahead: float) -> bool:
        """Ask for sleep; return whether it was granted. It is not while something of high priority waits."""
        until = self.now() + timedelta(**ahead) if ahead else until
        try:
            await self.call("sleep", **({"until": until.isoformat()} if until else {}))
        except ToolError as error:
            if error.code != UNCLEARED:
                raise
            return False
        return True


AgentFunction = Callable[[AgentRun], Awaitable[object]]
