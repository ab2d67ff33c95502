"""The tools by which agents write to contacts and relatives, and open what they were sent."""

from typing import Any

from tests.web.conftest import Answer, Api

MESSAGES = "/api/defaults/messages/"
CONTACTS = "/api/defaults/contacts/"
NOTIFICATIONS = "/api/defaults/notifications/"
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"
PHOTO = {"name": "a.png", "content_type": "image/png", "url": "https://example.com/a.png"}


async def call(api: Api, agent: Any, tool: str, **arguments: Any) -> Answer:
    return await api.post(f"/api/cloud/agents/{agent['id']}/tools/{tool}/", arguments)


async def code(api: Api, agent: Any, tool: str, **arguments: Any) -> str:
    """That of the error which the tool answers."""
    answer = await call(api, agent, tool, **arguments)
    assert answer.status == 400, answer
    return str(answer.body["error"]["code"])


async def receive(api: Api, agent: Any, contact: Any, channel: str, **fields: Any) -> Any:
    body = {"agent": agent["id"], "contact": contact["id"], "channel": channel, "direction": "inbound"}
    return await api.create(MESSAGES, **body, **fields)


async def test_without_a_tool_for_its_channel_a_message_is_kept_as_failed(api: Api) -> None:
    agent, ada = await api.create_agent(), await api.create(CONTACTS, email="ada@example.com")
    answer = await call(api, agent, "send_message", contact_id=ada["id"], body=" Hi ", subject="Re")
    error = answer.body["error"]
    assert (answer.status, error["code"], error["channel"]) == (400, "no_channel", "email")
    kept = (await api.get(f"{MESSAGES}{error['message_id']}/")).body
    assert {
        **kept,
        "agent": agent["id"],
        "contact": ada["id"],
        "channel": "email",
        "direction": "outbound",
        "subject": "Re",
        "body": " Hi ",
        "status": "failed",
    } == kept
    assert (await api.get(NOTIFICATIONS)).body == []


async def test_an_answer_goes_by_the_channel_that_the_contact_last_wrote_by(api: Api) -> None:
    agent = await api.create_agent()
    ada, eve = await api.create(CONTACTS, email="ada@example.com"), await api.create(CONTACTS, phone="1")
    await receive(api, agent, ada, "sms")
    await receive(api, agent, ada, "mms")
    for contact, tool in ((ada, "send_message"), (ada, "send_sms"), (eve, "send_message")):
        assert await code(api, agent, tool, contact_id=contact["id"], body="Hi") == "no_channel"
    sent = (await api.get(f"{MESSAGES}?direction=outbound")).body
    assert [message["channel"] for message in sent] == ["sms", "sms", "mms"]


async def test_parents_and_children_find_a_message_in_their_queue(api: Api) -> None:
    parent = await api.create_agent(name="Pa")
    child = await api.create_agent(name="Kid", parent=parent["id"])
    await api.post(f"{NOTIFICATIONS}clear/", {"agent": parent["id"]})  # the note of the child's creation
    for sender, recipient, tool, arguments, title in (
        (child, parent, "send_message", {"subject": " Done "}, "Done"),
        (parent, child, "send_sms", {}, "Message from Pa"),
    ):
        answer = await call(api, sender, tool, contact_id=recipient["id"], body="Look", **arguments)
        assert answer.body == {"result": {"agent": recipient["id"], "status": "delivered"}}
        (found,) = (await api.get(f"{NOTIFICATIONS}?agent={recipient['id']}&cleared=false")).body
        shown = (found["source"], found["source_id"], found["title"], found["body"], found["priority"])
        assert shown == ("subagent", sender["id"], title, "Look", "high")
    assert (await api.get(MESSAGES)).body == []
    assert (await api.get(f"/api/cloud/agents/{parent['id']}/")).body["status"] == "running"


async def test_nobody_else_can_be_written_to(api: Api, other: Api) -> None:
    parent = await api.create_agent()
    agent, sibling = [await api.create_agent(parent=parent["id"]) for _ in range(2)]
    grandchild = await api.create_agent(parent=sibling["id"])
    strangers = [
        sibling,
        grandchild,
        agent,
        await other.create_agent(),
        await api.create(CONTACTS, agent=sibling["id"]),
        await other.create(CONTACTS),
        {"id": NOBODY},
    ]
    for stranger in strangers:
        for tool in ("send_message", "send_sms"):
            assert await code(api, agent, tool, contact_id=stranger["id"], body="Hi") == "not_found"
    assert (await api.get(MESSAGES)).body == []


async def test_the_attachments_of_a_message_can_be_opened_by_its_agent(api: Api) -> None:
    agent, bob, ada = await api.create_agent(), await api.create_agent(), await api.create(CONTACTS)
    message = await receive(api, agent, ada, "mms", attachments=[PHOTO])
    answer = await call(api, agent, "open_sms_attachment", message_id=message["id"])
    assert answer.body == {"result": {"message_id": message["id"], "attachments": [PHOTO]}}
    assert await code(api, bob, "open_sms_attachment", message_id=message["id"]) == "not_found"
    assert await code(api, agent, "open_sms_attachment", message_id=NOBODY) == "not_found"
    sent = await api.create(
        MESSAGES, agent=agent["id"], channel="sms", direction="outbound", attachments=[PHOTO]
    )
    assert await code(api, agent, "open_sms_attachment", message_id=sent["id"]) == "not_found"


async def test_bad_arguments_are_named(api: Api) -> None:
    agent, ada = await api.create_agent(), await api.create(CONTACTS)
    for tool, arguments, parameter in (
        ("send_message", {"body": "Hi"}, "contact_id"),
        ("send_sms", {"contact_id": "x", "body": "Hi"}, "contact_id"),
        ("send_message", {"contact_id": ada["id"]}, "body"),
        ("send_message", {"contact_id": ada["id"], "body": "Hi", "subject": True}, "subject"),
        ("open_sms_attachment", {}, "message_id"),
    ):
        answer = await call(api, agent, tool, **arguments)
        error = answer.body["error"]
        assert (answer.status, error["code"], error["parameter"]) == (400, "invalid", parameter)
