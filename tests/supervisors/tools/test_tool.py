"""The parts of tools: JSON Schemas of their parameters."""

from supervisors.tools.tool import schema


def test_schema_of_a_tool_allows_only_its_properties() -> None:
    assert schema(("a",), a={"type": "string"}, b={"type": "integer"}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
