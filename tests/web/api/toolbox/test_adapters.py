"""Adapters over HTTP: private to their organization until an operator publishes them."""

from typing import Any

import pytest

from tests.web.api.toolbox.toolbox import (
    ADAPTERS,
    CONFIGS,
    OUTSIDE,
    TOOLS,
    create_adapter,
    create_tool,
    publish,
)
from tests.web.conftest import Api, Service


@pytest.mark.parametrize(
    ("schema", "messages"),
    [
        ({"$ref": "http://127.0.0.1:9/x"}, OUTSIDE),
        ({"$ref": "#/nowhere"}, ["$: Pointer '/nowhere' does not exist"]),
        ({"pattern": "("}, ['$.pattern: "(" is not a "regex"']),
    ],
)
async def test_schema_that_no_config_can_be_checked_by_is_refused(
    api: Api, schema: Any, messages: list[str]
) -> None:
    adapter = await create_adapter(api)
    for answer in (
        await api.patch(f"{ADAPTERS}{adapter['id']}/", {"config_schema": schema}),
        await api.post(ADAPTERS, {"name": "Mail", "config_schema": schema}),
    ):
        assert (answer.status, answer.body) == (400, {"config_schema": messages})


async def test_public_adapter_is_readable_by_all_and_writable_by_owner(
    service: Service, api: Api, other: Api
) -> None:
    private, adapter = await create_adapter(api), await create_adapter(api)
    tool, hidden = await create_tool(api, adapter), await create_tool(api, private)
    for path in (f"{ADAPTERS}{adapter['id']}/", f"{TOOLS}{tool['id']}/"):
        assert (await other.get(path)).status == 403
    assert (await other.get(ADAPTERS)).body == []
    assert (await other.get(f"{TOOLS}?adapter={adapter['id']}")).status == 403

    public = await publish(service, adapter)

    own = await create_adapter(other)
    assert (await other.get(ADAPTERS)).body == [own, public]
    assert (await other.get(f"{ADAPTERS}?visibility=public")).body == [public]
    assert (await other.get(f"{ADAPTERS}?visibility=private")).body == [own]
    assert (await other.get(f"{ADAPTERS}{adapter['id']}/")).body == public
    assert (await api.get(ADAPTERS)).body == [public, private]
    assert (await other.get(TOOLS)).body == [tool]
    assert (await other.get(f"{TOOLS}?adapter={adapter['id']}")).body == [tool]
    assert (await api.get(TOOLS)).body == [hidden, tool]
    agent = await other.create_agent(adapters=[adapter["id"]])
    assert agent["adapters"] == [adapter["id"]]

    for answer in (
        await other.patch(f"{ADAPTERS}{adapter['id']}/", {"name": "Mine"}),
        await other.delete(f"{ADAPTERS}{adapter['id']}/"),
        await other.post(TOOLS, {"adapter": adapter["id"], "name": "mine"}),
        await other.patch(f"{TOOLS}{tool['id']}/", {"name": "mine"}),
        await other.delete(f"{TOOLS}{tool['id']}/"),
    ):
        assert answer.status == 403
    assert (await api.patch(f"{ADAPTERS}{adapter['id']}/", {"name": "Ours"})).body["name"] == "Ours"


async def test_deleting_an_adapter_deletes_tools_and_configs_but_no_agent(api: Api) -> None:
    adapter, other_adapter = await create_adapter(api), await create_adapter(api)
    tool = await create_tool(api, adapter)
    template = await api.create_template()
    config = await api.create(CONFIGS, template=template["id"], adapter=adapter["id"])
    agent = await api.create_agent(adapters=[adapter["id"], other_adapter["id"]])

    assert (await api.delete(f"{ADAPTERS}{adapter['id']}/")).status == 204

    gone = (f"{ADAPTERS}{adapter['id']}/", f"{TOOLS}{tool['id']}/", f"{CONFIGS}{config['id']}/")
    for path in gone:
        assert (await api.get(path)).status == 404
        assert (await api.delete(path)).status == 404
    assert (await api.get(f"/api/cloud/agents/{agent['id']}/")).body["adapters"] == [other_adapter["id"]]
