"""What a tool is made of: its definition, as models see it, and one call of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.model import Agent
from supervisors.engine.run import Ask
from supervisors.ports import ToolStores
from supervisors.tools.arguments import Arguments


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it; `parameters` is a JSON Schema. Every agent has those of no adapter."""

    name: str
    description: str
    parameters: dict[str, Any]
    adapter_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One call: who calls, with what, and what the tool may use.

    `run_id` is the run that calls; None when somebody else calls on behalf of the agent. `span_id` is the
    step of the run's trace that the call is, if it is one.
    """

    agent: Agent
    run_id: UUID | None
    span_id: UUID | None
    arguments: Arguments
    stores: ToolStores
    ask: Ask
    now: datetime


@dataclass(frozen=True, slots=True)
class AgentTool:
    """Something that an agent can call. `use` returns what is ready for JSON, or raises ToolError."""

    definition: ToolDefinition
    use: Callable[[ToolInvocation], Awaitable[Any]]


def schema(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema for an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
