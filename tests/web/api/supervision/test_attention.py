"""What failed and needs a person, over HTTP: it is shown until it is solved, sent again or dismissed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from storage.ids import new_id
from storage.model import Role
from tests.receiver import Receiver, answering, receiving
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api, Service
from tests.web.people import founder, staff

ATTENTION = "/api/cloud/attention/"
MESSAGES = "/api/defaults/messages/"
RUNS = "/api/cloud/runs/"
NOW = datetime.now(UTC).replace(microsecond=0)

INSERT_RUN = """
INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome, failed_calls,
                 needs_person, journal)
SELECT $1, id, organization_id, 'reminder', $3, $3, 'slept', 1, true, $4 FROM agent WHERE id = $2
"""
TOOLS = {"tools": [{"name": "book", "calls": 1, "errors": 1, "last_error": "full", "unsolved": True}]}
INSERT_DELIVERY = """
INSERT INTO webhook_delivery (id, organization_id, url, payload, created_at, failed_at, last_error, attempts,
                              webhook_id)
VALUES ($1, $2, 'https://hooks.example/secret', '{"type": "run.ended"}', $3, $3, 'It answered 500.', $4, $5)
"""
FAIL = """
UPDATE agent_state SET failures = 2, last_error = 'No.', phase = 'backing_off',
    retry_at = $2, next_due_at = $2, retry_reason = 'retry_after_failure' WHERE agent_id = $1
"""
UNANSWERED = "It cleared messages of contacts that got no answer."


@pytest.fixture
async def gateway() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        server.answer = answering(500, "down", Content_Type="text/plain")
        yield server


class Desk:
    """An agent with a gateway for texts, and contacts to write to."""

    def __init__(self, api: Api, agent: Any) -> None:
        self.api = api
        self.agent = agent

    async def write(self, name: str, body: str = "We open at nine.") -> Any:
        """Have the agent write to a contact of this name; return the message."""
        known = (await self.api.get("/api/defaults/contacts/")).body
        contact = next((each for each in known if each["name"] == name), None) or await self.api.create(
            "/api/defaults/contacts/", name=name, phone=f"+4312345{len(known):03}"
        )
        call = {"contact_id": contact["id"], "body": body}
        await self.api.post(f"/api/cloud/agents/{self.agent['id']}/tools/send_sms/", call)
        return (await self.api.get(f"{MESSAGES}?contact={contact['id']}&limit=1")).body[0]


async def open_desk(api: Api, gateway: Receiver) -> Desk:
    adapter = await api.create("/api/toolbox/adapters/", name="Gateway")
    tool = {"adapter": adapter["id"], "name": "send", "handler": "channel:sms", "url": gateway.url}
    await api.create("/api/toolbox/tools/", **tool)
    return Desk(api, await api.create_agent(name="Rosa", adapters=[adapter["id"]]))


async def attention(api: Api) -> list[Any]:
    """Return what needs a person, if the sentence agrees."""
    body = (await api.get("/api/cloud/overview/")).body
    assert body["sentence"].endswith("Nothing needs a person.") is not bool(body["attention"])
    return list(body["attention"])


async def act(api: Api, **body: Any) -> Any:
    answer = await api.post(ATTENTION, body)
    assert answer.status == 200, answer
    return answer.body


async def test_failed_message_needs_a_person_until_it_is_sent_again(api: Api, gateway: Receiver) -> None:
    desk = await open_desk(api, gateway)
    message = await desk.write("Ann")
    assert (message["status"], message["needs_person"]) == ("failed", True)
    assert message["error"] == "The tool answered 500: down"

    [item] = await attention(api)
    assert (item["kind"], item["message"], item["agent_name"]) == ("failed_message", message["id"], "Rosa")
    assert item["sentence"] == 'The text message to "Ann" was not sent. The tool answered 500: down'

    failed = await act(api, action="send", kind="failed_message")
    reason = "The message is kept as failed. The tool answered 500: down"
    assert failed == {"done": 0, "failures": [{"id": message["id"], "error": reason}], "next": None}
    assert len(await attention(api)) == 1

    gateway.answer = answering(200)
    assert (await act(api, action="send", kind="failed_message", ids=[message["id"]]))["done"] == 1
    assert await attention(api) == []
    sent = (await api.get(f"{MESSAGES}{message['id']}/")).body
    assert (sent["status"], sent["error"], sent["needs_person"]) == ("sent", "", False)
    assert {call.data["tool_call_id"] for call in gateway.requests} == {message["id"]}


async def test_message_that_was_sent_is_not_sent_again(api: Api, gateway: Receiver) -> None:
    desk = await open_desk(api, gateway)
    gateway.answer = answering(200)
    message = await desk.write("Ann")
    assert (await act(api, action="send", kind="failed_message", ids=[message["id"]]))["done"] == 1
    assert len(gateway.requests) == 1


async def test_message_being_sent_is_sent_only_once(api: Api, gateway: Receiver) -> None:
    desk = await open_desk(api, gateway)
    message = await desk.write("Ann")
    gateway.requests.clear()
    may_answer = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await may_answer.wait()
        return web.Response()

    gateway.answer = answer
    body = {"action": "send", "kind": "failed_message", "ids": [message["id"]]}
    sending = asyncio.create_task(act(api, **body))
    await gateway.wait_for(1)
    [item] = await attention(api)
    assert (
        item["sentence"] == 'The text message to "Ann" was not sent. Its sending goes on, or was interrupted.'
    )
    again = await act(api, **body)
    assert again["failures"] == [{"id": message["id"], "error": "The message is being sent at this moment."}]

    may_answer.set()
    assert (await sending)["done"] == 1
    assert await attention(api) == []
    assert len(gateway.requests) == 1


async def test_same_text_under_another_id_solves_the_failed_one(api: Api, gateway: Receiver) -> None:
    desk = await open_desk(api, gateway)
    await desk.write("Ann")
    await desk.write("Eve")
    gateway.answer = answering(200)
    await desk.write("Ann", "Something else.")
    assert len(await attention(api)) == 2
    await desk.write("Ann")
    assert [item["sentence"][:25] for item in await attention(api)] == ['The text message to "Eve"']


async def test_text_that_failed_several_times_is_sent_again_once(api: Api, gateway: Receiver) -> None:
    desk = await open_desk(api, gateway)
    await desk.write("Ann", "Something else.")
    for _ in range(3):
        latest = await desk.write("Ann")
    assert [item["message"] for item in await attention(api)][1:] == [latest["id"]]

    gateway.answer = answering(200)
    gateway.requests.clear()
    assert (await act(api, action="send", kind="failed_message"))["done"] == 2
    bodies = [call.data["arguments"]["body"] for call in gateway.requests]
    assert sorted(bodies) == ["Something else.", "We open at nine."]


async def test_all_failed_messages_are_sent_in_several_calls(
    api: Api, gateway: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = await open_desk(api, gateway)
    messages = [await desk.write(f"Ann {number}") for number in range(5)]
    refused = messages[1]["id"]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=500 if gateway.requests[-1].data["tool_call_id"] == refused else 200)

    gateway.answer = answer
    monkeypatch.setattr("web.api.supervision.attention.MAX_ITEMS", 2)
    body: dict[str, Any] = {"action": "send", "kind": "failed_message"}
    first = await act(api, **body)
    second = await act(api, **body, after=first["next"])
    third = await act(api, **body, after=second["next"])
    assert [each["done"] for each in (first, second, third)] == [1, 2, 1]
    assert third["next"] is None
    assert [item["message"] for item in await attention(api)] == [refused]


async def test_dismissed_message_leaves_and_returns_if_it_fails_again(api: Api, gateway: Receiver) -> None:
    desk = await open_desk(api, gateway)
    message = await desk.write("Ann")
    await act(api, action="dismiss", kind="failed_message")
    assert await attention(api) == []
    await act(api, action="send", kind="failed_message", ids=[message["id"]])
    assert len(await attention(api)) == 1


async def test_lists_find_what_needs_a_person(service: Service, api: Api, gateway: Receiver) -> None:
    desk = await open_desk(api, gateway)
    failed = await desk.write("Ann")
    gateway.answer = answering(200)
    sent = await desk.write("Eve")
    for query, expected in (
        ("needs_person=true", [failed]),
        ("status=failed", [failed]),
        ("status=sent", [sent]),
        ("needs_person=false", [sent]),
    ):
        found = (await api.get(f"{MESSAGES}?{query}")).body
        assert [each["id"] for each in found] == [each["id"] for each in expected]
    run_id = new_id()
    await service.storage.pool.execute(INSERT_RUN, run_id, desk.agent["id"], NOW, TOOLS)
    for query in ("needs_person=true", "has_failed_calls=true", "outcome=slept"):
        [run] = (await api.get(f"{RUNS}?{query}")).body
        assert (run["id"], run["failed_calls"], run["needs_person"]) == (str(run_id), 1, True)
    assert (await api.get(f"{RUNS}?needs_person=false")).body == []
    assert (await api.get(f"{RUNS}?has_failed_calls=false")).body == []


async def test_run_whose_failure_nothing_solved_can_be_dismissed(service: Service, api: Api) -> None:
    agent, run_id, other_id = await api.create_agent(), new_id(), new_id()
    await service.storage.pool.execute(INSERT_RUN, run_id, agent["id"], NOW, TOOLS)
    await service.storage.pool.execute(INSERT_RUN, other_id, agent["id"], NOW, {"unanswered": ["x"]})
    assert {item["run"]: item["sentence"] for item in await attention(api)} == {
        str(run_id): '"book" failed, and nothing was changed afterwards: full',
        str(other_id): UNANSWERED,
    }
    await act(api, action="dismiss", kind="failed_run", ids=[str(run_id)])
    assert [item["run"] for item in await attention(api)] == [str(other_id)]
    refused = await act(api, action="send", kind="failed_run")
    assert (refused["done"], [each["id"] for each in refused["failures"]]) == (0, [str(other_id)])


async def test_text_sent_to_nobody_is_solved_by_messages_to_each(
    service: Service, api: Api, gateway: Receiver
) -> None:
    desk = await open_desk(api, gateway)
    contacts = [(await desk.write(name))["contact"] for name in ("Ann", "Eve")]
    await act(api, action="dismiss", kind="failed_message")
    gateway.answer = answering(200)
    journals: dict[str, Any] = {str(new_id()): {"tools": []}, str(new_id()): TOOLS}
    for run_id, tools in journals.items():
        journal = {"unanswered": contacts, **tools}
        await service.storage.pool.execute(INSERT_RUN, run_id, desk.agent["id"], NOW, journal)
    await desk.write("Ann")
    assert len(await attention(api)) == 2
    await desk.write("Eve")
    assert [journals[item["run"]] for item in await attention(api)] == [TOOLS]


async def test_items_of_a_deleted_agent_need_nobody(service: Service, api: Api, gateway: Receiver) -> None:
    desk, _ = await open_desk(api, gateway), await api.create_agent()
    await desk.write("Ann")
    await service.storage.pool.execute(INSERT_RUN, new_id(), desk.agent["id"], NOW, TOOLS)
    assert len(await attention(api)) == 2
    assert (await api.delete(f"/api/cloud/agents/{desk.agent['id']}/")).status == 204
    assert await attention(api) == []


async def test_agent_whose_runs_count_toward_quarantine_needs_a_person(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    await service.storage.pool.execute(FAIL, agent["id"], NOW + timedelta(hours=1))
    [item] = await attention(api)
    assert (item["kind"], item["agent"]) == ("failing", agent["id"])
    assert item["sentence"].startswith("Its last 2 runs failed, or cleared nothing. Backing off")


async def test_failing_hook_is_shown_to_admins_and_sent_again(service: Service) -> None:
    api, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    await api.create_agent()
    delivery_id = new_id()
    webhook = await api.create("/api/organizations/webhooks/", url="https://hooks.example/", types=["run.*"])
    for id_, attempts, owner in ((delivery_id, 9, None), (new_id(), 0, None), (new_id(), 9, webhook["id"])):
        await service.storage.pool.execute(INSERT_DELIVERY, id_, organization.id, NOW, attempts, owner)
    [item] = await attention(api)
    assert (item["kind"], item["delivery"]) == ("failing_hook", str(delivery_id))
    assert item["sentence"] == (
        "The webhook of a template at hooks.example did not take the delivery of an event. "
        "It was given up: It answered 500."
    )
    assert await attention(member) == []
    refused = await member.post(
        ATTENTION, {"action": "send", "kind": "failing_hook", "ids": [str(delivery_id)]}
    )
    assert refused.status == 403
    assert (await act(member, action="dismiss", kind="failing_hook"))["done"] == 0
    assert (await act(api, action="dismiss", kind="failing_hook"))["done"] == 1
    assert await attention(api) == []
    assert (await act(api, action="send", kind="failing_hook", ids=[str(delivery_id)]))["done"] == 1
    assert (await api.get(f"/api/organizations/webhook-deliveries/{delivery_id}/")).body[
        "status"
    ] == "pending"


async def test_items_of_others_are_refused(service: Service, gateway: Receiver) -> None:
    api, stranger = await service.new_organization(), await service.new_organization()
    message = await (await open_desk(api, gateway)).write("Ann")
    body = {"action": "send", "kind": "failed_message"}
    assert (await stranger.post(ATTENTION, {**body, "ids": [message["id"]]})).status == 403
    assert (await act(stranger, **body))["done"] == 0
    assert (await stranger.post(ATTENTION, {**body, "after": message["id"]})).status == 403
    assert (await api.post(ATTENTION, {**body, "after": UNKNOWN_ID})).status == 400
    unknown = await act(stranger, **body, ids=[UNKNOWN_ID])
    assert unknown["failures"] == [{"id": UNKNOWN_ID, "error": "There is no such item."}]
