"""Message tools over HTTP: agents write to contacts and related agents, and open attachments."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.receiver import Receiver, answering, receiving
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Answer, Api

MESSAGES = "/api/defaults/messages/"
CONTACTS = "/api/defaults/contacts/"
NOTIFICATIONS = "/api/defaults/notifications/"
NOTHING = {"type": "object", "additionalProperties": False}
PHOTO = {"name": "a.png", "content_type": "image/png", "url": "https://example.com/a.png"}


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


async def agent_with_channels(api: Api, server: Receiver, *channels: str) -> Any:
    """Create an agent with an adapter for each channel, whose tool calls the server."""
    adapters = []
    for channel in channels:
        adapter = await api.create("/api/toolbox/adapters/", name=channel)
        tool = {"adapter": adapter["id"], "name": "send", "handler": f"channel:{channel}"}
        # The declared parameters do not matter: the service knows the arguments of channel tools.
        await api.create("/api/toolbox/tools/", **tool, url=f"{server.url}/{channel}", parameters=NOTHING)
        adapters.append(adapter["id"])
    return await api.create_agent(adapters=adapters)


async def call(api: Api, agent: Any, tool: str, **arguments: Any) -> Answer:
    return await api.post(f"/api/cloud/agents/{agent['id']}/tools/{tool}/", arguments)


async def error_code(api: Api, agent: Any, tool: str, **arguments: Any) -> str:
    """Call the tool and return the code of the error that it answers."""
    answer = await call(api, agent, tool, **arguments)
    assert answer.status == 400, answer
    return str(answer.body["error"]["code"])


async def receive(api: Api, agent: Any, contact: Any, channel: str, **fields: Any) -> Any:
    body = {"agent": agent["id"], "contact": contact["id"], "channel": channel, "direction": "inbound"}
    return await api.create(MESSAGES, **body, **fields)


async def test_message_without_tool_for_its_channel_is_stored_as_failed(api: Api) -> None:
    agent, ada = await api.create_agent(), await api.create(CONTACTS, email="ada@example.com")
    answer = await call(api, agent, "send_message", contact_id=ada["id"], body=" Hi ", subject="Re")
    error = answer.body["error"]
    assert (answer.status, error["code"], error["channel"]) == (400, "no_channel", "email")
    message = (await api.get(f"{MESSAGES}{error['message_id']}/")).body
    assert {
        **message,
        "agent": agent["id"],
        "contact": ada["id"],
        "channel": "email",
        "direction": "outbound",
        "subject": "Re",
        "body": " Hi ",
        "status": "failed",
    } == message
    assert (await api.get(NOTIFICATIONS)).body == []


async def test_answer_uses_the_last_channel_of_the_contact(api: Api) -> None:
    agent = await api.create_agent()
    ada, eve = (
        await api.create(CONTACTS, email="ada@example.com"),
        await api.create(CONTACTS, phone="+43123456"),
    )
    await receive(api, agent, ada, "sms")
    await receive(api, agent, ada, "mms")
    for contact, tool in ((ada, "send_message"), (ada, "send_sms"), (eve, "send_message")):
        assert await error_code(api, agent, tool, contact_id=contact["id"], body="Hi") == "no_channel"
    sent = (await api.get(f"{MESSAGES}?direction=outbound")).body
    assert [message["channel"] for message in sent] == ["sms", "sms", "mms"]


async def test_message_is_sent_by_the_tool_of_its_channel(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "email", "sms")
    ada = await api.create(CONTACTS, name="Ada", email="ada@example.com", phone="+43123456")
    for tool, arguments, channel in (
        ("send_message", {"body": "Hi", "subject": "Re"}, "email"),
        ("send_sms", {"body": "Ho"}, "sms"),
    ):
        answer = await call(api, agent, tool, contact_id=ada["id"], **arguments)
        result = answer.body["result"]
        assert result == {
            "message_id": result["message_id"],
            "contact_id": ada["id"],
            "channel": channel,
            "status": "sent",
        }
        message = (await api.get(f"{MESSAGES}{result['message_id']}/")).body
        assert (message["status"], message["channel"], message["body"]) == (
            "sent",
            channel,
            arguments["body"],
        )
        received = server.requests[-1]
        assert received.path == f"/{channel}"
        assert received.headers["Idempotency-Key"] == result["message_id"]
        assert received.data["tool_call_id"] == result["message_id"]
        assert (received.data["tool"], received.data["handler"]) == ("send", f"channel:{channel}")
        assert received.data["arguments"] == {
            "message_id": result["message_id"],
            "channel": channel,
            "to": {"email": "ada@example.com", "sms": "+43123456"}[channel],
            "contact": {"id": ada["id"], "name": "Ada", "email": "ada@example.com", "phone": "+43123456"},
            "subject": arguments.get("subject", ""),
            "body": arguments["body"],
        }


async def test_agent_writes_to_an_address_whose_contact_is_made_once(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "email", "sms")
    ada = await api.create(CONTACTS, name="Ada", email="ada@example.com", phone="+43123456")
    sent = [
        (await call(api, agent, tool, contact_id=recipient, body="Hi")).body["result"]
        for tool, recipient in (
            ("send_sms", "+43 664 123-4567"),
            ("send_message", " +43 664 1234567 "),
            ("send_message", "Eve@Example.com"),
            ("send_message", "+43 1 23456"),
        )
    ]

    [eve, new, _] = (await api.get(CONTACTS)).body
    assert (new["phone"], eve["email"]) == ("+436641234567", "eve@example.com")
    assert [each["contact_id"] for each in sent] == [new["id"], new["id"], eve["id"], ada["id"]]
    assert [(each.path, each.data["arguments"]["to"]) for each in server.requests] == [
        ("/sms", "+436641234567"),
        ("/sms", "+436641234567"),
        ("/email", "eve@example.com"),
        ("/sms", "+43123456"),
    ]


async def test_message_that_the_tool_refuses_has_failed(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "sms")
    ada = await api.create(CONTACTS, phone="+43123456")
    server.answer = answering(422, "no such number", Content_Type="text/plain")
    answer = await call(api, agent, "send_sms", contact_id=ada["id"], body="Hi")
    error = answer.body["error"]
    assert (answer.status, error) == (
        400,
        {
            "code": "tool_failed",
            "message": "The message is kept as failed. The tool answered 422: no such number",
            "status": 422,
            "channel": "sms",
            "message_id": error["message_id"],
            "contact_id": ada["id"],
        },
    )
    assert (await api.get(f"{MESSAGES}{error['message_id']}/")).body["status"] == "failed"


async def test_status_set_before_the_tool_answers_stays(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "sms")
    ada = await api.create(CONTACTS, phone="+43123456")

    async def say_failed(_: web.Request) -> web.Response:
        message_id = server.requests[-1].data["arguments"]["message_id"]
        await api.patch(f"{MESSAGES}{message_id}/", {"status": "failed"})
        return web.json_response(None)

    server.answer = say_failed
    result = (await call(api, agent, "send_sms", contact_id=ada["id"], body="Hi")).body["result"]
    assert result["status"] == "failed"
    assert (await api.get(f"{MESSAGES}{result['message_id']}/")).body["status"] == "failed"


async def test_status_set_before_the_tool_fails_stays(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "sms")
    ada = await api.create(CONTACTS, phone="+43123456")

    async def say_sent(_: web.Request) -> web.Response:
        message_id = server.requests[-1].data["arguments"]["message_id"]
        await api.patch(f"{MESSAGES}{message_id}/", {"status": "sent"})
        return web.Response(status=502)

    server.answer = say_sent
    error = (await call(api, agent, "send_sms", contact_id=ada["id"], body="Hi")).body["error"]
    assert error["message"] == "The message is kept as sent. The tool answered 502."
    assert (await api.get(f"{MESSAGES}{error['message_id']}/")).body["status"] == "sent"


async def test_subject_becomes_one_line(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "email")
    ada = await api.create(CONTACTS, email="ada@example.com")
    subject = " Hello\r\nBcc: everybody@example.com "
    await call(api, agent, "send_message", contact_id=ada["id"], body="Hi", subject=subject)
    [received] = server.requests
    assert received.data["arguments"]["subject"] == "Hello Bcc: everybody@example.com"


async def test_channel_tools_are_hidden_from_models(api: Api, server: Receiver) -> None:
    agent = await agent_with_channels(api, server, "sms")
    listed = (await api.get(f"/api/cloud/agents/{agent['id']}/tools/")).body
    assert "send" not in {each["name"] for each in listed}
    assert (await call(api, agent, "send")).status == 404
    ada = await api.create(CONTACTS, email="ada@example.com")
    assert await error_code(api, agent, "send_message", contact_id=ada["id"], body="Hi") == "no_channel"
    assert server.requests == []


async def test_message_to_parent_or_child_becomes_a_notification(api: Api) -> None:
    parent = await api.create_agent(name="Pa")
    child = await api.create_agent(name="Kid", parent=parent["id"])
    await api.post(f"{NOTIFICATIONS}clear/", {"agent": parent["id"]})  # the notification about the child
    for sender, recipient, tool, arguments, title in (
        (child, parent, "send_message", {"subject": " Done "}, "Done"),
        (parent, child, "send_sms", {}, "Message from Pa"),
    ):
        answer = await call(api, sender, tool, contact_id=recipient["id"], body="Look", **arguments)
        assert answer.body == {"result": {"agent": recipient["id"], "status": "delivered"}}
        (notification,) = (await api.get(f"{NOTIFICATIONS}?agent={recipient['id']}&cleared=false")).body
        delivered = (
            notification["source"],
            notification["source_id"],
            notification["title"],
            notification["body"],
            notification["priority"],
        )
        assert delivered == ("subagent", sender["id"], title, "Look", "high")
    assert (await api.get(MESSAGES)).body == []
    assert (await api.get(f"/api/cloud/agents/{parent['id']}/")).body["status"] == "running"


async def test_agent_opens_attachments_of_its_own_messages_only(api: Api) -> None:
    agent, bob, ada = await api.create_agent(), await api.create_agent(), await api.create(CONTACTS)
    message = await receive(api, agent, ada, "mms", attachments=[PHOTO])
    answer = await call(api, agent, "open_sms_attachment", message_id=message["id"])
    assert answer.body == {"result": {"message_id": message["id"], "attachments": [PHOTO]}}
    assert await error_code(api, bob, "open_sms_attachment", message_id=message["id"]) == "not_found"
    assert await error_code(api, agent, "open_sms_attachment", message_id=UNKNOWN_ID) == "not_found"
    sent = await api.create(
        MESSAGES, agent=agent["id"], channel="sms", direction="outbound", attachments=[PHOTO]
    )
    assert await error_code(api, agent, "open_sms_attachment", message_id=sent["id"]) == "not_found"
