"""The parts of a tool: its definition, as models see it, and one call of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.events.model import BY_SERVICE
from storage.model import Agent, Template
from storage.storage import Storage
from supervisors.engine.run import Ask
from supervisors.tools.arguments import Arguments


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it; `parameters` is a JSON Schema. Built-in tools have no adapter.

    `idempotent`: its owner says that a repeated call does no harm.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    adapter_id: UUID | None = None
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One call of a tool: the caller, the arguments, and what the tool may use.

    `run_id` is the run that calls; None if a client calls on behalf of the agent. `span_id` is the span of
    the call in the run's trace, if there is one. `message_id` is the id of the message to send, if it was
    chosen before, so that the message is sent once however often the call is repeated. `actor` is who calls,
    for the event log. `metadata` is that of the span of the call. `may_wait`: its answer may come later.
    """

    agent: Agent
    run_id: UUID | None
    span_id: UUID | None
    arguments: Arguments
    stores: Storage
    ask: Ask
    now: datetime
    message_id: UUID | None = None
    actor: str = BY_SERVICE
    metadata: dict[str, Any] = field(default_factory=dict)
    may_wait: bool = True


@dataclass(frozen=True, slots=True)
class PartialResult:
    """A result that would have been too long; `left_out` tells the agent in a sentence what is missing."""

    value: Any
    left_out: str


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool that an agent can call.

    `use` returns a value ready for JSON, or a PartialResult with one, or raises ToolError.
    """

    definition: ToolDefinition
    use: Callable[[ToolInvocation], Awaitable[Any]]


def agent_tool(
    description: str, required: tuple[str, ...] = (), **properties: dict[str, Any]
) -> Callable[[Callable[[ToolInvocation], Awaitable[Any]]], AgentTool]:
    """Return a decorator that makes a tool of a function, by its name. The properties are its parameters."""

    def make(use: Callable[[ToolInvocation], Awaitable[Any]]) -> AgentTool:
        return AgentTool(ToolDefinition(use.__name__, description, schema(required, **properties)), use)

    return make


def denied_tools(template: Template | None) -> set[str]:
    """Return the built-in tools that agents of this template lack; without one they may create contacts."""
    may_create = {
        "create_contact": template is None or template.may_create_contacts,
        "create_agent": template is not None and template.may_create_agents,
    }
    return {tool for tool, is_allowed in may_create.items() if not is_allowed}


def schema(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema for an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
