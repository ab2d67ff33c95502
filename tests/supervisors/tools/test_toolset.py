"""The toolset: the built-in tools and their arguments."""

from typing import Any

import pytest

from supervisors.tools.arguments import ToolError
from tests.supervisors.world import World

UNFIT: list[tuple[str, dict[str, Any], str]] = [
    ("list_notifications", {"limit": "1_0"}, "limit"),
    ("list_notifications", {"include_cleared": 1.0}, "include_cleared"),
    ("clear_notification", {}, "notification_id"),
    ("create_notification", {"title": "  "}, "title"),
    ("create_notification", {"title": "x", "body": "\ud800"}, "body"),
    ("create_notification", {"title": "x", "priority": "urgent"}, "priority"),
    ("create_notification", {"title": "x", "scheduled_for": "2126-11-22"}, "scheduled_for"),
    ("sleep", {"until": "9999-06-01T00:00:00Z"}, "until"),
    ("sleep", {"until": "2126-11-21T09:00:00Z"}, "until"),
    ("sleep", {"until": "2126-11-22T09:00:00Z", "hours": 1}, "hours"),
    ("sleep", {"hours": 87_601}, "hours"),
]


async def test_agent_has_the_builtin_tools(world: World) -> None:
    definitions = await world.toolset.definitions(await world.agent(), None)

    assert [definition.name for definition in definitions] == [
        "list_notifications",
        "clear_notification",
        "create_notification",
        "set_schedule",
        "list_schedules",
        "delete_schedule",
        "send_message",
        "send_sms",
        "open_sms_attachment",
        "list_messages",
        "get_message",
        "ask_person",
        "list_contacts",
        "get_contact",
        "create_contact",
        "update_contact",
        "list_documents",
        "search_documents",
        "read_document",
        "write_document",
        "memory",
        "list_projects",
        "list_runs",
        "get_time",
        "sleep",
    ]
    assert all(definition.parameters["additionalProperties"] is False for definition in definitions)


async def test_arguments_are_as_lenient_as_a_request(world: World) -> None:
    run = await world.start(await world.agent())

    created = await run.call("create_notification", title=5, body=1.5)

    assert (created["title"], created["body"]) == ("5", "1.5")
    assert await run.call("list_notifications", limit=" 7 ", include_cleared="FALSE") == [created]


async def test_invalid_argument_is_refused_by_name(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)

    for tool, arguments, parameter in UNFIT:
        with pytest.raises(ToolError) as refused:
            await run.call(tool, **arguments)
        assert (refused.value.code, refused.value.details) == ("invalid", {"parameter": parameter})

    assert agent.id in world.puppets
    assert await run.lists() == []


async def test_unknown_tool_is_an_error(world: World) -> None:
    run = await world.start(await world.agent())

    with pytest.raises(ToolError) as refused:
        await run.call("launch_rocket")

    assert refused.value.as_json() == {
        "code": "unknown_tool",
        "message": "There is no tool named launch_rocket.",
    }
