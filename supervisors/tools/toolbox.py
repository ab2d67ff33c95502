"""The tools that every agent has, by name, and the one way to call them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from storage.model import Agent
from supervisors.clock import Clock
from supervisors.ports import ToolStores
from supervisors.runs import Ask
from supervisors.tools.arguments import Arguments
from supervisors.tools.errors import ToolError
from supervisors.tools.messages import (
    OPEN_SMS_ATTACHMENT,
    SEND_MESSAGE,
    SEND_SMS,
    open_sms_attachment,
    send_message,
    send_sms,
)
from supervisors.tools.notifications import (
    CLEAR_NOTIFICATION,
    CREATE_NOTIFICATION,
    LIST_NOTIFICATIONS,
    clear_notification,
    create_notification,
    list_notifications,
)
from supervisors.tools.sleep import SLEEP, sleep
from supervisors.tools.toolkit import ToolCall, ToolDefinition

UNKNOWN_TOOL = "unknown_tool"

Tool = Callable[[ToolCall], Awaitable[Any]]


class Toolbox:
    """Calls tools on behalf of agents."""

    def __init__(self, stores: ToolStores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock
        self._tools: dict[str, tuple[ToolDefinition, Tool]] = {
            definition.name: (definition, tool)
            for definition, tool in (
                (LIST_NOTIFICATIONS, list_notifications),
                (CLEAR_NOTIFICATION, clear_notification),
                (CREATE_NOTIFICATION, create_notification),
                (SEND_MESSAGE, send_message),
                (SEND_SMS, send_sms),
                (OPEN_SMS_ATTACHMENT, open_sms_attachment),
                (SLEEP, sleep),
            )
        }

    async def definitions(self, agent: Agent) -> list[ToolDefinition]:
        """What the agent can call now."""
        return [definition for definition, _ in self._tools.values()]

    def definition(self, name: str) -> ToolDefinition:
        """Raises ToolError."""
        definition, _ = self._find(name)
        return definition

    async def call(
        self,
        agent: Agent,
        run_id: UUID | None,
        ask: Ask,
        name: str,
        arguments: Mapping[str, Any],
        span_id: UUID | None = None,
    ) -> Any:
        """The tool's result, ready for JSON; raises ToolError.

        `run_id`: the run that calls, if one does; `span_id`: the step of it that this call is.
        """
        _, tool = self._find(name)
        return await tool(
            ToolCall(agent, run_id, span_id, Arguments(arguments), self._stores, ask, self._clock.now())
        )

    def _find(self, name: str) -> tuple[ToolDefinition, Tool]:
        if name not in self._tools:
            raise ToolError(UNKNOWN_TOOL, f"There is no tool named {name}.")
        return self._tools[name]
