"""Secrets in headers of tool calls: sent to the tool of the adapter, and found nowhere else."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.leaks import contents_by
from tests.receiver import Receiver, receiving
from tests.web.api.toolbox.toolbox import publish
from tests.web.conftest import Answer, Api, Service

SECRETS = "/api/organizations/secrets/"
CONFIGS = "/api/toolbox/adapter-configs/"
VALUE = "Bearer sk-live-0123456789"
HEADERS = {"Authorization": "CRM_KEY", "X-Unit": "UNIT"}


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


async def create_tool(api: Api, url: str, handler: str = "") -> Any:
    """Create an adapter with one tool, and return the adapter."""
    adapter = await api.create("/api/toolbox/adapters/", name="CRM")
    await api.create("/api/toolbox/tools/", adapter=adapter["id"], name="look_up", url=url, handler=handler)
    return adapter


async def agent_with(api: Api, adapter: Any, **headers: str) -> tuple[Any, Any]:
    """Create a template whose config names these headers. Return it and an agent of it."""
    template = await api.create_template()
    body = {"template": template["id"], "adapter": adapter["id"], "config": {"unit": "K"}}
    config = await api.create(CONFIGS, **body, secret_headers=headers)
    assert config["secret_headers"] == headers
    return template, await api.create_agent(adapters=[adapter["id"]], template=template["id"])


async def call(api: Api, agent: Any) -> Answer:
    return await api.post(f"/api/cloud/agents/{agent['id']}/tools/look_up/", {"city": "Graz"})


async def test_named_secrets_are_headers_of_the_call(service: Service, api: Api, server: Receiver) -> None:
    template, agent = await agent_with(api, await create_tool(api, server.url), **HEADERS)
    await api.create(SECRETS, name="CRM_KEY", value=VALUE)
    await api.create(SECRETS, name="UNIT", value="of all")
    await api.create(f"/api/templates/{template['id']}/secrets/", name="UNIT", value="of the template")

    assert (await call(api, agent)).status == 200
    [received] = server.requests
    assert received.headers["Authorization"] == VALUE
    assert received.headers["X-Unit"] == "of the template"
    assert received.data["config"] == {"unit": "K"}
    assert VALUE.encode() not in received.body
    rows = await contents_by(service.storage.pool)
    assert "execute_tool look_up" in rows
    assert VALUE not in rows


async def test_changed_headers_and_values_apply_to_the_next_call(api: Api, server: Receiver) -> None:
    template, agent = await agent_with(api, await create_tool(api, server.url), Authorization="CRM_KEY")
    secret = await api.create(SECRETS, name="CRM_KEY", value=VALUE)
    [config] = (await api.get(f"{CONFIGS}?template={template['id']}")).body
    await call(api, agent)
    await api.patch(f"{SECRETS}{secret['id']}/", {"value": "changed"})
    await call(api, agent)
    changed = await api.patch(f"{CONFIGS}{config['id']}/", {"secret_headers": {"X-Key": "CRM_KEY"}})
    assert changed.body["config"] == {"unit": "K"}
    await call(api, agent)
    assert [sent.headers.get("Authorization") for sent in server.requests] == [VALUE, "changed", None]
    assert server.requests[2].headers["X-Key"] == "changed"


async def test_missing_secret_fails_the_call_before_it_is_sent(api: Api, server: Receiver) -> None:
    _, agent = await agent_with(api, await create_tool(api, server.url), **HEADERS)
    await api.create(SECRETS, name="UNIT", value="K")
    answer = await call(api, agent)
    message = "The tool was not called: the adapter config names a secret that does not exist: CRM_KEY."
    assert (answer.status, answer.body) == (400, {"error": {"code": "secret_missing", "message": message}})
    assert server.requests == []


@pytest.mark.parametrize("value", ["sk-live\r\nHost: evil", "sk-live\n", " sk-live", "schlüssel", "x" * 8193])
async def test_value_that_is_no_header_is_not_sent(api: Api, server: Receiver, value: str) -> None:
    _, agent = await agent_with(api, await create_tool(api, server.url), Authorization="CRM_KEY")
    await api.create(SECRETS, name="CRM_KEY", value=value)
    answer = await call(api, agent)
    assert (answer.status, answer.body["error"]["code"]) == (400, "secret_unusable")
    assert "must be one line of at most 8192 visible ASCII" in answer.body["error"]["message"]
    assert "sk-live" not in answer.body["error"]["message"]
    assert server.requests == []


async def test_secret_of_another_organization_is_not_used(
    service: Service, api: Api, other: Api, server: Receiver
) -> None:
    adapter = await publish(service, await create_tool(other, server.url))
    _, agent = await agent_with(api, adapter, Authorization="CRM_KEY")
    await other.create(SECRETS, name="CRM_KEY", value=VALUE)
    assert (await call(api, agent)).body["error"]["code"] == "secret_missing"
    await api.create(SECRETS, name="CRM_KEY", value="ours")
    await call(api, agent)
    assert [sent.headers["Authorization"] for sent in server.requests] == ["ours"]


@pytest.mark.parametrize("status", [200, 500])
async def test_answer_that_repeats_the_secret_is_stored_without_it(
    service: Service, api: Api, server: Receiver, status: int
) -> None:
    async def echo(request: web.Request) -> web.Response:
        scheme, key = request.headers["Authorization"].split()
        return web.json_response({"scheme": scheme, "key": key}, status=status)

    server.answer = echo
    _, agent = await agent_with(api, await create_tool(api, server.url), Authorization="CRM_KEY")
    await api.create(SECRETS, name="CRM_KEY", value=VALUE)
    answer = await call(api, agent)
    assert "[secret]" in str(answer.body)
    assert "sk-live" not in str(answer.body)
    assert "sk-live" not in await contents_by(service.storage.pool)


async def test_channel_tool_gets_the_headers_as_well(api: Api, server: Receiver) -> None:
    _, agent = await agent_with(
        api, await create_tool(api, server.url, "channel:sms"), Authorization="CRM_KEY"
    )
    await api.create(SECRETS, name="CRM_KEY", value=VALUE)
    contact = await api.create("/api/defaults/contacts/", name="Grace", phone="+43 1 234", agent=agent["id"])
    path = f"/api/cloud/agents/{agent['id']}/tools/send_sms/"
    answer = await api.post(path, {"contact_id": contact["id"], "body": "Hello"})
    assert answer.status == 200, answer.body
    assert server.requests[0].headers["Authorization"] == VALUE
