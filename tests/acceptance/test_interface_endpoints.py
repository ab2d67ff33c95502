"""Each endpoint of the interface, by method and path: its requests, its responses and its effects.

It is one long file, in the order of the interface.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from tests.acceptance.client import Client, Json
from tests.acceptance.process import Launch
from tests.acceptance.services import Services
from tests.acceptance.shapes import (
    ADAPTER,
    AGENT,
    API_KEY,
    NOTIFICATION,
    PAGINATION,
    SPAN,
    TEMPLATE,
    TOOL,
    TRACE,
    TRACE_ITEM,
    USAGE,
    check,
)
from tests.leaks import PASSWORD
from tests.postgres import TestServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("interface_endpoints")]

AGENTS = "/api/cloud/agents/"
TEMPLATES = "/api/templates/"
ADAPTERS = "/api/toolbox/adapters/"
TOOLS = "/api/toolbox/tools/"
TRACES = "/api/tracing/traces/"
API_KEYS = "/api/organizations/api-keys/"
NOTIFICATIONS = "/api/defaults/notifications/"
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


@dataclass(frozen=True)
class Caller:
    """A client with one credential that checks the status of each response."""

    client: Client

    async def ask(self, method: str, path: str, expected: int, body: Any = None, **query: Any) -> Any:
        authorization = self.client.authorization
        headers = {"Authorization": authorization} if authorization else {}
        async with self.client.session.request(
            method, self.client.url + path, json=body, params=query, headers=headers
        ) as response:
            assert response.status == expected, f"{response.status}: {await response.text()}"
            return await response.json() if expected != 204 else await response.read()

    async def get(self, path: str, **query: Any) -> Any:
        return await self.ask("GET", path, 200, **query)

    async def create(self, path: str, **body: Any) -> Any:
        return await self.ask("POST", path, 201, body)

    async def patch(self, path: str, **body: Any) -> Any:
        return await self.ask("PATCH", path, 200, body)

    async def new_agent(self, **fields: Any) -> Any:
        return await self.create(AGENTS, **{"name": "Clerk", "model": "builtin/inbox", **fields})

    async def new_trace(self, **fields: Any) -> Any:
        agent = await self.new_agent()
        return await self.create(TRACES, agent=agent["id"], name="by hand", **fields)

    async def notify(self, agent: Json, **fields: Any) -> Any:
        body = {"agent": agent["id"], "title": "Hello", "priority": "low", **fields}
        return await self.create(NOTIFICATIONS, **body)

    async def call_tool(self, agent: Json, name: str, **parameters: Any) -> Any:
        path = f"{AGENTS}{agent['id']}/tools/{name}/"
        return (await self.ask("POST", path, 200, parameters))["result"]

    def with_authorization(self, authorization: str) -> "Caller":
        return Caller(Client(self.client.session, self.client.url, authorization))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nobody(
    postgres_server: TestServer, template_database: str, launch: Launch
) -> AsyncIterator[Caller]:
    """A caller without a credential, of a service that all tests here share."""
    directory = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    with postgres_server.database(template_database) as url:
        services = Services(directory, {"url": url}, launch)
        service = await services.start()
        async with aiohttp.ClientSession() as session:
            yield Caller(Client(session, service.url))
        await services.close()
    shutil.rmtree(directory)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def portal(nobody: Caller) -> Caller:
    """A user with a token."""
    account = await sign_up(nobody)
    return nobody.with_authorization(f"Token {account['token']}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(portal: Caller) -> Caller:
    """A program with an API key of the user's organization."""
    key = await portal.create(API_KEYS, name="tests")
    return portal.with_authorization(f"Bearer {key['key']}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stranger(nobody: Caller) -> Caller:
    """A user of another organization."""
    account = await sign_up(nobody)
    return nobody.with_authorization(f"Token {account['token']}")


async def sign_up(nobody: Caller) -> Any:
    email = f"{uuid4().hex}@example.org"
    return await nobody.create(
        "/api/organizations/auth/signup/", email=email, password=PASSWORD, organization_name="Example"
    )


def ids(items: list[Json]) -> set[str]:
    return {item["id"] for item in items}


async def test_get_agents(api: Caller) -> None:
    tagged = await api.new_agent(tags=["red", "round"], purpose="eval")
    half = await api.new_agent(tags=["red"])
    archived = await api.new_agent(status="archived")
    template = await api.create(TEMPLATES, name="T")
    derived = await api.new_agent(template=template["id"])
    found = await api.get(AGENTS)
    assert {tagged["id"], half["id"], derived["id"]} <= ids(found)
    assert archived["id"] not in ids(found)
    for agent in found:
        check(agent, AGENT)
    assert archived["id"] in ids(await api.get(AGENTS, include_archived="true"))
    assert ids(await api.get(AGENTS, organization=tagged["organization"])) == ids(found)
    assert ids(await api.get(AGENTS, purpose="eval")) == {tagged["id"]}
    assert ids(await api.get(AGENTS, tag=["red", "round"])) == {tagged["id"]}
    assert ids(await api.get(AGENTS, template=template["id"])) == {derived["id"]}


async def test_post_agents(api: Caller) -> None:
    adapter = await api.create(ADAPTERS, name="Calendar")
    parent = await api.new_agent(name="Head")
    template = await api.create(TEMPLATES, name="Desk")
    sent = {
        "adapters": [adapter["id"]],
        "template": template["id"],
        "tags": ["a"],
        "name": "Clerk",
        "model": "builtin/inbox",
        "timezone": "Europe/Vienna",
        "system_prompt": "Be kind.",
        "email_alias": f"clerk-{uuid4().hex}",
        "max_turns": -1,
        "max_sleep_hours": 8,
        "harness_git_ref": "main",
        "reasoning_effort": "low",
        "debounce_window_seconds": 5,
        "call_voice_id": "x",
        "purpose": "dev",
        "parent": parent["id"],
    }
    read_only = {"id": NOBODY, "organization": NOBODY, "parent_name": "x", "template_name": "x"}
    created = await api.create(AGENTS, **sent, **read_only, created_at="2000-01-01T00:00:00Z")
    check(created, AGENT)
    assert {name: created[name] for name in sent} == sent
    assert (created["parent_name"], created["template_name"]) == ("Head", "Desk")
    assert NOBODY not in created.values()
    required = ["This field is required."]
    assert await api.ask("POST", AGENTS, 400, {"model": "builtin/inbox"}) == {"name": required}
    assert await api.ask("POST", AGENTS, 400, {"name": "Clerk"}) == {"model": required}


async def test_get_agent(api: Caller, stranger: Caller) -> None:
    created = await api.new_agent()
    path = f"{AGENTS}{created['id']}/"
    shown = await api.get(path)
    check(shown, AGENT)
    assert shown == created
    await stranger.ask("GET", path, 403)


async def test_patch_agent(api: Caller) -> None:
    created = await api.new_agent(tags=["a"], max_sleep_hours=8)
    changes: Json = {
        "name": "Chief",
        "tags": [],
        "max_sleep_hours": None,
        "sleep_until": None,
        "max_turns": 2**31 - 1,
    }
    changed = await api.patch(f"{AGENTS}{created['id']}/", **changes, parent_name="ignored")
    check(changed, AGENT)
    assert changed == {**created, **changes}
    too_many = {"max_turns": ["Ensure this value is less than or equal to 2147483647."]}
    assert await api.ask("PATCH", f"{AGENTS}{created['id']}/", 400, {"max_turns": 2**31}) == too_many


async def test_post_agent_run(api: Caller) -> None:
    agent = await api.new_agent()
    answer = await api.ask("POST", f"{AGENTS}{agent['id']}/run/", 200, {"wakeup": True})
    assert answer["status"] in {"started", "queued"}
    ended = await api.client.ended_run(agent["id"])
    assert (ended["wake_reason"], ended["outcome"]) == ("run_requested", "slept")
    asleep = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    await api.patch(f"{AGENTS}{agent['id']}/", sleep_until=asleep)
    left_asleep = await api.ask("POST", f"{AGENTS}{agent['id']}/run/", 200, {"wakeup": False})
    assert left_asleep["status"] == "sleeping"


async def test_get_agent_usage(api: Caller) -> None:
    agent = await api.new_agent(name="Counted")
    path = f"{AGENTS}{agent['id']}/usage/"
    for occurred_at in ("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"):
        counts = {"input_tokens": 10, "output_tokens": 3, "cached_tokens": 4, "cost_usd": 0.25}
        await api.create(path, model="acme/one", occurred_at=occurred_at, **counts)
    usage = await api.get(path, start_date="2026-03-01T00:00:00Z", end_date="2026-03-02T00:00:00Z")
    check(usage, USAGE)
    sums = {
        "input_tokens": 10,
        "output_tokens": 3,
        "cached_tokens": 4,
        "total_cost_usd": 0.25,
        "llm_calls": 1,
        "priced": True,
    }
    assert {name: usage[name] for name in sums} == sums == usage["model_breakdown"]["acme/one"]
    assert (usage["agent_id"], usage["agent_name"]) == (agent["id"], "Counted")
    assert usage["start_date"] == "2026-03-01T00:00:00.000000Z"
    check(await api.get(path), USAGE)


async def test_post_templates(api: Caller, portal: Caller) -> None:
    sent = {
        "name": "Desk",
        "description": "What a desk does",
        "system_prompt": "Be kind.",
        "default_model": "builtin/inbox",
        "default_reasoning_effort": "xhigh",
        "thinking_max_tokens": 1,
        "max_turns": 2,
        "debounce_window_seconds": 3,
        "harness_git_ref": "main",
        "agent_created_webhook_url": "https://example.org/created",
        "tool_call_secret": "shared",
    }
    for caller in (api, portal):
        created = await caller.create(TEMPLATES, **sent)
        check(created, TEMPLATE)
        assert {name: created[name] for name in sent} == sent
    blank = {"name": ["This field may not be blank."]}
    assert await api.ask("POST", TEMPLATES, 400, {"name": ""}) == blank


async def test_get_template(api: Caller, stranger: Caller) -> None:
    created = await api.create(TEMPLATES, name="Desk")
    shown = await api.get(f"{TEMPLATES}{created['id']}/")
    check(shown, TEMPLATE)
    assert shown == created
    await stranger.ask("GET", f"{TEMPLATES}{created['id']}/", 403)


async def test_patch_template(api: Caller) -> None:
    created = await api.create(TEMPLATES, name="Desk", max_turns=3)
    changes = {"name": "x" * 255, "max_turns": 0, "default_reasoning_effort": "low"}
    changed = await api.patch(f"{TEMPLATES}{created['id']}/", **changes)
    check(changed, TEMPLATE)
    assert changed == {**created, **changes}


async def test_post_adapters(api: Caller) -> None:
    sent = {
        "name": "Calendar",
        "description": "Dates",
        "detail_url": "https://example.org/calendar",
        "config_schema": {"type": "object", "required": ["zone"]},
    }
    created = await api.create(ADAPTERS, **sent, visibility="public", organization_id=NOBODY)
    check(created, ADAPTER)
    assert {name: created[name] for name in sent} == sent
    assert created["visibility"] == "private"
    assert created["organization_id"] != NOBODY


async def test_get_adapter(api: Caller, stranger: Caller) -> None:
    created = await api.create(ADAPTERS, name="Calendar")
    shown = await api.get(f"{ADAPTERS}{created['id']}/")
    check(shown, ADAPTER)
    assert shown == created
    await stranger.ask("GET", f"{ADAPTERS}{created['id']}/", 403)


async def test_patch_adapter(api: Caller) -> None:
    created = await api.create(ADAPTERS, name="Calendar")
    changes = {"name": "Diary", "description": "Days", "config_schema": {"type": "object"}}
    changed = await api.patch(f"{ADAPTERS}{created['id']}/", **changes)
    check(changed, ADAPTER)
    assert changed == {**created, **changes}


async def test_post_tools(api: Caller) -> None:
    adapter = await api.create(ADAPTERS, name="Calendar")
    sent = {
        "adapter": adapter["id"],
        "name": "book",
        "description": "Books a date",
        "parameters": {"type": "object", "properties": {"day": {"type": "string"}}},
        "url": "https://example.org/book",
        "handler": "book",
        "detail_url": "https://example.org/about",
    }
    created = await api.create(TOOLS, **sent)
    check(created, TOOL)
    assert {name: created[name] for name in sent} == sent


async def test_get_tool(api: Caller, stranger: Caller) -> None:
    adapter = await api.create(ADAPTERS, name="Calendar")
    created = await api.create(TOOLS, adapter=adapter["id"], name="book", parameters=None)
    shown = await api.get(f"{TOOLS}{created['id']}/")
    check(shown, TOOL)
    assert shown == created
    await stranger.ask("GET", f"{TOOLS}{created['id']}/", 403)


async def test_get_trace(api: Caller, stranger: Caller) -> None:
    trace = await api.new_trace(metadata={"a": [1]})
    root = await api.create("/api/tracing/spans/", trace=trace["id"], name="root", metadata={"large": "x"})
    await api.create("/api/tracing/spans/", trace=trace["id"], name="leaf", parent=root["id"])
    shown = await api.get(f"{TRACES}{trace['id']}/")
    check(shown, TRACE)
    assert shown["total_spans"] == len(shown["spans"]) == 2
    for span in shown["spans"]:
        check(span, SPAN)
        assert "metadata" not in span
    assert {span["parent"] for span in shown["spans"]} == {None, root["id"]}
    await stranger.ask("GET", f"{TRACES}{trace['id']}/", 403)


async def test_post_trace_end(api: Caller) -> None:
    trace = await api.new_trace(started_at="2026-03-01T00:00:00Z")
    sent = {
        "name": "done",
        "agent": trace["agent"],
        "ended_at": "2026-03-01T00:01:00.000000Z",
        "error": "lost",
        "metadata": {"a": 1},
    }
    ended = await api.ask("POST", f"{TRACES}{trace['id']}/end/", 200, sent)
    check(ended, TRACE)
    assert {name: ended[name] for name in sent} == sent
    assert "spans" not in ended


async def test_get_traces_list(api: Caller) -> None:
    trace = await api.new_trace()
    await api.new_trace()
    [page] = await api.get(f"{TRACES}list/", agent=trace["agent"])
    assert page.keys() == {"results", "pagination"}
    check(page["pagination"], PAGINATION)
    assert (page["pagination"]["total_count"], page["pagination"]["has_more"]) == (1, False)
    [item] = page["results"]
    check(item, TRACE_ITEM)
    assert item["id"] == trace["id"]


async def test_post_api_keys(api: Caller, portal: Caller) -> None:
    for caller in (api, portal):
        created = await caller.create(API_KEYS, name="machine", is_active=False)
        check(created, API_KEY)
        assert (created["name"], created["is_active"]) == ("machine", False)
        await caller.with_authorization(f"Bearer {created['key']}").ask("GET", AGENTS, 401)
    active = await api.create(API_KEYS, name="machine")
    await api.with_authorization(f"Bearer {active['key']}").get(AGENTS)


async def test_get_api_keys(api: Caller) -> None:
    created = await api.create(API_KEYS, name="machine")
    found = await api.get(API_KEYS)
    assert created["id"] in ids(found)
    for key in found:
        check(key, API_KEY)
        assert "key" not in key


async def test_delete_api_key(api: Caller, stranger: Caller) -> None:
    created = await api.create(API_KEYS, name="machine")
    path = f"{API_KEYS}{created['id']}/"
    await stranger.ask("DELETE", path, 403)
    await api.ask("DELETE", path, 204)
    assert created["id"] not in ids(await api.get(API_KEYS))
    await api.with_authorization(f"Bearer {created['key']}").ask("GET", AGENTS, 401)


async def test_post_auth_signup(nobody: Caller) -> None:
    account = await sign_up(nobody)
    user = nobody.with_authorization(f"Token {account['token']}")
    [organization] = await user.get("/api/organizations/organizations/")
    assert organization["id"] == account["organization"]["id"]
    [membership] = await user.get("/api/organizations/memberships/")
    assert membership["user"]["id"] == account["user"]["id"]


async def test_post_auth_login(nobody: Caller) -> None:
    account = await sign_up(nobody)
    path, email = "/api/organizations/auth/login/", account["user"]["email"]
    answer = await nobody.ask("POST", path, 200, {"email": email, "password": PASSWORD})
    await nobody.with_authorization(f"Token {answer['token']}").get(AGENTS)
    await nobody.with_authorization(f"Bearer {answer['token']}").ask("GET", AGENTS, 401)
    await nobody.ask("POST", path, 401, {"email": email, "password": "wrong horse"})


async def test_post_invite_accept(nobody: Caller, portal: Caller) -> None:
    invite = await portal.create("/api/organizations/invites/", email=f"{uuid4().hex}@example.org")
    path = f"/api/organizations/invites/{invite['id']}/accept/"
    answer = await nobody.ask("POST", path, 200, {"code": invite["code"], "password": PASSWORD})
    invitee = nobody.with_authorization(f"Token {answer['token']}")
    assert ids(await invitee.get("/api/organizations/organizations/")) == {answer["organization"]["id"]}


async def test_get_organizations(api: Caller, portal: Caller, nobody: Caller) -> None:
    path = "/api/organizations/organizations/"
    [by_key] = await api.get(path)
    [by_token] = await portal.get(path)
    assert by_key == by_token
    refused = await nobody.ask("GET", path, 401)
    assert refused == {"detail": "Authentication credentials were not provided."}


async def test_get_notifications(api: Caller, portal: Caller, stranger: Caller) -> None:
    agent = await api.new_agent()
    low = await api.notify(agent, source="portal")
    cleared = await api.notify(agent, source="browser")
    await api.patch(f"{NOTIFICATIONS}{cleared['id']}/", cleared=True)
    later = await api.notify(agent, priority="high", scheduled_for="2100-01-01T00:00:00Z")
    for caller in (api, portal):
        found = await caller.get(NOTIFICATIONS, agent=agent["id"])
        assert ids(found) == {low["id"], cleared["id"], later["id"]}
        for notification in found:
            check(notification, NOTIFICATION)
    for query, expected in (
        ({"cleared": "true"}, {cleared["id"]}),
        ({"cleared": "false"}, {low["id"], later["id"]}),
        ({"priority": "high"}, {later["id"]}),
        ({"source": "portal"}, {low["id"]}),
    ):
        assert ids(await api.get(NOTIFICATIONS, agent=agent["id"], **query)) == expected
    await stranger.ask("GET", NOTIFICATIONS, 403, agent=agent["id"])


async def test_post_notifications(api: Caller) -> None:
    agent = await api.new_agent()
    low = await api.notify(agent, title="Hi", body="There", source="email", source_id=NOBODY)
    check(low, NOTIFICATION)
    assert (low["title"], low["body"], low["source"], low["source_id"]) == ("Hi", "There", "email", NOBODY)
    later = await api.notify(agent, priority="high", scheduled_for="2100-01-01T00:00:00Z")
    assert later["scheduled_for"] == "2100-01-01T00:00:00.000000Z"
    assert await api.client.runs(agent["id"]) == []
    high = await api.notify(agent, priority="high", scheduled_for=None)
    assert (await api.client.ended_run(agent["id"]))["notifications"] == [high["id"]]


async def test_patch_notification(api: Caller, stranger: Caller) -> None:
    created = await api.notify(await api.new_agent())
    path = f"{NOTIFICATIONS}{created['id']}/"
    changed = await api.patch(path, cleared=True)
    check(changed, NOTIFICATION)
    assert changed == {**created, "cleared": True, "cleared_at": changed["cleared_at"]}
    assert changed["cleared_at"] >= created["created_at"]
    await stranger.ask("PATCH", path, 403, {"cleared": False})


async def test_delete_notification(api: Caller, stranger: Caller) -> None:
    created = await api.notify(await api.new_agent())
    path = f"{NOTIFICATIONS}{created['id']}/"
    await stranger.ask("DELETE", path, 403)
    await api.ask("DELETE", path, 204)
    await api.ask("PATCH", path, 404, {"cleared": True})


async def test_list_notifications(api: Caller) -> None:
    agent = await api.new_agent()
    await asyncio.gather(*(api.notify(agent) for _ in range(101)))
    later = await api.notify(agent, priority="high", scheduled_for="2100-01-01T00:00:00Z")
    cleared = await api.notify(agent)
    await api.patch(f"{NOTIFICATIONS}{cleared['id']}/", cleared=True)
    found = await api.call_tool(agent, "list_notifications")
    assert len(found) == 50
    for notification in found:
        check(notification, NOTIFICATION)
        assert notification["cleared"] is False
    assert len(await api.call_tool(agent, "list_notifications", limit=1000)) == 100
    assert len(await api.call_tool(agent, "list_notifications", limit=7)) == 7
    everything = await api.call_tool(agent, "list_notifications", limit=100, include_cleared=True)
    assert later["id"] not in ids(everything)


async def test_list_notifications_include_cleared(api: Caller) -> None:
    agent = await api.new_agent()
    waiting, cleared = await api.notify(agent), await api.notify(agent)
    await api.patch(f"{NOTIFICATIONS}{cleared['id']}/", cleared=True)
    assert ids(await api.call_tool(agent, "list_notifications")) == {waiting["id"]}
    both = await api.call_tool(agent, "list_notifications", include_cleared=True)
    assert ids(both) == {waiting["id"], cleared["id"]}


async def test_clear_notification(api: Caller) -> None:
    agent = await api.new_agent()
    created = await api.notify(agent)
    await api.call_tool(agent, "clear_notification", notification_id=created["id"])
    [cleared] = await api.get(NOTIFICATIONS, agent=agent["id"])
    assert (cleared["cleared"], cleared["cleared_at"] is not None) == (True, True)
    path = f"{AGENTS}{agent['id']}/tools/clear_notification/"
    assert "notification_id" in str(await api.ask("POST", path, 400, {}))


async def test_create_notification(api: Caller) -> None:
    agent = await api.new_agent()
    created = await api.call_tool(agent, "create_notification", title="Call back")
    check(created, NOTIFICATION)
    assert (created["source"], created["priority"], created["body"]) == ("agent", "low", "")
    later = {"title": "Later", "body": "b", "priority": "high", "scheduled_for": "2100-01-01T00:00:00+01:00"}
    await api.call_tool(agent, "create_notification", **later)
    assert ids(await api.call_tool(agent, "list_notifications")) == {created["id"]}
    assert len(await api.get(NOTIFICATIONS, agent=agent["id"])) == 2
    await api.ask("POST", f"{AGENTS}{agent['id']}/tools/create_notification/", 400, {"body": "x"})
