"""Messages over HTTP: an inbound one becomes a high notification and wakes its agent."""

import asyncio
from typing import Any

import pytest

from tests.web.api.unknown import UNKNOWN_ID, UNKNOWN_ID_MESSAGES
from tests.web.conftest import Api

MESSAGES = "/api/defaults/messages/"
NOTIFICATIONS = "/api/defaults/notifications/"
PHOTO = {"name": "a.png", "content_type": "image/png", "url": "https://example.com/a.png"}

REFUSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"agent": UNKNOWN_ID}, {"agent": UNKNOWN_ID_MESSAGES}),
    ({"contact": UNKNOWN_ID}, {"contact": UNKNOWN_ID_MESSAGES}),
    ({"channel": "api"}, {"channel": ['"api" is not a valid choice.']}),
    ({"direction": "up"}, {"direction": ['"up" is not a valid choice.']}),
    ({"status": "lost"}, {"status": ['"lost" is not a valid choice.']}),
    ({"attachments": {}}, {"attachments": ['Expected a list of items but got type "dict".']}),
    (
        {"attachments": [PHOTO, 7, {"name": "b"}, {"url": "b"}]},
        {
            "attachments": {
                "1": {"non_field_errors": ["Invalid data. Expected a dictionary, but got int."]},
                "2": {"url": ["This field is required."]},
                "3": {"url": ["Enter a valid URL."]},
            }
        },
    ),
]


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
    }


async def test_inbound_message_wakes_the_agent(api: Api) -> None:
    agent = await api.create_agent()
    await create_message(api, agent)
    answer = await api.post(f"/api/cloud/agents/{agent['id']}/run/")
    assert answer.body["status"] in {"already_running", "started"}
    shown = await api.get(f"/api/cloud/agents/{agent['id']}/")
    assert (shown.body["status"], shown.body["last_wake_reason"]) == ("running", "notification:sms")


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


async def test_outbound_message_creates_no_notification(api: Api) -> None:
    agent = await api.create_agent()
    message = await create_message(api, agent, direction="outbound")
    assert message["status"] == "queued"
    assert (await api.get(NOTIFICATIONS)).body == []


async def test_message_may_be_written_as_a_form(api: Api) -> None:
    agent = await api.create_agent()
    attachment = '{"url": "https://example.com/b"}'
    form = [("agent", agent["id"]), ("channel", "mms"), ("direction", "inbound"), ("contact", "")]
    answer = await api.request(
        "POST", MESSAGES, data=[*form, ("attachments", attachment), ("attachments", attachment)]
    )
    shown = {"name": "", "content_type": "", "url": "https://example.com/b"}
    assert (answer.status, answer.body["attachments"]) == (201, [shown, shown])


async def test_message_with_bad_field_is_refused_and_not_stored(api: Api) -> None:
    agent = await api.create_agent()
    required = ["This field is required."]
    answer = await api.request("POST", MESSAGES)
    assert answer.body == dict.fromkeys(("agent", "channel", "direction"), required)
    for changes, messages in REFUSED:
        body = {"agent": agent["id"], "channel": "sms", "direction": "inbound", **changes}
        answer = await api.post(MESSAGES, body)
        assert (answer.status, answer.body) == (400, messages)
    assert (await api.get(MESSAGES)).body == (await api.get(NOTIFICATIONS)).body == []


async def test_message_can_be_changed_and_deleted(api: Api) -> None:
    agent, contact = await api.create_agent(), await new_contact(api)
    message = await create_message(api, agent)
    path = f"{MESSAGES}{message['id']}/"
    changes = {"status": "failed", "contact": contact["id"], "attachments": [PHOTO], "subject": "Re"}
    changed = await api.patch(
        path, {**changes, "channel": "email", "agent": UNKNOWN_ID, "direction": "outbound"}
    )
    assert (changed.status, changed.body) == (200, {**message, **changes})
    answer = await api.patch(path, {"attachments": [{"name": "b"}]})
    assert (answer.status, answer.body) == (400, {"attachments": {"0": {"url": ["This field is required."]}}})
    assert (await api.delete(path)).status == 204
    assert (await api.get(path)).status == 404


async def test_messages_are_filtered(api: Api, other: Api) -> None:
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
    assert await ids(f"contact={UNKNOWN_ID}") == []
    assert (await api.get(f"{MESSAGES}?channel=api")).status == 400
    assert (await other.get(f"{MESSAGES}?contact={contact['id']}")).status == 403


async def test_repeated_message_is_received_once(api: Api) -> None:
    agent = await api.create_agent()
    body = {"agent": agent["id"], "channel": "sms", "direction": "inbound"}
    headers = {"Idempotency-Key": "message 1"}
    answers = await asyncio.gather(*(api.post(MESSAGES, body, headers=headers) for _ in range(5)))
    assert {answer.status for answer in answers} <= {201, 409}
    assert len({answer.body["id"] for answer in answers if answer.status == 201}) == 1
    assert len((await api.get(MESSAGES)).body) == len((await api.get(NOTIFICATIONS)).body) == 1
