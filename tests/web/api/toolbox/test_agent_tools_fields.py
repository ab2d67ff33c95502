"""Agent tools: their responses, and how the parameters of a call are read from a form."""

from typing import Any

import pytest

from supervisors.tools.tool import ToolDefinition
from tests.web.api.checks import ID, ID_TEXT, serve
from web.api.toolbox.agent_tools import build_call_schema, serialize_agent_tool
from web.request.parsing import parse_body

FORM = "application/x-www-form-urlencoded"


def definition(*, is_builtin: bool = True, **properties: Any) -> ToolDefinition:
    parameters = {"type": "object", "properties": properties}
    return ToolDefinition("look_up", "Looks up.", parameters, None if is_builtin else ID)


def test_response_names_the_adapter_by_id() -> None:
    tool = definition(is_builtin=False, city={"type": "string"})
    assert serve(serialize_agent_tool(tool)) == {
        "name": "look_up",
        "description": "Looks up.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "adapter": ID_TEXT,
    }
    assert serve(serialize_agent_tool(definition()))["adapter"] is None


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "7", "7"),
        ({"type": "integer"}, "7", 7),
        ({"type": ["integer", "null"]}, "", None),
        (True, "[1]", [1]),
    ],
    ids=str,
)
def test_form_field_is_read_by_the_schema_of_its_property(schema: Any, text: str, value: Any) -> None:
    body = f"x={text}".encode()
    assert parse_body(body, FORM, build_call_schema(definition(x=schema))) == {"x": value}


def test_form_field_without_property_is_text() -> None:
    assert parse_body(b"days=3", FORM, build_call_schema(definition())) == {"days": "3"}


def test_boolean_stays_text_only_for_builtin_tools() -> None:
    for is_builtin, value in ((True, "true"), (False, True)):
        schema = build_call_schema(definition(is_builtin=is_builtin, dry={"type": "boolean"}))
        assert parse_body(b"dry=true", FORM, schema) == {"dry": value}
