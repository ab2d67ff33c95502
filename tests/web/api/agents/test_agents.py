"""Agents over HTTP: fields and their limits, references, filters, and fields of the supervisor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from supervisors.engine.messages import RunAnswer, RunRequest
from supervisors.settings import SupervisorSettings
from tests.web.conftest import Api, Service, StartService, in_phase, wake_reasons

AGENTS = "/api/cloud/agents/"
MESSAGES = "/api/defaults/messages/"


def path(agent: Any) -> str:
    return f"{AGENTS}{agent['id']}/"


async def test_changes_behind_a_lasting_lock_are_refused_and_succeed_later(
    service: Service, api: Api
) -> None:
    agent = await api.create_agent()
    requests: tuple[tuple[str, str, Any], ...] = (
        ("POST", AGENTS, {"name": "Bob", "model": "builtin/inbox", "parent": agent["id"]}),
        ("PATCH", path(agent), {"name": "Ann B."}),
        ("POST", MESSAGES, {"agent": agent["id"], "channel": "sms", "direction": "inbound", "body": "Hi"}),
        ("DELETE", path(agent), None),
    )
    async with service.storage.pool.transaction() as holder:
        await holder.execute("SELECT FROM agent WHERE id = $1 FOR UPDATE", UUID(agent["id"]))
        refused = await asyncio.gather(*(api.request(verb, at, json=body) for verb, at, body in requests))
    assert [(answer.status, answer.headers["Retry-After"]) for answer in refused] == [(503, "1")] * 4
    assert {answer.body["detail"] for answer in refused} == {
        "Another change to the same resource takes too long."
    }
    later = [(await api.request(verb, at, json=body)).status for verb, at, body in requests]
    assert later == [201, 200, 201, 204]


async def test_agent_has_defaults(api: Api) -> None:
    created = await api.create_agent()
    assert created == {
        "id": created["id"],
        "adapters": [],
        "organization": created["organization"],
        "template": None,
        "parent_name": "",
        "template_name": None,
        "tags": [],
        "name": "Ann",
        "model": "builtin/inbox",
        "created_at": created["created_at"],
        "timezone": "UTC",
        "system_prompt": "",
        "sleep_until": None,
        "email_alias": None,
        "status": "sleeping",
        "paused": False,
        "run_started_at": None,
        "last_wake_reason": "",
        "last_wake_interrupted_sleep_until": None,
        "max_turns": 0,
        "max_sleep_hours": None,
        "harness_git_ref": None,
        "reasoning_effort": "",
        "debounce_window_seconds": None,
        "call_voice_id": "",
        "purpose": "production",
        "parent": None,
        "max_cost_usd_per_day": None,
        "language": "",
        "unpriced": None,
        "max_wakes_per_hour": None,
        "max_wakes_per_day": None,
        "quiet_hours": None,
    }
    assert (await api.get(path(created))).body == created


async def test_every_writable_field_is_stored(api: Api) -> None:
    template, parent = await api.create_template(), await api.create_agent(name="Boss")
    body = {
        "template": template["id"],
        "tags": ["a", "b"],
        "name": "Bob",
        "model": "openai/gpt-4o",
        "timezone": "Europe/Berlin",
        "system_prompt": " Be kind. ",
        "email_alias": "Front.Desk+1",
        "max_turns": -1,
        "max_sleep_hours": 0,
        "harness_git_ref": "",
        "reasoning_effort": "xhigh",
        "debounce_window_seconds": 0,
        "call_voice_id": "v",
        "purpose": "eval",
        "parent": parent["id"],
        "max_cost_usd_per_day": 0.000001,
    }
    created = await api.create_agent(**body)
    assert {name: created[name] for name in body} == body
    assert (created["template_name"], created["parent_name"]) == ("Clerk", "Boss")
    changed = await api.patch(path(created), {"template": None, "parent": None, "email_alias": None})
    assert changed.body == {
        **created,
        "template": None,
        "template_name": None,
        "parent": None,
        "parent_name": "",
        "email_alias": None,
    }


async def test_model_may_come_from_the_template(api: Api) -> None:
    template = await api.create_template(default_model="openai/gpt-4o")
    answer = await api.post(AGENTS, {"name": "Ann", "template": template["id"]})
    assert (answer.status, answer.body["model"]) == (201, "openai/gpt-4o")
    bare = await api.create_template()
    for body in ({"name": "Ann"}, {"name": "Ann", "template": bare["id"]}):
        answer = await api.post(AGENTS, body)
        assert (answer.status, answer.body) == (400, {"model": ["This field is required."]})


async def test_alias_is_unique_regardless_of_case(api: Api, other: Api) -> None:
    await api.create_agent(email_alias="desk")
    agent = await other.create_agent()
    taken = (400, {"email_alias": ["agent with this email_alias already exists."]})
    answer = await other.patch(path(agent), {"email_alias": "DESK"})
    assert (answer.status, answer.body) == taken
    answer = await other.post(AGENTS, {"name": "Bob", "model": "m", "email_alias": "Desk"})
    assert (answer.status, answer.body) == taken


async def test_agent_cannot_be_its_own_ancestor(api: Api) -> None:
    top = await api.create_agent()
    below = await api.create_agent(parent=top["id"])
    bottom = await api.create_agent(parent=below["id"])
    for parent in (top, bottom):
        answer = await api.patch(path(top), {"parent": parent["id"]})
        assert (answer.status, answer.body) == (400, {"parent": ["An agent may not be its own ancestor."]})


async def test_parent_is_notified_of_a_new_child(api: Api) -> None:
    parent = await api.create_agent()
    child = await api.create_agent(parent=parent["id"])
    (note,) = (await api.get(f"/api/defaults/notifications/?agent={parent['id']}")).body
    assert (note["title"], note["source"], note["priority"], note["source_id"]) == (
        "Agent created",
        "system",
        "low",
        child["id"],
    )


async def test_agents_are_filtered(api: Api) -> None:
    template = await api.create_template()
    ann = await api.create_agent(tags=["a", "b"], purpose="dev", template=template["id"])
    bob = await api.create_agent(name="Bob 100%", tags=["b"], parent=ann["id"])
    old = await api.create_agent(name="Old", status="archived")

    async def names(query: str) -> list[str]:
        return [agent["name"] for agent in (await api.get(f"{AGENTS}?{query}")).body]

    assert await names("") == ["Bob 100%", "Ann"]
    assert await names("include_archived=true") == ["Old", "Bob 100%", "Ann"]
    assert await names("status=archived") == [old["name"]]
    assert await names("status=sleeping") == ["Bob 100%", "Ann"]
    assert await names("purpose=dev") == ["Ann"]
    assert await names("tag=b") == ["Bob 100%", "Ann"]
    assert await names("tag=a&tag=b") == ["Ann"]
    assert await names(f"template={template['id']}") == ["Ann"]
    assert await names(f"parent={ann['id']}") == [bob["name"]]
    assert await names("search=bOB") == ["Bob 100%"]
    assert await names("search=%25") == ["Bob 100%"]
    assert await names("search=_") == []
    assert await names(f"organization={ann['organization']}") == ["Bob 100%", "Ann"]
    assert await names("name=bob%20100%25") == ["Bob 100%"]
    assert await names(f"parent={ann['id']}&status=archived") == []


async def test_deleted_agent_is_gone_and_its_alias_free(api: Api) -> None:
    agent = await api.create_agent(email_alias="desk")
    child = await api.create_agent(parent=agent["id"])
    await api.create_notification(agent)
    assert (await api.delete(path(agent))).status == 204
    assert (await api.get(path(agent))).status == 404
    assert (await api.delete(path(agent))).status == 404
    assert (await api.get(path(child))).body["parent"] is None
    await api.create_agent(email_alias="desk")


async def test_local_times_use_the_agent_timezone(api: Api) -> None:
    agent = await api.create_agent(timezone="America/New_York", sleep_until="2127-07-01T09:00")
    assert agent["sleep_until"] == "2127-07-01T13:00:00.000000Z"
    answer = await api.patch(path(agent), {"timezone": "Asia/Tokyo", "sleep_until": "2127-07-01T09:00"})
    assert answer.body["sleep_until"] == "2127-07-01T00:00:00.000000Z"


async def test_fields_of_runs_are_accepted_without_effect(api: Api) -> None:
    claims = {
        "run_started_at": "2026-01-01T00:00:00.000000Z",
        "last_wake_reason": "by hand",
        "last_wake_interrupted_sleep_until": "2026-01-02T00:00:00.000000Z",
    }
    truth = {"run_started_at": None, "last_wake_reason": "", "last_wake_interrupted_sleep_until": None}
    created = await api.create_agent(**claims)
    assert {name: created[name] for name in claims} == truth
    for body in (claims, {**claims, "name": "Eve"}, {"run_started_at": None}):
        changed = await api.patch(path(created), body)
        assert changed.status == 200
        assert changed.body == {**created, "name": changed.body["name"]}
        assert (await api.get(path(created))).body == changed.body

    await api.post(f"{path(created)}run/")
    running = (await api.get(path(created))).body
    assert (await api.patch(path(created), claims)).body == running
    assert (running["status"], running["last_wake_reason"]) == ("running", "run_requested")


async def test_status_running_is_answered_only_with_a_stored_run(service: Service, api: Api) -> None:
    agent, capped = await api.create_agent(), await api.create_agent(max_cost_usd_per_day=0)
    for each, expected in ((agent, "running"), (capped, "sleeping")):
        claimed = {"status": "running", "run_started_at": "2026-01-01T00:00:00Z"}
        answer = await api.patch(path(each), claimed)
        runs = (await api.get(f"{path(each)}runs/")).body
        assert (answer.status, answer.body["status"]) == (200, expected)
        assert answer.body["run_started_at"] == (runs[0]["started_at"] if runs else None)
        assert (await api.get(path(each))).body == answer.body
    created = await api.create_agent(max_cost_usd_per_day=0, status="running")
    started = await api.create_agent(status="running")
    assert (created["status"], started["status"]) == ("sleeping", "running")
    for each in (created, started):
        assert (await api.get(path(each))).body == each

    service.refuse_starts()
    waiting = await api.create_agent(status="running")
    assert (waiting["status"], waiting["run_started_at"]) == ("sleeping", None)
    assert (await api.get(path(waiting))).body == waiting


async def test_agent_is_archived_and_restored(api: Api) -> None:
    agent = await api.create_agent(sleep_until="2127-01-01T00:00Z")
    both = {"status": "archived", "sleep_until": "2127-01-01T00:00Z"}
    answer = await api.patch(path(agent), both)
    assert (answer.status, list(answer.body)) == (400, ["sleep_until"])
    archived = await api.patch(path(agent), {"status": "archived", "sleep_until": None})
    assert (archived.status, archived.body["status"], archived.body["sleep_until"]) == (200, "archived", None)
    for body in ({"status": "running"}, {"sleep_until": "2127-01-01T00:00Z", "name": "Zoe"}):
        assert (await api.patch(path(agent), body)).status == 409
    assert (await api.post(f"{path(agent)}run/")).status == 409
    assert (await api.get(path(agent))).body["name"] == "Ann"
    assert (await api.patch(path(agent), {"sleep_until": None, "name": "Eve"})).body["name"] == "Eve"
    restored = await api.patch(path(agent), {"status": "sleeping", "sleep_until": "2127-01-01T00:00Z"})
    assert (restored.status, restored.body["status"]) == (200, "sleeping")
    assert restored.body["sleep_until"] == "2127-01-01T00:00:00.000000Z"


async def test_shorter_window_ends_a_hold(api: Api) -> None:
    template = await api.create_template(debounce_window_seconds=3600)
    own = await api.create_agent(debounce_window_seconds=3600)
    inherited = await api.create_agent(template=template["id"])
    for agent in (own, inherited):
        await api.create_notification(agent, priority="high", source="sms")
        await in_phase(api, agent, "holding")
    await api.patch(path(own), {"debounce_window_seconds": 0})
    await api.patch(f"/api/templates/{template['id']}/", {"debounce_window_seconds": 0})
    for agent in (own, inherited):
        await wake_reasons(api, agent, "notification:sms")


async def test_higher_cap_wakes_due_agents(api: Api) -> None:
    template = await api.create_template(max_cost_usd_per_day=0)
    own = await api.create_agent(max_cost_usd_per_day=0)
    inherited = await api.create_agent(template=template["id"])
    for agent in (own, inherited):
        await api.create_notification(agent, priority="high", source="browser")
        assert (await api.get(f"{path(agent)}runs/")).body == []

    await api.patch(path(own), {"max_cost_usd_per_day": 5})
    await api.patch(f"/api/templates/{template['id']}/", {"max_cost_usd_per_day": None})

    for agent in (own, inherited):
        await wake_reasons(api, agent, "notification:browser")


async def test_draining_service_remembers_runs_requested_by_status(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    service.refuse_starts()

    changed = await api.patch(path(agent), {"name": "Zoe", "status": "running"})
    made = await api.post(AGENTS, {"name": "Ann", "model": "m", "status": "running"})

    assert (changed.status, changed.body["name"], changed.body["status"]) == (200, "Zoe", "sleeping")
    assert (made.status, made.body["status"]) == (201, "sleeping")
    waiting = await service.storage.pool.fetchval(
        "SELECT count(*) FROM agent_state WHERE run_requested_at IS NOT NULL"
    )
    assert waiting == 2


@pytest.mark.one_node
async def test_run_request_is_refused_as_temporary_while_no_node_starts(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    service.refuse_starts()

    refused = await api.post(f"{path(agent)}run/")

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert refused.body["detail"] == (
        "No run may start: the database does not confirm this node, it is shutting down, "
        "or no node starts runs."
    )


async def test_tags_are_added_once_and_removed_in_order(api: Api) -> None:
    agent = await api.create_agent(tags=["b", "a"])
    tag, untag = f"{path(agent)}tag/", f"{path(agent)}untag/"

    answer = await api.post(tag, {"tags": ["c", "a", " c ", "d"]})
    assert (answer.status, answer.body) == (200, {**agent, "tags": ["b", "a", "c", "d"]})
    assert (await api.post(tag, {"tags": ["d"]})).body["tags"] == ["b", "a", "c", "d"]
    assert (await api.request("POST", untag, data=[("tags", "a"), ("tags", "x")])).body["tags"] == [
        "b",
        "c",
        "d",
    ]
    assert (await api.post(untag, {"tags": []})).body["tags"] == ["b", "c", "d"]


async def test_too_many_tags_are_refused_on_every_way(start_service: StartService) -> None:
    api = await (await start_service(tags_per_agent=3)).new_organization()
    agent = await api.create_agent(tags=["a", "b"])
    refused = "An agent may have at most 3 tags (limits.tags_per_agent), "
    refused += "which take at most 262144 bytes as JSON together."
    four = {"tags": ["a", "b", "c", "d"]}
    for method, url, body in (
        ("POST", AGENTS, {"name": "Bob", "model": "builtin/inbox", **four}),
        ("PATCH", path(agent), four),
        ("POST", f"{path(agent)}tag/", four),
    ):
        answer = await api.request(method, url, json=body)
        assert (answer.status, answer.body) == (400, {"tags": [refused]}), method
    assert (await api.post(f"{path(agent)}tag/", {"tags": ["c", "a"]})).body["tags"] == ["a", "b", "c"]


async def test_times_next_to_the_calendar_limits_are_stored(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    await service.storage.pool.execute("UPDATE organization SET paused = true")  # a past sleep ends at once
    for moment in ("0001-01-01T00:00:00.000001Z", "9999-12-31T23:59:59.999998Z"):
        owned = {"sleep_until": moment}
        answer = await api.patch(path(agent), {**owned, "run_started_at": moment})
        assert (answer.status, answer.body) == (200, {**agent, **owned})
        assert (await api.get(path(agent))).body == answer.body


@asynccontextmanager
async def full_mailbox(service: Service, database_url: str, agent: Any) -> AsyncIterator[None]:
    """Fill the agent's mailbox: its supervisor waits for a locked row, and further requests queue up."""
    registry, agent_id = service.registry, UUID(agent["id"])
    locker = await asyncpg.connect(database_url)
    async with locker.transaction():
        await locker.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", agent_id)
        first = asyncio.create_task(registry.ask(agent_id, RunRequest()))
        await asyncio.sleep(0)  # the request is in the mailbox
        await asyncio.sleep(0)  # the supervisor has taken it
        limit = SupervisorSettings().mailbox_limit
        others = [asyncio.create_task(registry.ask(agent_id, RunRequest())) for _ in range(limit)]
        yield
    await locker.close()
    assert (await first).status is RunAnswer.STARTED
    assert {reply.status for reply in await asyncio.gather(*others)} == {RunAnswer.ALREADY_RUNNING}


@pytest.mark.one_node
async def test_change_refused_by_a_full_mailbox_writes_nothing(
    service: Service, api: Api, database_url: str
) -> None:
    agent = await api.create_agent()

    async def version() -> Any:
        return await service.storage.pool.fetchval("SELECT xmin::text FROM agent")

    async with full_mailbox(service, database_url, agent):
        before = await version()
        refused = await api.patch(path(agent), {"name": "Zoe", "sleep_until": None})
        after = await version()
        beside = await api.patch(path(agent), {"name": "Eve"})
        again = await api.patch(path(agent), {"name": "Zoe", "sleep_until": None})

    assert (refused.status, refused.headers["Retry-After"], again.status) == (503, "1", 503)
    assert after == before, "nothing was written, not even for a moment"
    assert (beside.status, beside.body["name"]) == (200, "Eve")
    assert (await api.get(path(agent))).body["name"] == "Eve"
