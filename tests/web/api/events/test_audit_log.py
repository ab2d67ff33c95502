import asyncio
from functools import partial
from typing import Any

import pytest

from storage.events.audit_chain import verify
from storage.model import Role
from supervisors.clock import SystemClock
from tests.web.conftest import Answer, Api, Service
from tests.web.people import founder, staff

LOG = "/api/organizations/audit-log/"
EXPORT = f"{LOG}export/"
SECRET = "swordfish-in-clear"


async def chained(service: Service) -> None:
    await service.storage.audit_log.chain_all(partial(SystemClock().sleep, 0.01))


async def listed(service: Service, api: Api, **query: str) -> Any:
    await chained(service)
    answer = await api.get(LOG, params=query)
    assert answer.status == 200, answer
    return answer.body


async def test_log_tells_who_deleted_a_template(service: Service, api: Api) -> None:
    template = await api.create_template(name="Clerk")
    await api.patch(f"/api/templates/{template['id']}/", {"name": "Boss", "tool_call_secret": SECRET})
    await api.delete(f"/api/templates/{template['id']}/")
    deleted, changed, created = await listed(service, api, resource_id=template["id"])
    assert (deleted["resource"], deleted["action"]) == ("template", "deleted")
    assert deleted["data"] == {"name": "Boss"}
    assert changed["data"] == {"name": "Boss", "fields": ["name", "tool_call_secret"]}
    assert created["action"] == "created"
    [key] = await service.storage.pool.fetch("SELECT id FROM api_key")
    assert deleted["by"] == {"type": "key", "id": str(key["id"])}
    assert deleted["address"] == "127.0.0.1"


async def test_actions_on_agents_have_caller_and_address(service: Service, api: Api) -> None:
    agent = await api.create_agent(debounce_window_seconds=600)
    await api.create_notification(agent, priority="high", source="sms")  # holds
    for action in ("stop", "pause", "resume", "archive", "restore"):
        body = {"action": action, "agents": [agent["id"]]}
        assert (await api.post("/api/cloud/agents/actions/", body)).body["changed"] == 1, action
    entries = await listed(service, api, resource="agent")
    actions = [entry["action"] for entry in entries]
    assert actions == ["restored", "archived", "unpaused", "paused", "stopped", "created"]
    assert {(entry["by"]["type"], entry["address"]) for entry in entries} == {("key", "127.0.0.1")}


@pytest.mark.parametrize("collection", ["/api/cloud/agents/", "/api/templates/"])
async def test_reverted_prompt_is_an_entry(service: Service, api: Api, collection: str) -> None:
    owner = await api.create(collection, name="Ann", model="builtin/inbox", system_prompt="Be kind.")
    path = f"{collection}{owner['id']}/"
    await api.patch(path, {"system_prompt": "Be strict."})
    assert (await api.post(f"{path}prompts/1/revert/")).status == 200
    reverted, *_ = await listed(service, api, resource_id=owner["id"])
    assert (reverted["action"], reverted["data"]["fields"]) == ("changed", ["system_prompt"])
    assert (reverted["by"]["type"], reverted["address"]) == ("key", "127.0.0.1")


async def test_filters_select_entries(service: Service, api: Api) -> None:
    template = await api.create_template()
    agent = await api.create_agent()
    await api.delete(f"/api/templates/{template['id']}/")
    for query, expected in (
        ({"resource": "agent"}, ["created"]),
        ({"resource": "template", "action": "deleted"}, ["deleted"]),
        ({"actor": "operator"}, []),
        ({"resource_id": agent["id"]}, ["created"]),
        ({"created_before": "2020-01-01T00:00:00Z"}, []),
    ):
        assert [entry["action"] for entry in await listed(service, api, **query)] == expected, query
    [agent_entry] = await listed(service, api, resource="agent")
    assert agent_entry["address"] == "127.0.0.1"


async def test_pages_follow_each_other(service: Service, api: Api) -> None:
    for name in "abc":
        await api.create_template(name=name)
    first = await listed(service, api, resource="template", limit="2")
    rest = await listed(service, api, resource="template", after=first[-1]["id"])
    assert [entry["data"]["name"] for entry in first + rest] == ["c", "b", "a"]


async def test_members_see_neither_list_nor_export(service: Service) -> None:
    _, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    for path in (LOG, EXPORT):
        assert (await member.get(path)).status == 403


async def test_other_organizations_are_not_shown(service: Service, api: Api) -> None:
    await api.create_template()
    other = await service.new_organization()
    assert {entry["resource"] for entry in await listed(service, other)} == {
        *("organization", "membership", "api_key"),
    }


async def test_export_is_verified_and_recorded(service: Service, api: Api) -> None:
    await api.create_template(name="Größe")
    await chained(service)
    answer = await api.get(EXPORT)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    _, number, digest = verify(answer.body.splitlines())
    newest = (await listed(service, api))[0]
    assert (newest["resource"], newest["action"], newest["number"]) == ("audit_log", "exported", number + 1)
    again = (await api.get(EXPORT)).body.splitlines()
    assert verify(again, digest)[1] == number + 1
    assert SECRET not in "".join(again)


async def test_streams_and_webhooks_do_not_show_entries(service: Service, api: Api) -> None:
    await api.create_template()
    types = {event["type"] for event in await events_of(api, "?after=0&limit=100")}
    assert types == set()
    assert (await api.get("/api/events/?type=audit&after=0&limit=5")).status == 400
    answer = await api.post("/api/organizations/webhooks/", {"url": "https://a.example/", "types": ["audit"]})
    assert answer.status == 400


async def events_of(api: Api, query: str) -> Any:
    answer: Answer = await api.get(f"/api/events/{query}")
    assert answer.status == 200, answer
    return answer.body["events"]


@pytest.mark.parametrize("password", ["right-password", "wrong-password"])
async def test_logins_are_entries_of_each_organization(service: Service, password: str) -> None:
    account = {"email": "ann@example.com", "password": "right-password"}
    signed_up = await service.nobody.create(
        "/api/organizations/auth/signup/", **account, organization_name="Acme"
    )
    for _ in range(3):
        await service.nobody.post("/api/organizations/auth/login/", {**account, "password": password})
    user = service.nobody.with_authorization(f"Token {signed_up['token']}")
    entries = await listed(service, user, resource="account")
    actions = [entry["action"] for entry in entries]
    if password == "right-password":
        assert actions == ["logged_in"] * 4
        assert {entry["by"]["id"] for entry in entries} == {signed_up["user"]["id"]}
    else:
        assert actions == ["login_refused", "logged_in"]  # of three refusals, one a minute
    assert {entry["address"] for entry in entries} == {"127.0.0.1"}
    for resource in ("organization", "membership"):
        [made] = await listed(service, user, resource=resource)
        assert made["by"] == {"type": "user", "id": signed_up["user"]["id"]}


async def test_writes_at_once_keep_their_actors(service: Service) -> None:
    apis = [await service.new_organization() for _ in range(5)]
    await asyncio.gather(*(api.create_template(name="x") for api in apis for _ in range(4)))
    for api in apis:
        me = (await api.get("/api/organizations/auth/me/")).body["api_key"]["id"]
        entries = await listed(service, api, resource="template")
        assert [entry["by"]["id"] for entry in entries] == [me] * 4
