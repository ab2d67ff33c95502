"""Adapters over HTTP: private to their organization until an operator publishes them."""

from typing import Any

from tests.web.api.toolbox.toolbox import (
    ADAPTERS,
    CONFIGS,
    OUTSIDE,
    PORT,
    TOOLS,
    create_adapter,
    create_tool,
    publish,
)
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api, Service

ADAPTER_LIMITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": " "}, ["This field may not be blank."]),
    ({"name": "x" * 256}, ["Ensure this field has no more than 255 characters."]),
    ({"detail_url": "ftp://x"}, ["Enter a valid URL."]),
    ({"detail_url": "http://x.io/" + "x" * 200}, ["Ensure this field has no more than 200 characters."]),
    ({"config_schema": None}, ["This field may not be null."]),
    ({"config_schema": []}, ['Expected a dictionary of items but got type "list".']),
    ({"config_schema": True}, ['Expected a dictionary of items but got type "bool".']),
    ({"config_schema": {"$ref": "http://127.0.0.1:9/x"}}, OUTSIDE),
    ({"config_schema": {"$ref": "#/nowhere"}}, ["$: Pointer '/nowhere' does not exist"]),
    ({"config_schema": {"pattern": "("}}, ['$.pattern: "(" is not a "regex"']),
]


async def test_adapter_is_created_private_and_can_be_changed(api: Api) -> None:
    template = await api.create_template()
    created = await create_adapter(api, visibility="public", organization_id=UNKNOWN_ID, config_schema=PORT)
    assert created == {
        "id": created["id"],
        "name": "Mail",
        "description": "",
        "visibility": "private",
        "organization_id": template["organization"],
        "created_at": created["created_at"],
        "detail_url": "",
        "config_schema": PORT,
    }
    path = f"{ADAPTERS}{created['id']}/"
    assert (await api.get(path)).body == created
    changes = {"description": " Letters. ", "config_schema": {}}
    changed = await api.patch(path, {**changes, "visibility": "public"})
    assert (changed.status, changed.body) == (200, {**created, **changes})
    assert (await api.patch(path, {})).body == changed.body


async def test_adapter_fields_have_limits(api: Api) -> None:
    adapter = await create_adapter(api)
    for changes, messages in ADAPTER_LIMITS:
        expected = (400, dict.fromkeys(changes, messages))
        answer = await api.patch(f"{ADAPTERS}{adapter['id']}/", changes)
        assert (answer.status, answer.body) == expected
        answer = await api.post(ADAPTERS, {"name": "Mail", **changes})
        assert (answer.status, answer.body) == expected


async def test_adapter_form_holds_its_schema_as_json(api: Api) -> None:
    form = {"name": "Mail", "config_schema": '{"type": "object"}'}
    answer = await api.request("POST", ADAPTERS, data=form)
    assert (answer.status, answer.body["config_schema"]) == (201, {"type": "object"})


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
