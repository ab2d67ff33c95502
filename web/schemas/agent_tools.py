"""Agent tools: how they are listed, and how the parameters of a call are read."""

from typing import Any, NotRequired, TypedDict, cast
from uuid import UUID

from marshmallow import INCLUDE, fields

from supervisors.tools.toolkit import ToolDefinition
from web.fields import Boolean, JsonValue, Text
from web.request.parsing import Body
from web.serializers import Serializer

JSON_FIELD = JsonValue(allow_none=True)
TEXT_FIELD = Text()
BOOLEAN_FIELD = Boolean(allow_none=True)


class ToolCallBody(Body):
    """The parameters, by name, as the tool's definition says."""

    class Meta:
        unknown = INCLUDE


class AgentToolResponse(TypedDict):
    """A tool of an agent, as its model sees it."""

    name: str
    """The name to call it by: letters, digits, `_` and `-`, unique among the agent's tools."""
    description: str
    """What the tool does, and what its parameters mean if they are no JSON Schema."""
    parameters: dict[str, Any]
    """A JSON Schema for the parameters."""
    adapter: UUID | None
    """The adapter that the tool belongs to; null: a built-in tool, which every agent has."""


class ToolCalledResponse(TypedDict):
    """The result of a call."""

    result: Any
    """The answer of the tool, as JSON or text; null if it had none."""
    left_out: NotRequired[str]
    """What is missing from a result that would have been too long; only in that case."""


class ToolErrorResponse(TypedDict):
    """Why a call failed. Some codes come with further fields, such as `status` or `errors`."""

    code: str
    """A code for programs, such as `invalid`, `not_found`, `unknown_tool` or `tool_failed`."""
    message: str
    """A sentence for the model that tells it what to do instead."""


class ToolRefusedResponse(TypedDict):
    """The answer to a call that failed."""

    error: ToolErrorResponse
    """Why the call failed."""


serialize_agent_tool = Serializer(AgentToolResponse, ToolDefinition)


def build_call_schema(definition: ToolDefinition) -> Body:
    """Return the schema that reads the parameters of a call to this tool.

    It only says how each parameter is written in a form; the tool checks the values. A parameter that the
    definition does not name is a text.
    """
    # Only our own tools accept a boolean that is written as text.
    boolean_field = BOOLEAN_FIELD if definition.adapter_id is None else JSON_FIELD
    properties = definition.parameters["properties"]
    form_fields = {name: _form_field(schema, boolean_field) for name, schema in properties.items()}
    return cast(Body, ToolCallBody.from_dict(form_fields)())


def _form_field(schema: Any, boolean_field: fields.Field[Any]) -> fields.Field[Any]:
    """Return the field for a property with this schema, which may be `true` or name several types."""
    match schema:
        case {"type": "string"}:
            return TEXT_FIELD
        case {"type": "boolean"}:
            return boolean_field
        case _:
            return JSON_FIELD
