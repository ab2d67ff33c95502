"""The error of a tool call."""

from supervisors.tools.errors import ToolError


def test_error_as_json_has_code_message_and_details() -> None:
    error = ToolError("invalid", "limit is too large.", parameter="limit")

    assert error.as_json() == {
        "code": "invalid",
        "message": "limit is too large.",
        "parameter": "limit",
    }


def test_error_message_has_no_nul() -> None:
    assert ToolError("tool_failed", "Out of\0paper").message == "Out of\ufffdpaper"
