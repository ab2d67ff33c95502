"""Adapters, tools and configs together: how they are paged, and how free JSON is stored."""

import json
from uuid import uuid4

from tests.web.api.toolbox.toolbox import ADAPTERS, CONFIGS, TOOLS, create_adapter, create_tool, publish
from tests.web.conftest import Api, Service


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


async def test_lists_of_the_toolbox_are_paged(service: Service, api: Api, other: Api) -> None:
    adapters = [await create_adapter(api), await publish(service, await create_adapter(other))]
    tools = [await create_tool(api, adapters[0], name=name) for name in ("a", "b")]
    template = await api.create_template()
    configs = [
        await api.create(CONFIGS, template=template["id"], adapter=adapter["id"]) for adapter in adapters
    ]
    for path, items in ((ADAPTERS, adapters), (TOOLS, tools), (CONFIGS, configs)):
        first = await api.get(f"{path}?limit=1")
        assert (first.body, "Link" in first.headers) == ([items[1]], True)
        assert (await api.get(f"{path}?limit=1&after={items[1]['id']}")).body == [items[0]]
        assert (await api.get(f"{path}?offset=1")).body == [items[0]]
        assert list((await api.get(f"{path}?after={uuid4()}")).body) == ["after"]
