"""Tools of adapters over HTTP: free parameters, limits, and unique names."""

import json
from typing import Any

import pytest

from tests.web.api.toolbox.toolbox import ADAPTERS, OUTSIDE, PORT, TOOLS, create_adapter, create_tool
from tests.web.conftest import Api


@pytest.mark.parametrize("parameters", [None, PORT, {"type": "no type"}, ["anything"], "else", 7])
async def test_tool_parameters_may_be_any_json(api: Api, parameters: Any) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter, parameters=parameters)
    assert tool == {
        "id": tool["id"],
        "adapter": adapter["id"],
        "name": "send",
        "description": "",
        "created_at": tool["created_at"],
        "parameters": parameters,
        "url": "",
        "handler": "",
        "detail_url": "",
        "idempotent": False,
        "approval": "never",
        "offered": None,
    }
    path = f"{TOOLS}{tool['id']}/"
    assert (await api.get(path)).body == tool
    changes = {"url": "https://example.com/send", "handler": "channel:email"}
    assert (await api.patch(path, changes)).body == {**tool, **changes}
    assert (await api.patch(path, {"parameters": None})).body["parameters"] is None
    assert (await api.delete(path)).status == 204
    assert (await api.get(path)).status == 404


async def test_blank_parameters_in_a_form_are_null(api: Api) -> None:
    adapter = await create_adapter(api)
    form = {"adapter": adapter["id"], "name": "lookup", "parameters": ""}
    answer = await api.request("POST", TOOLS, data=form)
    assert (answer.status, answer.body["parameters"]) == (201, None)
    answer = await api.request("POST", TOOLS, data={**form, "parameters": "{"})
    assert (answer.status, list(answer.body)) == (400, ["parameters"])


async def test_tool_name_is_unique_within_its_adapter(api: Api) -> None:
    adapter, second = await create_adapter(api), await create_adapter(api)
    await create_tool(api, adapter, name="send")
    call = await create_tool(api, adapter, name="call")
    await create_tool(api, second, name="send")
    taken = (400, {"non_field_errors": ["The fields adapter, name must make a unique set."]})
    answer = await api.post(TOOLS, {"adapter": adapter["id"], "name": " send "})
    assert (answer.status, answer.body) == taken
    answer = await api.patch(f"{TOOLS}{call['id']}/", {"name": "send"})
    assert (answer.status, answer.body) == taken


async def test_parameters_may_not_refer_to_other_documents(api: Api) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter)
    outside = {"parameters": {"properties": {"a": {"$ref": "other.json"}}}}
    for answer in (
        await api.patch(f"{TOOLS}{tool['id']}/", outside),
        await api.post(TOOLS, {"adapter": adapter["id"], "name": "other", **outside}),
    ):
        assert (answer.status, answer.body) == (400, {"parameters": OUTSIDE})


async def test_free_json_keeps_values_and_key_order(api: Api) -> None:
    value = {"title": "x", "b": {"z": 1, "aa": [1.0, 1e300, -0.0]}, "a": 2**64 - 1}
    adapter = await create_adapter(api, config_schema=value)
    tool = await create_tool(api, adapter, parameters=value)
    contact = await api.create("/api/defaults/contacts/", metadata=value)
    agent = await api.create_agent()
    trace = await api.create("/api/tracing/traces/", agent=agent["id"], name="x", metadata=value)
    for path, created, name in (
        (ADAPTERS, adapter, "config_schema"),
        (TOOLS, tool, "parameters"),
        ("/api/defaults/contacts/", contact, "metadata"),
        ("/api/tracing/traces/", trace, "metadata"),
    ):
        shown = (await api.get(f"{path}{created['id']}/")).body
        assert json.dumps(shown[name]) == json.dumps(created[name]) == json.dumps(value)
