"""Tools of adapters over HTTP: their list, their calls, and the requests to their servers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from aiohttp import ClientError, ClientTimeout, web

from supervisors.tools.parking import ResultAddresses
from tests.receiver import Receiver, answering_json, receiving
from tests.web.conftest import SETTINGS, Answer, Api, Service

AGENTS = "/api/cloud/agents/"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "dry": {"type": "boolean"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


async def create_adapter(api: Api, **fields: Any) -> Any:
    return await api.create("/api/toolbox/adapters/", **{"name": "Weather", **fields})


async def create_tool(api: Api, adapter: Any, **fields: Any) -> Any:
    return await api.create("/api/toolbox/tools/", **{"adapter": adapter["id"], "name": "look_up", **fields})


async def agent_with(api: Api, *tools: dict[str, Any], **fields: Any) -> Any:
    """Create an agent with one adapter that has these tools."""
    adapter = await create_adapter(api)
    for tool in tools:
        await create_tool(api, adapter, **tool)
    return await api.create_agent(adapters=[adapter["id"]], **fields)


async def call(api: Api, agent: Any, tool: str, **arguments: Any) -> Answer:
    return await api.post(f"{AGENTS}{agent['id']}/tools/{tool}/", arguments)


async def tools_of(api: Api, agent: Any) -> Any:
    """Return the tools that the agent has after the built-in ones."""
    tools = (await api.get(f"{AGENTS}{agent['id']}/tools/")).body
    assert len(tools) <= 128, "model providers accept no more"
    builtin = [tool for tool in tools if tool["adapter"] is None]
    assert tools[: len(builtin)] == builtin
    return tools[len(builtin) :]


async def test_adapter_tools_follow_builtin_tools_in_adapter_order(api: Api) -> None:
    weather, calendar = await create_adapter(api), await create_adapter(api, name="My calendar")
    await create_tool(api, calendar, name="sleep", description="Books a nap.")
    await create_tool(api, calendar, name="look_up", parameters=["day"])
    await create_tool(api, weather, parameters=CITY)
    agent = await api.create_agent(adapters=[weather["id"], calendar["id"]])

    anything = {"type": "object", "properties": {}}
    assert await tools_of(api, agent) == [
        {"name": "look_up", "description": "", "parameters": CITY, "adapter": weather["id"]},
        {
            "name": "My_calendar_sleep",
            "description": "Books a nap.",
            "parameters": anything,
            "adapter": calendar["id"],
        },
        {
            "name": "My_calendar_look_up",
            "description": 'It takes: ["day"]',
            "parameters": anything,
            "adapter": calendar["id"],
        },
    ]
    await api.patch(f"{AGENTS}{agent['id']}/", {"adapters": [calendar["id"]]})
    assert [each["name"] for each in await tools_of(api, agent)] == ["My_calendar_sleep", "look_up"]


async def test_call_is_answered_by_the_server_of_the_tool(api: Api, server: Receiver) -> None:
    adapter, template = await create_adapter(api), await api.create_template()
    await create_tool(api, adapter, name="Look up", url=f"{server.url}/a?b=c", handler="weather.v1")
    config = {"template": template["id"], "adapter": adapter["id"], "config": {"unit": "K"}}
    await api.create("/api/toolbox/adapter-configs/", **config)
    agent = await api.create_agent(adapters=[adapter["id"]], template=template["id"])
    server.answer = answering_json('{"sun": true, "mm": 0.5}')

    answer = await call(api, agent, "Look_up", city="Graz")
    assert (answer.status, answer.body) == (200, {"result": {"sun": True, "mm": 0.5}})
    [received] = server.requests
    call_id = received.data["tool_call_id"]
    assert received.path == "/a?b=c"
    assert received.data == {
        "tool_call_id": call_id,
        "adapter": adapter["id"],
        "tool": "Look up",
        "handler": "weather.v1",
        "agent": agent["id"],
        "run": None,
        "arguments": {"city": "Graz"},
        "config": {"unit": "K"},
        "result": ResultAddresses("", SETTINGS.token_secret).of(UUID(call_id)),
    }
    assert received.headers["Idempotency-Key"] == received.headers["webhook-id"] == call_id
    assert received.headers["traceparent"].endswith(f"-{UUID(call_id).hex[16:]}-01")
    assert "webhook-signature" not in received.headers

    await call(api, agent, "Look_up")
    assert server.requests[1].data["tool_call_id"] != call_id


@pytest.mark.parametrize("status", [200, 500])
async def test_call_outside_a_run_has_its_own_trace(api: Api, server: Receiver, status: int) -> None:
    agent = await agent_with(api, {"url": server.url, "parameters": CITY})
    seen_during_call: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        trace_id = UUID(request.headers["traceparent"].split("-")[1])
        seen_during_call.append((await api.get(f"/api/tracing/traces/{trace_id}/")).body)
        return web.json_response({"sun": True}, status=status)

    server.answer = answer
    await call(api, agent, "look_up", city="Graz")
    [during] = seen_during_call
    [received] = server.requests
    after = (await api.get(f"/api/tracing/traces/{during['id']}/")).body
    [span] = after["spans"]
    assert (during["ended_at"], during["name"], during["agent"]) == (
        None,
        "execute_tool look_up",
        agent["id"],
    )
    assert (span["id"], span["name"]) == (received.data["tool_call_id"], "execute_tool look_up")
    assert (span["span_type"], span["has_error"], bool(after["error"])) == (
        "tool",
        status == 500,
        status == 500,
    )
    assert during["started_at"] == span["started_at"] <= span["ended_at"] == after["ended_at"]
    listed = (await api.get("/api/tracing/traces/")).body["results"]
    assert [each["id"] for each in listed] == [during["id"]]
    assert (await call(api, agent, "look_up", town="Graz")).status == 400
    assert len((await api.get("/api/tracing/traces/")).body["results"]) == 1


async def test_arguments_that_do_not_fit_the_schema_are_not_sent(api: Api, server: Receiver) -> None:
    agent = await agent_with(api, {"url": server.url, "parameters": CITY})
    for arguments, errors in (
        ({}, ['$: "city" is a required property']),
        ({"city": 1}, ['$.city: 1 is not of type "string"']),
        (
            {"city": "Graz", "x": 1},
            ["$: Additional properties are not allowed ('x' was unexpected)"],
        ),
    ):
        answer = await call(api, agent, "look_up", **arguments)
        message = f"The arguments do not fit the tool's parameters: {errors[0]}"
        error = {"code": "invalid", "message": message, "errors": errors}
        assert (answer.status, answer.body) == (400, {"error": error})
    assert server.requests == []
    assert (await call(api, agent, "look_up", city="Graz")).status == 200


async def test_changed_parameters_apply_to_the_next_call(api: Api, server: Receiver) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter, url=server.url)
    agent = await api.create_agent(adapters=[adapter["id"]])
    for parameters, status in ((CITY, 400), (None, 200), (CITY, 400), ("city", 200)):
        await api.patch(f"/api/toolbox/tools/{tool['id']}/", {"parameters": parameters})
        await api.patch(f"/api/toolbox/tools/{tool['id']}/", {"description": "Else."})
        assert (await call(api, agent, "look_up")).status == status


async def test_unusual_property_schemas_are_accepted(api: Api, server: Receiver) -> None:
    properties = {"": True, "Meta": {"type": ["string", "null"]}, "load": {}, "a\u0001": {"type": "string"}}
    agent = await agent_with(api, {"url": server.url, "parameters": {"properties": properties}})
    assert (await call(api, agent, "look_up", **{"": 1, "Meta": "x", "load": 2})).status == 200
    form = await api.request("POST", f"{AGENTS}{agent['id']}/tools/look_up/", data={"load": "2"})
    assert form.status == 200


async def test_tools_of_other_agents_and_deleted_tools_are_unknown(api: Api, server: Receiver) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter, url=server.url)
    agent, plain = await api.create_agent(adapters=[adapter["id"]]), await api.create_agent()
    unknown = {"code": "unknown_tool", "message": "There is no tool named look_up."}
    assert (await call(api, plain, "look_up")).body == {"error": unknown}
    assert (await call(api, agent, "look_up")).status == 200
    assert (await call(api, agent, "Look_up")).status == 404
    await api.delete(f"/api/toolbox/tools/{tool['id']}/")
    answer = await call(api, agent, "look_up")
    assert (answer.status, answer.body) == (404, {"error": unknown})
    assert len(server.requests) == 1


async def test_slow_tool_holds_no_connection_and_outlives_its_caller(
    service: Service, api: Api, server: Receiver
) -> None:
    called, may_answer, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        called.set()
        await may_answer.wait()
        answered.set()
        return web.json_response("late")

    server.answer = answer
    agent = await agent_with(api, {"url": server.url, "handler": "channel:email"})
    contact = await api.create("/api/defaults/contacts/", email="ada@example.com")

    impatient = ClientTimeout(total=0.2)
    path, arguments = (
        f"{AGENTS}{agent['id']}/tools/send_message/",
        {"contact_id": contact["id"], "body": "Hi"},
    )
    with pytest.raises((TimeoutError, ClientError)):
        await api.request("POST", path, json=arguments, timeout=impatient)
    await called.wait()
    size = service.storage.pool.size()
    assert size.idle == size.connections
    [message] = (await api.get("/api/defaults/messages/")).body
    assert message["status"] == "queued"
    may_answer.set()
    await answered.wait()
    path = f"/api/defaults/messages/{message['id']}/"
    while (await api.get(path)).body["status"] == "queued":
        pass
    assert (await api.get(path)).body["status"] == "sent"


async def test_public_adapter_is_called_with_config_of_the_calling_organization(
    service: Service, api: Api, other: Api, server: Receiver
) -> None:
    adapter = await create_adapter(other)
    await create_tool(other, adapter, url=server.url)
    await service.storage.adapters.publish(UUID(adapter["id"]))
    own, theirs = await api.create_template(), await other.create_template()
    for client, template, unit in ((api, own, "K"), (other, theirs, "F")):
        config = {"template": template["id"], "adapter": adapter["id"], "config": {"unit": unit}}
        await client.create("/api/toolbox/adapter-configs/", **config)
    agent = await api.create_agent(adapters=[adapter["id"]], template=own["id"])
    assert (await call(api, agent, "look_up")).status == 200
    assert server.requests[0].data["config"] == {"unit": "K"}


async def test_too_long_schema_is_hidden_but_still_enforced(api: Api, server: Receiver) -> None:
    long = {**CITY, "title": "x" * 40_000}
    fields = {"url": server.url, "parameters": long, "description": "y" * 5000}
    agent = await agent_with(api, fields)
    [tool] = await tools_of(api, agent)
    assert (tool["description"], tool["parameters"]) == ("y" * 4096, {"type": "object", "properties": {}})
    assert (await call(api, agent, "look_up")).body["error"]["code"] == "invalid"


async def test_tool_count_is_limited_to_what_models_accept(service: Service, api: Api) -> None:
    adapter = await create_adapter(api)
    agent = await api.create_agent(adapters=[adapter["id"]])
    await service.storage.pool.execute(
        """
        INSERT INTO tool (id, adapter_id, name, is_enforced, created_at)
        SELECT gen_random_uuid(), $1, 'tool ' || i, false, now() FROM generate_series(1, 200) i
        """,
        UUID(adapter["id"]),
    )
    assert len(await tools_of(api, agent)) == 100


async def test_tool_with_unreadable_secret_is_not_called(
    api: Api, service: Service, server: Receiver
) -> None:
    adapter, template = await create_adapter(api), await api.create_template(tool_call_secret="whsec_1")
    await create_tool(api, adapter, url=server.url)
    agent = await api.create_agent(adapters=[adapter["id"]], template=template["id"])
    await service.storage.pool.execute("UPDATE template SET tool_call_secret = 'hostsvc:1:0123abcd:AAAA'")

    answer = await call(api, agent, "look_up")
    place = f"template.tool_call_secret of {template['id']}"
    assert answer.body["error"]["code"] == "secret_unreadable", answer
    assert place in answer.body["error"]["message"]
    assert server.requests == []

    await api.patch(f"/api/templates/{template['id']}/", {"tool_call_secret": "whsec_2"})
    assert (await call(api, agent, "look_up")).status == 200
