"""Approvals and grants over HTTP: who decides what, once, and what a link opens."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from storage.ids import new_id
from storage.model import Role
from storage.parked_calls import ParkedCall
from supervisors.text import format_timestamp
from tests.storage.factories import parked_call
from tests.web.api.toolbox.toolbox import create_adapter, create_tool
from tests.web.conftest import SETTINGS, Api, Service
from tests.web.people import founder, staff
from web.credentials.formats import ApprovalTokens

PATH = "/api/defaults/approvals/"
GRANTS = "/api/defaults/approval-grants/"
NOW = datetime.now(UTC).replace(microsecond=0)
AMOUNT = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}
TOKENS = ApprovalTokens(SETTINGS.token_secret)
FIRST_USE = {"approval": "first_use"}


class Desk:
    """An agent with a tool that refunds, whose calls and questions wait for a person."""

    def __init__(self, service: Service, api: Api, agent: Any, tool: Any) -> None:
        self.service = service
        self.api = api
        self.agent = agent
        self.tool = tool

    async def ask(self, **fields: Any) -> ParkedCall:
        """Park a call of the tool, or what the fields say."""
        agent = await self.service.storage.agents.get(UUID(self.agent["id"]))
        assert agent is not None
        defaults = {
            "tool_id": UUID(self.tool["id"]),
            "created_at": NOW,
            "expires_at": NOW + timedelta(days=7),
        }
        call = parked_call(agent, **{**defaults, **fields})
        return await self.service.storage.parked_calls.insert(call)

    async def decide(self, call: ParkedCall, by: Api | None = None, **body: Any) -> Any:
        return await (by or self.api).post(f"{PATH}{call.id}/decide/", body)


async def open_desk(service: Service, api: Api, template: Any = None, **tool: Any) -> Desk:
    adapter = await create_adapter(api)
    created = await create_tool(api, adapter, **{"name": "refund", "parameters": AMOUNT, **tool})
    agent = await api.create_agent(
        name="Rosa", adapters=[adapter["id"]], template=template and template["id"]
    )
    return Desk(service, api, agent, created)


@pytest.fixture
async def desk(service: Service, api: Api) -> Desk:
    return await open_desk(service, api)


def by_link(service: Service, call: ParkedCall) -> Api:
    return service.nobody.with_authorization(f"Approval {TOKENS.issue(call.id, NOW, call.expires_at)}")


async def test_approval_is_shown_with_exact_arguments_and_decided_once(desk: Desk) -> None:
    call = await desk.ask(arguments='{"amount":80,"note":"5.10"}')
    [listed] = (await desk.api.get(f"{PATH}?state=pending")).body
    assert listed == (await desk.api.get(f"{PATH}{call.id}/")).body
    assert listed == {
        "id": str(call.id),
        "kind": "approval",
        "state": "pending",
        "agent": desk.agent["id"],
        "agent_name": "Rosa",
        "run": None,
        "adapter": desk.tool["adapter"],
        "tool": "refund",
        "arguments": {"amount": 80, "note": "5.10"},
        "digest": call.digest.hex(),
        "question": "",
        "answer_schema": None,
        "contact": None,
        "created_at": format_timestamp(NOW),
        "expires_at": format_timestamp(NOW + timedelta(days=7)),
        "reminded_at": None,
        "approvers": "admin",
        "approval": "never",
        "decided_at": None,
        "decided_by": None,
        "note": "",
        "approved_arguments": None,
        "answer": None,
        "ended_at": None,
        "outcome": "",
    }

    decided = await desk.decide(call, approve=True, note="Fine.")
    assert (decided.status, decided.body["state"], decided.body["note"]) == (200, "due", "Fine.")
    assert decided.body["decided_by"]["type"] == "key"
    again = await desk.decide(call, approve=True)
    assert (again.status, again.body) == (200, decided.body)
    other = await desk.decide(call, approve=False)
    assert other.status == 409
    assert other.body["detail"].startswith("It was approved by key:")
    assert (await desk.api.get(f"{PATH}?state=pending")).body == []


async def test_two_deciders_at_once_get_one_decision(desk: Desk) -> None:
    call = await desk.ask()
    answers = await asyncio.gather(*(desk.decide(call, approve=yes) for yes in (True, False) * 3))
    states = {answer.body["state"] for answer in answers if answer.status == 200}
    assert len(states) == 1
    assert sorted(answer.status for answer in answers) == [200] * 3 + [409] * 3


async def test_edited_arguments_must_fit_the_tool(desk: Desk) -> None:
    call = await desk.ask()
    refused = await desk.decide(call, approve=True, arguments={"amount": "80"})
    assert (refused.status, list(refused.body)) == (400, ["arguments"])
    assert refused.body["arguments"][0].startswith("$.amount: ")
    decided = await desk.decide(call, approve=True, arguments={"amount": 60})
    assert decided.body["approved_arguments"] == {"amount": 60}
    assert decided.body["arguments"] == {"amount": 80}


async def test_answer_must_fit_the_schema_of_the_question(desk: Desk) -> None:
    schema = {"type": "string", "enum": ["red", "blue"]}
    call = await desk.ask(tool_id=None, question="Which colour?", answer_schema=schema)
    for body, field in (({}, "answer"), ({"approve": True}, "answer"), ({"answer": "green"}, "answer")):
        refused = await desk.decide(call, **body)
        assert (refused.status, list(refused.body)) == (400, [field]), body
    answered = await desk.decide(call, answer="blue")
    assert (answered.body["state"], answered.body["answer"]) == ("done", "blue")
    assert answered.body["ended_at"] is not None
    [told] = (await desk.api.get(f"/api/defaults/notifications/?agent={desk.agent['id']}")).body
    assert "blue" in told["body"]
    assert (await desk.decide(call, answer="red")).status == 409


async def test_null_is_an_answer_and_declining_is_none(desk: Desk) -> None:
    first = await desk.ask(tool_id=None, arguments='{"n":1}')
    assert (await desk.decide(first, answer=None)).body["state"] == "done"
    second = await desk.ask(tool_id=None, arguments='{"n":2}')
    assert (await desk.decide(second, approve=False, note="Ask Ann.")).body["state"] == "denied"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "approve"),
        ({"approve": True, "answer": 1}, "answer"),
        ({"approve": False, "arguments": {"amount": 1}}, "arguments"),
        ({"approve": False, "grant": {"arguments": "exact"}}, "grant"),
        ({"approve": True, "grant": {"arguments": "all"}}, "grant"),
        ({"approve": True, "grant": {"arguments": {"type": "nothing"}}}, "grant"),
        ({"approve": True, "grant": {"arguments": {"title": "x" * 17_000}}}, "grant"),
        ({"approve": True, "grant": {"arguments": "exact", "max_uses": 0}}, "grant"),
        ({"approve": True, "grant": {"arguments": "exact", "max_use": 3}}, "grant"),
    ],
)
async def test_decision_that_makes_no_sense_is_refused(desk: Desk, body: Any, field: str) -> None:
    call = await desk.ask()
    refused = await desk.decide(call, **body)
    assert (refused.status, list(refused.body)) == (400, [field])
    assert (await desk.api.get(f"{PATH}{call.id}/")).body["state"] == "pending"


async def test_grant_is_listed_with_what_it_covers_and_revoked_once(desk: Desk) -> None:
    until = format_timestamp(NOW + timedelta(days=30))
    schema = {"properties": {"amount": {"maximum": 50}}}
    terms = {"arguments": schema, "until": until, "max_uses": 3}
    call = await desk.ask()
    assert (await desk.decide(call, approve=True, grant=terms)).status == 200
    [grant] = (await desk.api.get(f"{GRANTS}?agent={desk.agent['id']}&tool_id={desk.tool['id']}")).body
    assert {name: grant[name] for name in terms} == terms
    assert (grant["call"], grant["tool"], grant["used_count"]) == (str(call.id), "refund", 0)
    assert (await desk.api.get(f"{GRANTS}{grant['id']}/")).body == grant
    revoked = await desk.api.post(f"{GRANTS}{grant['id']}/revoke/")
    assert revoked.body["revoked_by"]["type"] == "key"
    assert (await desk.api.post(f"{GRANTS}{grant['id']}/revoke/")).body == revoked.body


@pytest.mark.parametrize(("wish", "covers"), [("exact", "exact"), ({}, {})])
async def test_grant_may_be_exact_or_for_all_arguments(desk: Desk, wish: Any, covers: Any) -> None:
    await desk.decide(await desk.ask(), approve=True, grant={"arguments": wish})
    [grant] = (await desk.api.get(GRANTS)).body
    assert (grant["arguments"], grant["until"], grant["max_uses"]) == (covers, None, None)


async def test_first_use_grants_all_later_calls(service: Service, api: Api) -> None:
    desk = await open_desk(service, api, **FIRST_USE)
    call = await desk.ask()
    assert (await api.get(f"{PATH}{call.id}/")).body["approval"] == "first_use"
    await desk.decide(call, approve=True)
    [grant] = (await api.get(GRANTS)).body
    assert grant["arguments"] == {}


async def test_decision_on_a_changed_tool_says_what_happened(desk: Desk) -> None:
    call = await desk.ask()
    assert (await desk.api.patch(f"/api/toolbox/tools/{desk.tool['id']}/", {"name": "pay"})).status == 200
    refused = await desk.decide(call, approve=True)
    assert (refused.status, refused.body) == (
        409,
        {"detail": "It was withdrawn: the tool has changed since."},
    )


@pytest.mark.parametrize(
    ("approvers", "statuses"), [("member", [200] * 3), ("admin", [403, 200, 200]), ("owner", [403, 403, 200])]
)
async def test_template_says_who_decides(service: Service, approvers: str, statuses: list[int]) -> None:
    owner, organization = await founder(service)
    desk = await open_desk(service, owner, await owner.create_template(approvers=approvers))
    people = [*[(await staff(service, organization, role))[0] for role in (Role.MEMBER, Role.ADMIN)], owner]
    for number, (person, status) in enumerate(zip(people, statuses, strict=True)):
        call = await desk.ask(arguments=f'{{"amount":{number}}}')
        assert (await desk.decide(call, person, approve=True)).status == status
        assert (await person.get(f"{PATH}{call.id}/")).body["approvers"] == approvers


async def test_strangers_and_runs_see_and_decide_nothing(service: Service, desk: Desk, other: Api) -> None:
    call = await desk.ask()
    assert (await other.get(PATH)).body == []
    assert (await other.get(f"{PATH}{call.id}/")).status == 403
    assert (await desk.decide(call, other, approve=True)).status == 403
    assert (await other.get(f"{PATH}?agent={desk.agent['id']}")).status == 403
    assert (await desk.api.get(f"{PATH}{new_id()}/")).status == 404


async def test_link_opens_one_approval_until_it_is_decided(service: Service, desk: Desk) -> None:
    call, another = await desk.ask(), await desk.ask(arguments='{"amount":1}')
    link = by_link(service, call)
    assert (await link.get(f"{PATH}{call.id}/")).body["arguments"] == {"amount": 80}
    closed = (
        *((method, f"{PATH}{another.id}/") for method in ("GET", "PATCH")),
        ("POST", f"{PATH}{another.id}/decide/"),
        ("GET", PATH),
        ("GET", GRANTS),
        ("GET", f"/api/cloud/agents/{desk.agent['id']}/"),
        ("POST", f"/api/cloud/agents/{desk.agent['id']}/run/"),
        ("PATCH", f"{PATH}{call.id}/"),
    )
    for method, path in closed:
        assert (await link.request(method, path, json={"approve": True})).status == 401, (method, path)

    decided = await desk.decide(call, link, approve=True)
    assert decided.body["decided_by"] == {"type": "link", "id": str(call.id)}
    for answer in (await link.get(f"{PATH}{call.id}/"), await desk.decide(call, link, approve=True)):
        assert answer.status == 401
        assert "can be used once" in answer.body["detail"]


async def test_expired_or_foreign_link_opens_nothing(service: Service, desk: Desk) -> None:
    call = await desk.ask()
    tokens = (
        TOKENS.issue(call.id, NOW - timedelta(days=31), None),
        TOKENS.issue(call.id, NOW - timedelta(hours=2), NOW - timedelta(hours=1)),
        ApprovalTokens("t" * 48).issue(call.id, NOW, None),
        "nonsense",
    )
    for token in tokens:
        client = service.nobody.with_authorization(f"Approval {token}")
        assert (await client.get(f"{PATH}{call.id}/")).status == 401
        assert (await desk.decide(call, client, approve=True)).status == 401


async def test_link_may_not_decide_what_only_owners_may(service: Service) -> None:
    owner, _ = await founder(service)
    desk = await open_desk(service, owner, await owner.create_template(approvers="owner"))
    call = await desk.ask()
    assert (await desk.decide(call, by_link(service, call), approve=True)).status == 403


async def test_list_is_filtered_by_kind_tool_agent_and_age(desk: Desk) -> None:
    old = await desk.ask(created_at=NOW - timedelta(hours=2))
    question = await desk.ask(tool_id=None)
    for query, found in (
        ("?kind=question", [question]),
        ("?tool=refund", [old]),
        ("?older_than=3600", [old]),
        (f"?agent={desk.agent['id']}&state=pending", [question, old]),
        ("?state=denied", []),
    ):
        listed = (await desk.api.get(PATH + query)).body
        assert [each["id"] for each in listed] == [str(each.id) for each in found], query


async def test_pending_call_needs_a_person_in_overview_why_and_metrics(service: Service, desk: Desk) -> None:
    call = await desk.ask(created_at=NOW - timedelta(hours=1))
    await desk.ask(tool_id=None, question="Which colour?", expires_at=None)
    overview = (await desk.api.get("/api/cloud/overview/")).body
    first, second = overview["attention"]
    assert (first["kind"], first["approval"], first["agent_name"]) == ("approval", str(call.id), "Rosa")
    assert first["sentence"].startswith('It wants to call "refund", and waits for an answer until ')
    assert second["sentence"] == 'It asks: "Which colour?".'
    assert overview["attention_counts"] == {"approval": 2}
    why = (await desk.api.get(f"/api/cloud/agents/{desk.agent['id']}/supervisor/")).body["why"]
    assert " It asked a person 2 times, first at " in why
    assert why.endswith(" UTC, and waits for the answers.")
    await service.storage.parked_calls.refresh_pending()
    metrics = (await service.operator.get("/metrics?scope=node")).body
    assert "\nhostsvc_pending_approvals 2.0\n" in metrics
    [age] = [
        line for line in metrics.splitlines() if line.startswith("hostsvc_oldest_pending_approval_seconds")
    ]
    assert float(age.split()[1]) >= 3600


@pytest.mark.parametrize("rule", ["always", "first_use", {"when": {"required": ["amount"]}}])
async def test_rule_of_a_tool_is_stored_and_of_a_config_too(api: Api, rule: Any) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter, approval=rule)
    assert (await api.get(f"/api/toolbox/tools/{tool['id']}/")).body["approval"] == rule
    template = await api.create_template()
    body = {"template": template["id"], "adapter": adapter["id"], "approval": rule}
    config = await api.create("/api/toolbox/adapter-configs/", **body)
    assert config["approval"] == rule
    path = f"/api/toolbox/adapter-configs/{config['id']}/"
    assert (await api.patch(path, {"approval": None})).body["approval"] is None


@pytest.mark.parametrize(
    "rule", ["sometimes", 1, {}, {"when": 1}, {"when": {}, "if": {}}, {"when": {"type": "x"}}]
)
async def test_rule_that_is_none_is_refused(api: Api, rule: Any) -> None:
    adapter = await create_adapter(api)
    body = {"adapter": adapter["id"], "name": "send", "approval": rule}
    refused = await api.post("/api/toolbox/tools/", body)
    assert (refused.status, list(refused.body)) == (400, ["approval"])


async def test_members_do_not_change_what_needs_an_approval(service: Service) -> None:
    owner, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    adapter, template = await create_adapter(owner), await owner.create_template()
    tool = await create_tool(owner, adapter, approval="always")
    configs = "/api/toolbox/adapter-configs/"
    new = {"template": template["id"], "adapter": adapter["id"]}
    assert (await member.post(configs, {**new, "approval": "never"})).status == 403
    config = await member.create(configs, **new)
    for path, body in (
        (f"/api/toolbox/tools/{tool['id']}/", {"approval": "never"}),
        (f"/api/toolbox/adapter-configs/{config['id']}/", {"approval": "never"}),
        (f"/api/templates/{template['id']}/", {"approvers": "member"}),
        (f"/api/templates/{template['id']}/", {"approval_hours": None}),
    ):
        refused = await member.patch(path, body)
        assert refused.status == 403
        unchanged = {name: (await owner.get(path)).body[name] for name in body}
        assert (await member.patch(path, {**unchanged, "name": "Other"})).status == 200
        assert (await owner.patch(path, body)).status == 200
    assert (await member.delete(f"{configs}{config['id']}/")).status == 403
