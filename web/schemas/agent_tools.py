"""The tools that agents call: how they are shown, and how their parameters are read."""

from typing import Any, TypedDict, cast
from uuid import UUID

from marshmallow import INCLUDE, fields

from supervisors.tools.toolkit import ToolDefinition
from web.fields import Boolean, JsonValue, Text
from web.parsing import Body

AS_JSON = JsonValue(allow_none=True)
FORMS: dict[str, fields.Field[Any]] = {"string": Text(), "boolean": Boolean(allow_none=True)}


class ToolCallBody(Body):
    """The parameters, by name, as the tool's definition says."""

    class Meta:
        unknown = INCLUDE


class AgentToolShown(TypedDict):
    """A tool that the agent has now. `parameters` is a JSON Schema; every agent has those without adapter."""

    name: str
    description: str
    parameters: dict[str, Any]
    adapter: UUID | None


class ToolCalled(TypedDict):
    result: Any


class ToolErrorShown(TypedDict):
    """Why a tool refused; `code` is for programs, the rest tells more."""

    code: str
    message: str


class ToolRefused(TypedDict):
    error: ToolErrorShown


def show_agent_tool(definition: ToolDefinition) -> AgentToolShown:
    return {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
        "adapter": definition.adapter_id,
    }


def parameters_schema(definition: ToolDefinition) -> Body:
    """Says of a call's parameters how they are written in a form. The tool itself checks them."""
    properties = definition.parameters["properties"]
    return cast(Body, Body.from_dict({name: _form_of(rules) for name, rules in properties.items()})())


def _form_of(rules: Any) -> fields.Field[Any]:
    """Of a property, by its schema, which may be `true` and name several types."""
    kind = rules.get("type") if isinstance(rules, dict) else None
    return FORMS.get(kind, AS_JSON) if isinstance(kind, str) else AS_JSON
