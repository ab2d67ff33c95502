"""The official client lists and calls the same tools in all of its modes."""

import json
from typing import Any

import pytest
from mcp import MCPError
from mcp.client import advertise

from tests.web.conftest import Api, Service
from tests.web.mcp.clients import MODES, connected
from tests.web.mcp.messages import ASSISTANT, TASKS, agent_path


def url_of(service: Service, path: str) -> str:
    host, port = service.address
    return f"http://{host}:{port}{path}"


@pytest.mark.parametrize("mode", MODES)
async def test_official_client_lists_and_calls_the_tools_of_an_agent(
    api: Api, service: Service, mode: str
) -> None:
    agent = await api.create_agent()
    await api.create_notification(agent, title="Call back")
    over_rest = (await api.get(f"/api/cloud/agents/{agent['id']}/tools/")).body
    url = url_of(service, agent_path(agent))
    async with connected(url, str(api.authorization), mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        tools = (await client.list_tools()).tools
        assert [each.name for each in tools] == [each["name"] for each in over_rest]
        result = await client.call_tool("list_notifications", {"limit": 5})
        assert not result.is_error
        [content] = result.content
        assert [each["title"] for each in json.loads(content.text)] == ["Call back"]  # type: ignore[union-attr]
        assert (await client.call_tool("list_notifications", {"limit": "x"})).is_error
        with pytest.raises(MCPError, match="There is no tool named fly"):
            await client.call_tool("fly", {})


@pytest.mark.parametrize("mode", MODES)
async def test_official_client_lists_and_calls_the_tools_of_the_assistant(
    api: Api, service: Service, mode: str
) -> None:
    agent = await api.create_agent(name="Ann")
    async with connected(url_of(service, ASSISTANT), str(api.authorization), mode) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        assert names[:4] == ["overview", "list_agents", "why", "timeline"]
        [listed] = json.loads(await text_of(client, "list_agents"))
        assert (listed["agent"], listed["name"]) == (agent["id"], "Ann")
        assert (await client.call_tool("why", {"agent": "x"})).is_error


async def test_official_client_is_not_given_a_task_that_it_cannot_take(api: Api, service: Service) -> None:
    agent = await api.create_agent()
    url, wait = url_of(service, ASSISTANT), {"agent": agent["id"], "wait": 0}
    async with connected(url, str(api.authorization)) as client:
        assert json.loads(await text_of(client, "run_agent", wait))["outcome"] is None
    async with connected(url, str(api.authorization), extensions=[advertise(TASKS)]) as client:
        with pytest.raises(Exception, match="task"):  # it declares tasks, but does not know their results
            await client.call_tool("run_agent", wait)


async def text_of(client: Any, name: str, arguments: Any = None) -> str:
    [content] = (await client.call_tool(name, arguments or {})).content
    return str(content.text)
