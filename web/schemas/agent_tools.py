"""The tools that agents call: how they are shown, and how their parameters are read."""

from typing import Any, TypedDict, cast
from uuid import UUID

from marshmallow import INCLUDE, fields

from supervisors.tools.toolkit import ToolDefinition
from web.fields import Boolean, JsonValue, Text
from web.request.parsing import Body

AS_JSON = JsonValue(allow_none=True)
AS_TEXT = Text()
AS_FLAG = Boolean(allow_none=True)


class ToolCallBody(Body):
    """The parameters, by name, as the tool's definition says."""

    class Meta:
        unknown = INCLUDE


class AgentToolResponse(TypedDict):
    """A tool that the agent has now. `parameters` is a JSON Schema; every agent has those without adapter."""

    name: str
    description: str
    parameters: dict[str, Any]
    adapter: UUID | None


class ToolCalled(TypedDict):
    result: Any


class ToolErrorResponse(TypedDict):
    """Why a tool refused; `code` is for programs, the rest tells more."""

    code: str
    message: str


class ToolRefused(TypedDict):
    error: ToolErrorResponse


def serialize_agent_tool(definition: ToolDefinition) -> AgentToolResponse:
    return {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
        "adapter": definition.adapter_id,
    }


def parameters_schema(definition: ToolDefinition) -> Body:
    """Says of a call's parameters how they are written in a form; others are texts. The tool checks them."""
    flag = AS_FLAG if definition.adapter_id is None else AS_JSON  # as only our own tools read them
    properties = definition.parameters["properties"]
    forms = {name: _form_of(rules, flag) for name, rules in properties.items()}
    return cast(Body, ToolCallBody.from_dict(forms)())


def _form_of(rules: Any, flag: fields.Field[Any]) -> fields.Field[Any]:
    """Of a property, by its schema; which may be `true`, or name several types."""
    match rules:
        case {"type": "string"}:
            return AS_TEXT
        case {"type": "boolean"}:
            return flag
        case _:
            return AS_JSON
