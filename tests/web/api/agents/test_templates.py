"""Templates over HTTP: fields and their limits, deletion and detachment."""

from typing import Any

from storage.model import Role
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

TEMPLATES = "/api/templates/"
MAX_INT32 = 2**31 - 1
TOO_MUCH = ["Ensure this value is less than or equal to 2147483647."]
TOO_LONG = ["Ensure this field has no more than 255 characters."]

LIMITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": ""}, ["This field may not be blank."]),
    ({"name": "x" * 256}, TOO_LONG),
    ({"default_model": "x" * 256}, TOO_LONG),
    ({"default_reasoning_effort": ""}, ['"" is not a valid choice.']),
    ({"thinking_max_tokens": MAX_INT32 + 1}, TOO_MUCH),
    (
        {"context_tokens": 100_001},
        ["Ensure this value is less than or equal to 100000."],
    ),
    ({"max_turns": -1}, ["Ensure this value is greater than or equal to 0."]),
    ({"debounce_window_seconds": None}, ["This field may not be null."]),
    ({"debounce_window_seconds": True}, ["A valid integer is required."]),
    ({"harness_git_ref": "x" * 256}, TOO_LONG),
    ({"agent_created_webhook_url": "ftp://x"}, ["Enter a valid URL."]),
    (
        {"agent_created_webhook_url": "http://x.io/" + "x" * 200},
        ["Ensure this field has no more than 200 characters."],
    ),
    ({"tool_call_secret": "x" * 256}, TOO_LONG),
    ({"max_cost_usd_per_day": -0.01}, ["Ensure this value is greater than or equal to 0."]),
]


async def test_template_needs_only_a_name(api: Api) -> None:
    created = await api.create(TEMPLATES, name=" Clerk ")
    assert created == {
        "id": created["id"],
        "organization": created["organization"],
        "name": "Clerk",
        "created_at": created["created_at"],
        "description": "",
        "system_prompt": "",
        "default_model": "",
        "default_reasoning_effort": "none",
        "thinking_max_tokens": 0,
        "max_turns": 0,
        "debounce_window_seconds": 0,
        "harness_git_ref": "",
        "agent_created_webhook_url": "",
        "tool_call_secret": "",
        "max_cost_usd_per_day": None,
        "context_tokens": 0,
        "carry_over": "journal",
        "reply": "tool",
        "content": "",
        "content_days": None,
        "environment_secrets": [],
        "unpriced": "refuse",
    }
    assert (await api.get(f"{TEMPLATES}{created['id']}/")).body == created


async def test_change_leaves_other_fields_alone(api: Api) -> None:
    created = await api.create_template(system_prompt=" Be brief. ", max_turns=MAX_INT32)
    changes = {"debounce_window_seconds": "60", "agent_created_webhook_url": "https://example.com/hook"}
    answer = await api.patch(f"{TEMPLATES}{created['id']}/", changes)
    assert (answer.status, answer.body) == (200, {**created, **changes, "debounce_window_seconds": 60})


async def test_template_fields_have_limits(api: Api) -> None:
    created = await api.create_template()
    for changes, messages in LIMITS:
        answer = await api.patch(f"{TEMPLATES}{created['id']}/", changes)
        assert (answer.status, answer.body) == (400, dict.fromkeys(changes, messages))


async def test_path_is_checked_before_the_body(api: Api, other: Api) -> None:
    created = await api.create_template()
    bad = {"name": ""}
    assert (await other.patch(f"{TEMPLATES}{created['id']}/", bad)).status == 403
    assert (await api.patch(f"{TEMPLATES}{UNKNOWN_ID}/", bad)).status == 404
    assert (await api.patch(f"{TEMPLATES}7/", bad)).status == 404
    assert (await api.with_authorization(None).patch(f"{TEMPLATES}7/", bad)).status == 401


async def test_list_shows_own_templates_newest_first(api: Api, other: Api) -> None:
    first, second = await api.create_template(), await api.create_template()
    await other.create_template()
    assert (await api.get(TEMPLATES)).body == [second, first]
    page = await api.get(f"{TEMPLATES}?limit=1")
    assert page.body == [second]
    assert f"after={second['id']}" in page.headers["Link"]
    assert (await api.get(f"{TEMPLATES}?after={second['id']}")).body == [first]


async def test_template_in_use_is_not_deleted(api: Api) -> None:
    template = await api.create_template()
    path = f"{TEMPLATES}{template['id']}/"
    agent = await api.create_agent(template=template["id"])
    refused = await api.delete(path)
    assert refused.status == 409
    assert refused.body["detail"].startswith("1 agent uses this template")
    await api.create_agent(template=template["id"])
    assert (await api.delete(path)).body["detail"].startswith("2 agents use this template")
    assert (await api.get(f"/api/cloud/agents/{agent['id']}/")).body == agent
    assert (await api.delete(f"{path}?detach=perhaps")).status == 400


async def test_template_used_only_by_deleted_agents_is_deleted(api: Api) -> None:
    template = await api.create_template()
    agent = await api.create_agent(template=template["id"])
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    assert (await api.delete(f"{TEMPLATES}{template['id']}/")).status == 204
    assert (await api.get(f"{TEMPLATES}{template['id']}/")).status == 404


async def test_detached_agents_keep_what_they_inherited(api: Api) -> None:
    template = await api.create_template(
        system_prompt="Be kind.",
        default_reasoning_effort="high",
        max_turns=7,
        debounce_window_seconds=60,
        harness_git_ref="v1",
        max_cost_usd_per_day=2.5,
    )
    own = {
        "system_prompt": "Be brief.",
        "reasoning_effort": "low",
        "max_turns": -1,
        "debounce_window_seconds": 0,
        "harness_git_ref": "main",
        "max_cost_usd_per_day": 0,
        "unpriced": "allow",
    }
    heir = await api.create_agent(template=template["id"])
    independent = await api.create_agent(template=template["id"], **own)
    bystander = await api.create_agent()

    assert (await api.delete(f"{TEMPLATES}{template['id']}/?detach=true")).status == 204

    detached = {"template": None, "template_name": None}
    assert (await api.get(f"/api/cloud/agents/{heir['id']}/")).body == {
        **heir,
        **detached,
        "system_prompt": "Be kind.",
        "reasoning_effort": "high",
        "max_turns": 7,
        "debounce_window_seconds": 60,
        "harness_git_ref": "v1",
        "max_cost_usd_per_day": 2.5,
        "unpriced": "refuse",
    }
    assert (await api.get(f"/api/cloud/agents/{independent['id']}/")).body == {**independent, **detached}
    assert (await api.get(f"/api/cloud/agents/{bystander['id']}/")).body == bystander
    assert (await api.get(f"{TEMPLATES}{template['id']}/")).status == 404


async def test_hold_continues_when_the_agent_is_detached(api: Api) -> None:
    template = await api.create_template(debounce_window_seconds=3600)
    agent = await api.create_agent(template=template["id"])
    await api.create_notification(agent, source="sms", priority="high")
    path = f"/api/cloud/agents/{agent['id']}/supervisor/"
    held = (await api.get(path)).body
    assert held["phase"] == "holding"

    assert (await api.delete(f"{TEMPLATES}{template['id']}/?detach=true")).status == 204

    after = (await api.get(path)).body
    assert (after["phase"], after["debounce"]) == ("holding", held["debounce"])


async def test_only_admins_are_shown_the_secret(service: Service) -> None:
    owner, organization = await founder(service)
    admin, _ = await staff(service, organization, Role.ADMIN)
    member, _ = await staff(service, organization, Role.MEMBER)
    template = await owner.create_template(tool_call_secret="s3cret")
    path = f"/api/templates/{template['id']}/"
    for caller, secret in ((owner, "s3cret"), (admin, "s3cret"), (member, None)):
        assert (await caller.get(path)).body["tool_call_secret"] == secret
        assert (await caller.get("/api/templates/")).body[0]["tool_call_secret"] == secret
        assert (await caller.patch(path, {"name": "Z"})).body["tool_call_secret"] == secret


async def test_member_writes_secret_but_null_changes_nothing(service: Service) -> None:
    owner, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    template = await member.create_template(tool_call_secret="first")
    path = f"/api/templates/{template['id']}/"
    assert template["tool_call_secret"] is None
    assert (await owner.get(path)).body["tool_call_secret"] == "first"

    read = (await member.get(path)).body
    assert (await member.patch(path, read)).status == 200
    assert (await owner.get(path)).body["tool_call_secret"] == "first"
    assert (await member.patch(path, {"tool_call_secret": "next"})).body["tool_call_secret"] is None
    assert (await owner.get(path)).body["tool_call_secret"] == "next"
    assert (await member.patch(path, {"tool_call_secret": ""})).body["tool_call_secret"] == ""


async def test_template_with_unreadable_secret_is_read_changed_and_deleted(
    service: Service, api: Api
) -> None:
    first, second = [await api.create_template(tool_call_secret="s3cret") for _ in range(2)]
    broken = "UPDATE template SET tool_call_secret = 'hostsvc:1:0123abcd:AAAA'"
    await service.storage.pool.execute(broken)
    path = f"{TEMPLATES}{first['id']}/"

    assert (await api.get(path)).body == {**first, "tool_call_secret": None}
    assert [each["tool_call_secret"] for each in (await api.get(TEMPLATES)).body] == [None, None]
    assert (await api.patch(path, {"name": "Z"})).body["tool_call_secret"] is None
    assert (await api.patch(path, {"tool_call_secret": "next"})).body["tool_call_secret"] == "next"
    assert (await api.get(path)).body["tool_call_secret"] == "next"
    assert (await api.delete(f"{TEMPLATES}{second['id']}/")).status == 204


async def test_agent_uses_template_with_unreadable_secret(service: Service, api: Api) -> None:
    template = await api.create_template(tool_call_secret="s3cret")
    await service.storage.pool.execute("UPDATE template SET tool_call_secret = 'hostsvc:1:0123abcd:AAAA'")
    agent = await api.create_agent(template=template["id"])
    listed = (await api.get(f"/api/cloud/agents/?template={template['id']}")).body
    assert [each["id"] for each in listed] == [agent["id"]]
