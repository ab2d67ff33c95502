"""Templates over HTTP: fields and their limits, deletion and detachment."""

from storage.model import Role
from tests.web.conftest import Api, Service, in_phase
from tests.web.people import founder, staff

TEMPLATES = "/api/templates/"


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
        "may_create_contacts": True,
        "temperature": None,
        "max_output_tokens": 0,
        "tool_choice": "auto",
        "response_format": None,
        "may_create_agents": False,
        "max_wakes_per_hour": None,
        "max_wakes_per_day": None,
        "quiet_hours": "",
        "approvers": "admin",
        "approval_hours": 168,
    }
    assert (await api.get(f"{TEMPLATES}{created['id']}/")).body == created


async def test_template_keeps_the_options_of_its_models(api: Api) -> None:
    options = {"temperature": 0.7, "max_output_tokens": 500, "tool_choice": "required"}
    created = await api.create(TEMPLATES, name="Clerk", **options)
    path = f"{TEMPLATES}{created['id']}/"
    assert (await api.get(path)).body.items() >= options.items()
    schema = {"type": "object", "required": ["score"]}
    assert (await api.patch(path, {"response_format": schema})).body["response_format"] == schema
    cleared = (await api.patch(path, {"temperature": None})).body
    assert (cleared["temperature"], cleared["max_output_tokens"]) == (None, 500)
    refused = await api.patch(path, {"temperature": 2.1, "max_output_tokens": -1, "tool_choice": "look"})
    assert (refused.status, refused.body.keys()) == (400, options.keys())


async def test_response_format_must_be_a_short_json_schema(api: Api) -> None:
    created = await api.create(TEMPLATES, name="Clerk")
    path = f"{TEMPLATES}{created['id']}/"
    for schema, message in (
        ({"type": "number of teas"}, '$.type: "number of teas" is not valid'),
        ({"$ref": "https://example.com/schema"}, "A $ref may not leave the document."),
        ({"title": "x" * 16_384}, "Ensure this field has no more than 16384 bytes as JSON."),
    ):
        for refused in (
            await api.patch(path, {"response_format": schema}),
            await api.post(TEMPLATES, {"name": "Clerk", "response_format": schema}),
        ):
            assert refused.status == 400
            assert message in refused.body["response_format"][0]
    assert (await api.get(path)).body["response_format"] is None


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
        max_wakes_per_hour=3,
        max_wakes_per_day=24,
        quiet_hours="22:00-07:00",
    )
    own = {
        "system_prompt": "Be brief.",
        "reasoning_effort": "low",
        "max_turns": -1,
        "debounce_window_seconds": 0,
        "harness_git_ref": "main",
        "max_cost_usd_per_day": 0,
        "unpriced": "allow",
        "max_wakes_per_hour": 1,
        "max_wakes_per_day": 2,
        "quiet_hours": "",
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
        "max_wakes_per_hour": 3,
        "max_wakes_per_day": 24,
        "quiet_hours": "22:00-07:00",
    }
    assert (await api.get(f"/api/cloud/agents/{independent['id']}/")).body == {**independent, **detached}
    assert (await api.get(f"/api/cloud/agents/{bystander['id']}/")).body == bystander
    assert (await api.get(f"{TEMPLATES}{template['id']}/")).status == 404


async def test_hold_continues_when_the_agent_is_detached(api: Api) -> None:
    template = await api.create_template(debounce_window_seconds=3600)
    agent = await api.create_agent(template=template["id"])
    await api.create_notification(agent, source="sms", priority="high")
    path = f"/api/cloud/agents/{agent['id']}/supervisor/"
    await in_phase(api, agent, "holding")
    held = (await api.get(path)).body

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
