"""An agent's tools by the Model Context Protocol: the same as over REST, with keys and with run tokens."""

import json
from typing import Any
from uuid import UUID

import pytest
from mcp_types import methods

from tests.receiver import receiving
from tests.web.api.toolbox.test_agent_tools import start_run, tool
from tests.web.api.toolbox.toolbox import create_adapter, create_tool
from tests.web.conftest import Api
from tests.web.mcp.messages import ASSISTANT, LEGACY, MODERN, agent_path, call, result_of, send

ERAS = pytest.mark.parametrize("version", [MODERN, LEGACY])


def text_of(result: Any) -> Any:
    [content] = result["content"]
    return json.loads(content["text"])


@ERAS
async def test_tools_are_those_of_rest_in_the_same_order(api: Api, version: str) -> None:
    agent = await api.create_agent()
    listed = await result_of(api, agent_path(agent), "tools/list", version)
    methods.validate_server_result("tools/list", version, listed)
    over_rest = (await api.get(f"/api/cloud/agents/{agent['id']}/tools/")).body
    assert [(each["name"], each["description"], each["inputSchema"]) for each in listed["tools"]] == [
        (each["name"], each["description"], each["parameters"]) for each in over_rest
    ]


@ERAS
async def test_calls_have_the_results_and_errors_of_rest(api: Api, version: str) -> None:
    agent = await api.create_agent()
    for name, arguments in (
        ("create_notification", {"title": "Call back", "priority": "low"}),
        ("list_notifications", {"limit": 1}),
        ("list_notifications", {"limit": "x"}),
        ("list_notifications", {"unknown": True}),
        ("sleep", {"hours": 1}),
    ):
        result = await call(api, agent_path(agent), name, version, **arguments)
        methods.validate_server_result("tools/call", version, result)
        over_rest = (await api.post(tool(agent, name), arguments)).body
        said = text_of(result)
        if name == "create_notification":
            over_rest["result"] |= {key: said[key] for key in ("id", "created_at")}
        assert said == over_rest.get("result", over_rest.get("error"))
        assert result["isError"] is ("error" in over_rest)


@ERAS
async def test_long_result_says_what_is_left_out(api: Api, version: str) -> None:
    agent = await api.create_agent()
    contact = await api.create(
        "/api/defaults/contacts/", agent=agent["id"], name="Ada", phone="+436641234567"
    )
    message = {"channel": "sms", "direction": "outbound", "contact": contact["id"]}
    for n in range(3):
        await api.create("/api/defaults/messages/", agent=agent["id"], body=str(n), **message)
    arguments = {"contact_id": contact["id"], "limit": 2}
    result = await call(api, agent_path(agent), "list_messages", version, **arguments)
    values, left_out = (content["text"] for content in result["content"])
    assert [each["body"] for each in json.loads(values)] == ["1", "2"]
    assert left_out.endswith(f'before="{json.loads(values)[0]["id"]}".')


async def test_run_is_the_caller_with_its_token(api: Api, other: Api) -> None:
    agent, sibling = await api.create_agent(), await api.create_agent()
    _, run = await start_run(api, agent)
    assert not (await call(run, agent_path(agent), "sleep", hours=1))["isError"]
    assert (await send(run, agent_path(sibling), "tools/list")).status == 403
    assert (await send(run, ASSISTANT, "tools/list")).status == 403
    over = await send(run, agent_path(agent), "tools/list")
    assert over.status in {401, 403}  # another node than that of the run does not know the token any more
    assert (await send(other, agent_path(agent), "tools/list")).status == 403
    missing = {"id": str(UUID(int=7))}
    assert (await send(api, agent_path(missing), "tools/list")).status == 404


async def test_tool_of_adapter_is_called_without_its_header_marks(api: Api) -> None:
    adapter = await create_adapter(api)
    marked = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    async with receiving() as receiver:
        await create_tool(api, adapter, name="weather", url=receiver.url, parameters=marked)
        agent = await api.create_agent(adapters=[adapter["id"]])
        listed = (await result_of(api, agent_path(agent), "tools/list"))["tools"][-1]
        assert listed["inputSchema"]["properties"] == {"region": {"type": "string"}}
        assert not (await call(api, agent_path(agent), listed["name"], region="north"))["isError"]
        [received] = receiver.requests
        assert received.data["arguments"] == {"region": "north"}
