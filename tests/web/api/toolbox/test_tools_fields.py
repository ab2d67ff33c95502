"""Bodies and responses of the tools of adapters."""

from storage.toolbox.tools import Tool
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    OTHER_ID,
    OTHER_ID_TEXT,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.toolbox.tools import ToolBody, ToolChangesBody, serialize_tool


def test_tool_needs_adapter_and_name() -> None:
    assert refuse(ToolBody(), {}) == {"adapter": REQUIRED, "name": REQUIRED}
    checked = accept(ToolBody(), {"adapter": ID_TEXT, "name": " send "})
    assert (checked["adapter_id"], checked["name"], checked["parameters"]) == (ID, "send", None)


def test_change_ignores_the_adapter() -> None:
    body = {"adapter": ID_TEXT, "url": "https://example.com/"}
    assert accept(ToolChangesBody(), body, partial=True) == {"url": "https://example.com/"}


def test_response_hides_whether_parameters_are_enforced() -> None:
    tool = Tool(ID, OTHER_ID, "send", "", ["to"], False, "", "channel:sms", "", NOON)
    assert serve(serialize_tool(tool)) == {
        "id": ID_TEXT,
        "adapter": OTHER_ID_TEXT,
        "name": "send",
        "description": "",
        "created_at": NOON_TEXT,
        "parameters": ["to"],
        "url": "",
        "handler": "channel:sms",
        "detail_url": "",
    }
