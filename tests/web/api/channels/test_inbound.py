"""Inbound messages by address: their contact is found or created, and an answer goes back to the address."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.receiver import Receiver, receiving
from tests.web.api.channels.test_message_tools import agent_with_channels, call
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Answer, Api, Service

MESSAGES = "/api/defaults/messages/"
CONTACTS = "/api/defaults/contacts/"
NOTIFICATIONS = "/api/defaults/notifications/"


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


async def post(api: Api, agent: Any, sender: Any, **fields: Any) -> Answer:
    body = {"agent": agent["id"], "from": sender, "channel": "sms", "direction": "inbound", "body": "Hello"}
    return await api.post(MESSAGES, {**body, **fields})


async def receive(api: Api, agent: Any, sender: Any, **fields: Any) -> Any:
    answer = await post(api, agent, sender, **fields)
    assert answer.status == 201, answer
    return answer.body


async def test_first_message_creates_the_contact_of_its_sender(api: Api) -> None:
    agent = await api.create_agent()
    message = await receive(api, agent, "+49 (0)170 123 45 67")

    [contact] = (await api.get(CONTACTS)).body
    expected: dict[str, Any] = {
        "agent": None,
        "name": "",
        "email": "",
        "phone": "+491701234567",
        "other_addresses": [],
    }
    assert {**contact, **expected} == contact
    assert (message["contact"], message["address"]) == (contact["id"], "+491701234567")
    [notification] = (await api.get(NOTIFICATIONS)).body
    assert (notification["source_id"], notification["title"]) == (
        contact["id"],
        "New sms from +491701234567",
    )


@pytest.mark.parametrize(
    ("known", "sender", "channel"),
    [
        ({"phone": "+49 170 1234567"}, "+49-170-1234567", "sms"),
        ({"phone": "+49 170 1234567"}, "tel:+491701234567", "mms"),
        ({"email": "Ada@Example.org"}, "aDA@example.ORG", "email"),
        ({"email": "ada@example.org"}, "Ada@example.org", "mms"),
        ({"phone": "12345"}, "12345", "sms"),
        ({"phone": "+43123456", "other_addresses": ["+49 170 1234567"]}, "+491701234567", "sms"),
        ({"other_addresses": ["Bank"]}, "BANK", "sms"),
    ],
)
async def test_known_sender_is_found(api: Api, known: dict[str, Any], sender: str, channel: str) -> None:
    agent, contact = await api.create_agent(), await api.create(CONTACTS, name="Ada", **known)
    messages = [await receive(api, agent, sender, channel=channel) for _ in range(2)]
    assert {message["contact"] for message in messages} == {contact["id"]}
    assert len((await api.get(CONTACTS)).body) == 1


async def test_concurrent_first_messages_create_one_contact(api: Api) -> None:
    agent = await api.create_agent()
    messages = await asyncio.gather(*(receive(api, agent, "+43 1 23456") for _ in range(10)))
    [contact] = (await api.get(CONTACTS)).body
    assert {message["contact"] for message in messages} == {contact["id"]}
    assert len((await api.get(NOTIFICATIONS)).body) == 10


async def test_refused_message_creates_no_contact(api: Api, other: Api) -> None:
    agent, theirs = await api.create_agent(), await other.create_agent()
    assert (await post(api, theirs, "+43123456")).status == 403
    assert (await post(api, {"id": UNKNOWN_ID}, "+43123456")).status == 400
    assert (await post(api, agent, "+43123456", status="lost")).status == 400
    assert (await api.get(CONTACTS)).body == (await other.get(CONTACTS)).body == []


async def test_sender_and_contact_together_are_refused(api: Api) -> None:
    agent, contact = await api.create_agent(), await api.create(CONTACTS, phone="+43123456")
    answer = await post(api, agent, "+43123456", contact=contact["id"])
    assert (answer.status, answer.body) == (400, {"from": ["Only one of from and contact may be given."]})


async def test_region_of_the_organization_completes_numbers(api: Api) -> None:
    agent = await api.create_agent()
    path = f"/api/organizations/organizations/{agent['organization']}/"
    for region in ("de", "ZZ", "DEU"):
        assert (await api.patch(path, {"phone_region": region})).body == {
            "phone_region": [f'"{region}" is not a valid choice.']
        }
    assert (await api.patch(path, {"phone_region": "DE"})).body["phone_region"] == "DE"

    message = await receive(api, agent, "0170 1234567")
    assert message["address"] == "+491701234567"
    contact = await api.create(CONTACTS, phone="0171/1234567")
    assert contact["phone"] == "+491711234567"
    for query in ("0171 1234567", "%2B49 171 1234567", "49(0)1711234567"):
        assert [each["id"] for each in (await api.get(f"{CONTACTS}?phone={query}")).body] == [contact["id"]]
    ambiguous = await post(api, agent, "4917112345678")
    assert ambiguous.body["from"][0].startswith("This can be +494917112345678 or +4917112345678.")


@pytest.mark.parametrize("sender", ["", "anonymous", "Withheld", "+266696687", "<>"])
async def test_message_of_withheld_number_is_kept(api: Api, sender: str) -> None:
    agent = await api.create_agent()
    message = await receive(api, agent, sender)

    assert (message["contact"], message["address"], message["body"]) == (None, "", "Hello")
    assert (await api.get(CONTACTS)).body == []
    [notification] = (await api.get(NOTIFICATIONS)).body
    assert notification["title"] == "New sms from an unknown sender"
    assert notification["body"].endswith(
        "The sender withheld its address, so this message cannot be answered."
    )
    for contact_id in (notification["source_id"], message["id"]):
        answer = await call(api, agent, "send_message", contact_id=contact_id, body="Hi")
        assert (answer.status, answer.body["error"]["code"]) == (400, "no_address")
        assert "withheld its address" in answer.body["error"]["message"]


async def test_message_of_named_sender_takes_no_answer(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "sms", "email")
    message = await receive(api, agent, "My Bank")

    contact = (await api.get(f"{CONTACTS}{message['contact']}/")).body
    assert (contact["name"], contact["phone"], contact["other_addresses"]) == ("My Bank", "", ["MY BANK"])
    for tool in ("send_message", "send_sms"):
        answer = await call(api, agent, tool, contact_id=contact["id"], body="Hi")
        assert answer.body["error"]["message"].startswith("MY BANK is a name that its network showed")
    assert server.requests == []
    assert len((await api.get(MESSAGES)).body) == 1


async def test_answer_goes_to_the_address_of_the_last_message(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "sms", "email")
    contact = await api.create(
        CONTACTS, phone="+43123456", email="ada@example.org", other_addresses=["+43 1 23457", "a@example.org"]
    )
    for sender, channel, tool, to in (
        ("+43 1 23457", "sms", "send_message", "+43123457"),
        ("+43 1 23456", "sms", "send_message", "+43123456"),
        ("a@example.org", "email", "send_message", "a@example.org"),
        ("a@example.org", "email", "send_sms", "+43123456"),
    ):
        await receive(api, agent, sender, channel=channel)
        answer = await call(api, agent, tool, contact_id=contact["id"], body="Hi")
        assert server.requests[-1].data["arguments"]["to"] == to
        sent = (await api.get(f"{MESSAGES}{answer.body['result']['message_id']}/")).body
        assert (sent["address"], sent["contact"]) == (to, contact["id"])


async def test_agent_answers_contact_of_another_agent_that_wrote_to_it(api: Api, server: Receiver) -> None:
    agent, bob = await agent_with_channels(api, server, "sms"), await api.create_agent()
    contact = await api.create(CONTACTS, phone="+43123456", agent=bob["id"])
    refused = await call(api, agent, "send_sms", contact_id=contact["id"], body="Hi")
    assert refused.body["error"]["code"] == "not_found"

    await receive(api, agent, "+43123456")

    answer = await call(api, agent, "send_sms", contact_id=contact["id"], body="Hi")
    assert answer.body["result"]["status"] == "sent"


@pytest.mark.parametrize(
    ("fields", "field", "address"),
    [
        ({"phone": "+43 (1) 23456"}, "phone", "+43123456"),
        ({"email": "ADA@example.org"}, "email", "ada@example.org"),
        ({"other_addresses": ["+431-23456"]}, "other_addresses", "+43123456"),
    ],
)
async def test_address_of_another_contact_is_refused_by_name(
    api: Api, fields: dict[str, Any], field: str, address: str
) -> None:
    ada = await api.create(CONTACTS, phone="+43 1 23456", email="ada@example.org")
    eve = await api.create(CONTACTS)
    message = f"{address} is an address of the contact {ada['id']}."
    for answer in (
        await api.post(CONTACTS, fields),
        await api.patch(f"{CONTACTS}{eve['id']}/", fields),
    ):
        assert (answer.status, answer.body) == (400, {field: [message]})
    assert (await api.patch(f"{CONTACTS}{ada['id']}/", fields)).status == 200


@pytest.mark.one_node
async def test_sender_deleted_meanwhile_is_created_again(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, contact = await api.create_agent(), await api.create(CONTACTS, phone="+43123456")
    contacts = service.storage.contacts
    found = contacts.find

    async def find_then_delete(*args: Any) -> Any:
        stored = await found(*args)
        monkeypatch.setattr(contacts, "find", found)
        await contacts.delete(UUID(contact["id"]))
        return stored

    monkeypatch.setattr(contacts, "find", find_then_delete)
    message = await receive(api, agent, "+43123456")

    [new] = (await api.get(CONTACTS)).body
    assert message["contact"] == new["id"] != contact["id"]
