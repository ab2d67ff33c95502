"""Adapters, their tools and their configs over HTTP."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from storage.ids import new_id
from tests.web.conftest import Api, Service

ADAPTERS = "/api/toolbox/adapters/"
TOOLS = "/api/toolbox/tools/"
CONFIGS = "/api/toolbox/adapter-configs/"
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"
UNKNOWN = [f'Invalid pk "{NOBODY}" - object does not exist.']
OUTSIDE = ["A $ref may not leave the document."]
PORT = {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}}}

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

TOOL_LIMITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": ""}, ["This field may not be blank."]),
    ({"name": "x" * 256}, ["Ensure this field has no more than 255 characters."]),
    ({"handler": "x" * 256}, ["Ensure this field has no more than 255 characters."]),
    ({"url": "nowhere"}, ["Enter a valid URL."]),
    ({"url": "http://x.io/" + "x" * 200}, ["Ensure this field has no more than 200 characters."]),
    ({"detail_url": "http://x.io/" + "x" * 200}, ["Ensure this field has no more than 200 characters."]),
    ({"parameters": {"properties": {"a": {"$ref": "other.json"}}}}, OUTSIDE),
    ({"parameters": ["\x00"]}, ["Null characters are not allowed."]),
]


async def create_adapter(api: Api, **body: Any) -> Any:
    return await api.create(ADAPTERS, **{"name": "Mail", **body})


async def create_tool(api: Api, adapter: Any, **body: Any) -> Any:
    return await api.create(TOOLS, **{"adapter": adapter["id"], "name": "send", **body})


async def publish(service: Service, adapter: Any) -> Any:
    assert await service.storage.adapters.publish(UUID(adapter["id"]))
    return {**adapter, "visibility": "public"}


async def test_an_adapter_is_created_private_and_changed(api: Api) -> None:
    template = await api.create_template()
    created = await create_adapter(api, visibility="public", organization_id=NOBODY, config_schema=PORT)
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


async def test_fields_of_adapters_have_their_limits(api: Api) -> None:
    adapter = await create_adapter(api)
    for changes, messages in ADAPTER_LIMITS:
        expected = (400, dict.fromkeys(changes, messages))
        answer = await api.patch(f"{ADAPTERS}{adapter['id']}/", changes)
        assert (answer.status, answer.body) == expected
        answer = await api.post(ADAPTERS, {"name": "Mail", **changes})
        assert (answer.status, answer.body) == expected


async def test_an_adapter_as_a_form_has_its_schema_as_json(api: Api) -> None:
    form = {"name": "Mail", "config_schema": '{"type": "object"}'}
    answer = await api.request("POST", ADAPTERS, data=form)
    assert (answer.status, answer.body["config_schema"]) == (201, {"type": "object"})


async def test_a_public_adapter_is_read_by_everyone_and_changed_by_its_owner(
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


async def test_a_blank_in_a_form_is_no_parameters(api: Api) -> None:
    adapter = await create_adapter(api)
    form = {"adapter": adapter["id"], "name": "lookup", "parameters": ""}
    answer = await api.request("POST", TOOLS, data=form)
    assert (answer.status, answer.body["parameters"]) == (201, None)
    answer = await api.request("POST", TOOLS, data={**form, "parameters": "{"})
    assert (answer.status, list(answer.body)) == (400, ["parameters"])


async def test_free_json_stays_as_it_was_sent_to_the_order_of_its_keys(api: Api) -> None:
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


async def test_the_lists_are_paged(service: Service, api: Api, other: Api) -> None:
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


async def test_a_deleted_adapter_takes_its_tools_and_configs_and_leaves_its_agents(api: Api) -> None:
    adapter, kept = await create_adapter(api), await create_adapter(api)
    tool = await create_tool(api, adapter)
    template = await api.create_template()
    config = await api.create(CONFIGS, template=template["id"], adapter=adapter["id"])
    agent = await api.create_agent(adapters=[adapter["id"], kept["id"]])

    assert (await api.delete(f"{ADAPTERS}{adapter['id']}/")).status == 204

    gone = (f"{ADAPTERS}{adapter['id']}/", f"{TOOLS}{tool['id']}/", f"{CONFIGS}{config['id']}/")
    for path in gone:
        assert (await api.get(path)).status == 404
        assert (await api.delete(path)).status == 404
    assert (await api.get(f"/api/cloud/agents/{agent['id']}/")).body["adapters"] == [kept["id"]]


@pytest.mark.parametrize("parameters", [None, PORT, {"type": "no type"}, ["anything"], "else", 7])
async def test_the_parameters_of_a_tool_are_any_json(api: Api, parameters: Any) -> None:
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
    }
    path = f"{TOOLS}{tool['id']}/"
    assert (await api.get(path)).body == tool
    changes = {"url": "https://example.com/send", "handler": "channel:email"}
    assert (await api.patch(path, changes)).body == {**tool, **changes}
    assert (await api.patch(path, {"parameters": None})).body["parameters"] is None
    assert (await api.delete(path)).status == 204
    assert (await api.get(path)).status == 404


async def test_fields_of_tools_have_their_limits(api: Api) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter)
    for changes, messages in TOOL_LIMITS:
        expected = (400, dict.fromkeys(changes, messages))
        answer = await api.patch(f"{TOOLS}{tool['id']}/", changes)
        assert (answer.status, answer.body) == expected
        answer = await api.post(TOOLS, {"adapter": adapter["id"], "name": "other", **changes})
        assert (answer.status, answer.body) == expected
    assert (await api.post(TOOLS, {"adapter": NOBODY, "name": "x"})).body == {"adapter": UNKNOWN}
    required = ["This field is required."]
    assert (await api.post(TOOLS, {})).body == {"adapter": required, "name": required}


async def test_an_adapter_has_one_tool_of_a_name(api: Api) -> None:
    adapter, second = await create_adapter(api), await create_adapter(api)
    await create_tool(api, adapter, name="send")
    call = await create_tool(api, adapter, name="call")
    await create_tool(api, second, name="send")
    taken = (400, {"non_field_errors": ["The fields adapter, name must make a unique set."]})
    answer = await api.post(TOOLS, {"adapter": adapter["id"], "name": " send "})
    assert (answer.status, answer.body) == taken
    answer = await api.patch(f"{TOOLS}{call['id']}/", {"name": "send"})
    assert (answer.status, answer.body) == taken


async def test_a_config_fits_the_schema_of_its_adapter(api: Api) -> None:
    adapter, template = await create_adapter(api, config_schema=PORT), await api.create_template()
    body = {"template": template["id"], "adapter": adapter["id"]}
    missing = (400, {"config": ['$: "port" is a required property']})
    wrong = (400, {"config": ['$.port: "x" is not of type "integer"']})
    for config, expected in (({}, missing), ({"port": "x"}, wrong)):
        answer = await api.post(CONFIGS, {**body, "config": config})
        assert (answer.status, answer.body) == expected
    config = await api.create(CONFIGS, **body, config={"port": 1})
    assert config == {
        "id": config["id"],
        **body,
        "config": {"port": 1},
        "created_at": config["created_at"],
        "updated_at": config["created_at"],
    }
    path = f"{CONFIGS}{config['id']}/"
    answer = await api.patch(path, {"config": {"port": "x"}})
    assert (answer.status, answer.body) == wrong
    changed = (await api.patch(path, {"config": {"port": 2}, "adapter": NOBODY})).body
    assert changed == {**config, "config": {"port": 2}, "updated_at": changed["updated_at"]}
    assert changed["updated_at"] > config["updated_at"]
    assert (await api.patch(path, {})).body == changed
    assert (await api.get(path)).body == changed


async def test_a_template_has_one_config_for_an_adapter(api: Api) -> None:
    adapter, template = await create_adapter(api), await api.create_template()
    body = {"template": template["id"], "adapter": adapter["id"]}
    config = await api.create(CONFIGS, **body)
    answer = await api.post(CONFIGS, body)
    message = "The fields template, adapter must make a unique set."
    assert (answer.status, answer.body) == (400, {"non_field_errors": [message]})
    assert (await api.delete(f"{CONFIGS}{config['id']}/")).status == 204
    await api.create(CONFIGS, **body)


async def test_configs_are_listed_by_template_and_adapter(service: Service, api: Api, other: Api) -> None:
    public = await publish(service, await create_adapter(other))
    adapter, template, second = await create_adapter(api), *[await api.create_template() for _ in range(2)]
    one = await api.create(CONFIGS, template=template["id"], adapter=adapter["id"])
    two = await api.create(CONFIGS, template=second["id"], adapter=public["id"])
    theirs = await other.create_template()
    await other.create(CONFIGS, template=theirs["id"], adapter=public["id"])

    assert (await api.get(CONFIGS)).body == [two, one]
    assert (await api.get(f"{CONFIGS}?template={template['id']}")).body == [one]
    assert (await api.get(f"{CONFIGS}?adapter={public['id']}")).body == [two]
    assert (await api.get(f"{CONFIGS}?template={NOBODY}")).body == []
    assert (await api.get(f"{CONFIGS}?template={theirs['id']}")).status == 403
    assert (await other.get(f"{CONFIGS}?adapter={adapter['id']}")).status == 403


async def test_configs_keep_to_their_organization(api: Api, other: Api) -> None:
    adapter, template = await create_adapter(api), await api.create_template()
    config = await api.create(CONFIGS, template=template["id"], adapter=adapter["id"])
    theirs, their_adapter = await other.create_template(), await create_adapter(other)
    for method in (other.get, other.patch, other.delete):
        assert (await method(f"{CONFIGS}{config['id']}/")).status == 403
    for body in (
        {"template": theirs["id"], "adapter": adapter["id"]},
        {"template": template["id"], "adapter": their_adapter["id"]},
    ):
        assert (await api.post(CONFIGS, body)).status == 403
    answer = await api.post(CONFIGS, {"template": NOBODY, "adapter": NOBODY})
    assert (answer.status, answer.body) == (400, {"template": UNKNOWN, "adapter": UNKNOWN})
    for path in (ADAPTERS, TOOLS, CONFIGS):
        assert (await api.get(f"{path}{new_id()}/")).status == 404
