"""Agent tools: how the parameters of a call are read from a form."""

from typing import Any

import pytest

from storage.ids import new_id
from supervisors.tools.tool import ToolDefinition
from web.api.toolbox.agent_tools import build_call_schema
from web.request.parsing import parse_body

FORM = "application/x-www-form-urlencoded"


def definition(*, is_builtin: bool = True, **properties: Any) -> ToolDefinition:
    parameters = {"type": "object", "properties": properties}
    return ToolDefinition("look_up", "Looks up.", parameters, None if is_builtin else new_id())


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
