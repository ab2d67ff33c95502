"""Messages over HTTP: an inbound one becomes a high notification and wakes its agent."""

from typing import Any

import pytest

from tests.web.conftest import Api

MESSAGES = "/api/defaults/messages/"
NOTIFICATIONS = "/api/defaults/notifications/"
PHOTO = {"name": "a.png", "content_type": "image/png", "url": "https://example.com/a.png"}


async def new_contact(api: Api, **fields: Any) -> Any:
    return await api.create("/api/defaults/contacts/", **fields)


async def create_message(api: Api, agent: Any, **fields: Any) -> Any:
    body = {"agent": agent["id"], "channel": "sms", "direction": "inbound", "body": "Hello", **fields}
    return await api.create(MESSAGES, **body)


async def test_inbound_message_becomes_a_high_notification(api: Api) -> None:
    agent, contact = await api.create_agent(), await new_contact(api, name="Ada")
    message = await create_message(api, agent, contact=contact["id"])
    assert message == {
        "id": message["id"],
        "agent": agent["id"],
        "contact": contact["id"],
        "channel": "sms",
        "direction": "inbound",
        "subject": "",
        "body": "Hello",
        "address": "",
        "attachments": [],
        "status": "received",
        "error": "",
        "needs_person": False,
        "run": None,
        "created_at": message["created_at"],
    }
    assert (await api.get(f"{MESSAGES}{message['id']}/")).body == message
    (notification,) = (await api.get(NOTIFICATIONS)).body
    assert notification == {
        "id": notification["id"],
        "agent": agent["id"],
        "source": "sms",
        "source_id": contact["id"],
        "title": "New sms from Ada",
        "body": "Hello",
        "priority": "high",
        "created_at": message["created_at"],
        "scheduled_for": None,
        "cleared": False,
        "cleared_at": None,
        "urgent": False,
    }


async def test_notification_says_how_to_open_attachments(api: Api) -> None:
    agent = await api.create_agent()
    message = await create_message(api, agent, attachments=[PHOTO])
    silent = await create_message(api, agent, attachments=[PHOTO], body="")
    assert message["attachments"] == [PHOTO]
    second, first = (await api.get(NOTIFICATIONS)).body
    assert first["body"].startswith("Hello\n\n")
    for notification, of in ((first, message), (second, silent)):
        assert of["id"] in notification["body"]
        assert "open_sms_attachment" in notification["body"]


@pytest.mark.parametrize(
    ("known", "title"),
    [
        ({"phone": "+43 1 23456"}, "New email from +43123456"),
        ({"email": "ada@example.com", "phone": "+43 1 23456"}, "New email from ada@example.com"),
        (None, "New email from an unknown sender"),
    ],
)
async def test_sender_without_name_is_described_by_other_fields(
    api: Api, known: dict[str, Any] | None, title: str
) -> None:
    contact = (await new_contact(api, **known))["id"] if known else None
    await create_message(api, await api.create_agent(), channel="email", contact=contact)
    (notification,) = (await api.get(NOTIFICATIONS)).body
    assert (notification["title"], notification["source_id"]) == (title, contact or "")


async def test_messages_are_filtered(api: Api) -> None:
    ann, bob, contact = await api.create_agent(), await api.create_agent(), await new_contact(api)
    first = await create_message(api, ann, contact=contact["id"])
    second = await create_message(api, ann, channel="email")
    third = await create_message(api, bob, direction="outbound")

    async def ids(query: str) -> list[str]:
        return [item["id"] for item in (await api.get(f"{MESSAGES}?{query}")).body]

    assert await ids("") == [third["id"], second["id"], first["id"]]
    assert await ids(f"agent={ann['id']}") == [second["id"], first["id"]]
    assert await ids(f"contact={contact['id']}") == [first["id"]]
    assert await ids("channel=email") == [second["id"]]
    assert await ids("direction=outbound") == [third["id"]]


async def test_attachments_are_limited_in_bytes(api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "channel": "sms", "direction": "inbound"}
    long = [{"url": f"https://example.org/{'a' * 1900}"} for _ in range(150)]
    refused = await api.post(MESSAGES, {**body, "attachments": long})
    messages = ["Ensure this field has no more than 262144 bytes as JSON."]
    assert (refused.status, refused.body) == (400, {"attachments": messages})
    assert (await api.post(MESSAGES, {**body, "attachments": long[:100]})).status == 201
