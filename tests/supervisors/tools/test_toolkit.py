"""The parts of tools: JSON Schemas and moments as JSON."""

from datetime import UTC, datetime

import pytest

from supervisors.tools.toolkit import iso, schema


def test_schema_of_a_tool_allows_only_its_properties() -> None:
    assert schema(("a",), a={"type": "string"}, b={"type": "integer"}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (None, None),
        (datetime(2026, 11, 21, 9, tzinfo=UTC), "2026-11-21T09:00:00.000000Z"),
        (datetime(33, 4, 3, 15, 0, 0, 1, UTC), "0033-04-03T15:00:00.000001Z"),
    ],
)
def test_moment_as_json_is_iso_8601_in_utc(moment: datetime | None, expected: str | None) -> None:
    assert iso(moment) == expected
