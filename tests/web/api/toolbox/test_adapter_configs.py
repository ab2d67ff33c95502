"""Adapter configs over HTTP: one for each template and adapter, and it fits the adapter's schema."""

from tests.web.api.toolbox.toolbox import CONFIGS, PORT, create_adapter, publish
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api, Service


async def test_config_must_fit_the_schema_of_its_adapter(api: Api) -> None:
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
        "secret_headers": {},
        "approval": None,
        "created_at": config["created_at"],
        "updated_at": config["created_at"],
    }
    path = f"{CONFIGS}{config['id']}/"
    answer = await api.patch(path, {"config": {"port": "x"}})
    assert (answer.status, answer.body) == wrong
    changed = (await api.patch(path, {"config": {"port": 2}, "adapter": UNKNOWN_ID})).body
    assert changed == {**config, "config": {"port": 2}, "updated_at": changed["updated_at"]}
    assert changed["updated_at"] > config["updated_at"]
    assert (await api.patch(path, {})).body == changed
    assert (await api.get(path)).body == changed


async def test_template_has_one_config_for_each_adapter(api: Api) -> None:
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
    assert (await api.get(f"{CONFIGS}?template={UNKNOWN_ID}")).body == []
    assert (await api.get(f"{CONFIGS}?template={theirs['id']}")).status == 403
    assert (await other.get(f"{CONFIGS}?adapter={adapter['id']}")).status == 403


async def test_unreadable_config_is_shown_as_null_replaced_and_deleted(service: Service, api: Api) -> None:
    adapter, template = await create_adapter(api), await api.create_template()
    config = await api.create(CONFIGS, template=template["id"], adapter=adapter["id"], config={"a": 1})
    path, broken = (
        f"{CONFIGS}{config['id']}/",
        "UPDATE adapter_config SET config = '\"hostsvc:1:0123abcd:A\"'",
    )
    await service.storage.pool.execute(broken)
    assert (await api.get(CONFIGS)).body == [{**config, "config": None}]
    assert (await api.patch(path, {"config": {"a": 2}})).body["config"] == {"a": 2}
    assert (await api.get(path)).body["config"] == {"a": 2}
    await service.storage.pool.execute(broken)
    assert (await api.delete(path)).status == 204
