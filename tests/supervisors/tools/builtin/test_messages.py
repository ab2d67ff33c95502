"""Message tools: what is sent to whom, and what was written before."""

from uuid import UUID

import pytest

from storage.channels.contacts import Contact
from storage.channels.messages import Attachment, Channel, Direction, MessageStatus
from storage.ids import new_id
from storage.model import Agent, Source
from supervisors.tools.builtin.listing import MAX_LIST_BYTES
from supervisors.tools.tool import PartialResult
from tests.storage.factories import NOW, SECOND
from tests.supervisors.tools.builtin.resources import refusal, stored_contact, stored_message
from tests.supervisors.world import World


async def new_contact(
    world: World, organization_id: UUID, agent_id: UUID | None = None, name: str = "Ada"
) -> Contact:
    contact = Contact(new_id(), organization_id, agent_id, name, "", "+15550100", {}, world.clock.now())
    await world.storage.contacts.insert(contact)
    return contact


async def only_notification(world: World, agent: Agent) -> tuple[Source, str, str]:
    [notification] = await world.queue(agent)
    return notification.source, notification.title, notification.body


async def test_message_to_a_parent_or_child_is_a_notification(world: World) -> None:
    parent = await world.agent(name="Pa")
    child = await world.agent(parent_id=parent.id, name="Kid")
    parent_run, child_run = await world.start(parent), await world.start(child)

    answer = await parent_run.call("send_sms", contact_id=str(child.id), body="Hello")
    await child_run.call("send_message", contact_id=str(parent.id), body="Done.", subject=" Re:\n work ")

    assert answer == {"agent": str(child.id), "status": "delivered"}
    assert await only_notification(world, child) == (Source.SUBAGENT, "Message from Pa", "Hello")
    assert await only_notification(world, parent) == (Source.SUBAGENT, "Re: work", "Done.")


async def test_message_without_a_channel_tool_is_kept_as_failed(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    contact = await new_contact(world, agent.organization_id)

    error = await refusal(run, "send_message", contact_id=str(contact.id), body="Hi")

    assert (error["code"], error["channel"]) == ("no_channel", Channel.SMS)
    message = await world.storage.messages.get(UUID(error["message_id"]))
    assert message is not None
    assert (message.status, message.body) == (MessageStatus.FAILED, "Hi")


@pytest.mark.parametrize("tool", ["send_message", "send_sms"])
async def test_message_without_a_text_is_refused(world: World, tool: str) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    contact = await new_contact(world, agent.organization_id)

    error = await refusal(run, tool, contact_id=str(contact.id), body=" \n")

    assert (error["code"], error["message"]) == ("invalid", "body takes a text that is not blank.")


async def test_only_own_contacts_and_related_agents_can_be_written_to(world: World) -> None:
    """Invariant I7."""
    agent = await world.agent()
    run = await world.start(agent)
    stranger = await world.agent()
    recipients = [
        new_id(),
        stranger.id,
        (await new_contact(world, agent.organization_id, stranger.id)).id,
        (await new_contact(world, await world.organization())).id,
    ]

    for recipient_id in recipients:
        error = await refusal(run, "send_message", contact_id=str(recipient_id), body="Hi")
        assert error == {
            "code": "not_found",
            "message": f"You have no contact, parent or child {recipient_id}.",
        }


async def test_attachments_of_an_unknown_message_are_not_found(world: World) -> None:
    run = await world.start(await world.agent())

    error = await refusal(run, "open_sms_attachment", message_id=str(new_id()))

    assert error["code"] == "not_found"


async def test_conversation_is_listed_newest_last_in_local_time(world: World) -> None:
    agent = await world.agent(timezone="Europe/Vienna")
    contact = await stored_contact(world, agent)
    asked = await stored_message(world, agent, contact_id=contact.id, body="When?", attachments=())
    answered = await stored_message(
        world,
        agent,
        contact_id=contact.id,
        body="At nine.",
        subject="Re",
        direction=Direction.OUTBOUND,
        status=MessageStatus.SENT,
        attachments=(Attachment("map.png", "image/png", "https://example.com/map.png"),),
        created_at=NOW + SECOND,
    )
    await stored_message(world, agent, contact_id=None, created_at=NOW + 2 * SECOND)
    run = await world.start(agent)

    assert await run.call("list_messages", contact_id=str(contact.id)) == [
        {
            "id": str(asked.id),
            "contact": str(contact.id),
            "at": "2126-11-21T10:00:00+01:00",
            "direction": "inbound",
            "channel": "sms",
            "status": "received",
            "body": "When?",
        },
        {
            "id": str(answered.id),
            "contact": str(contact.id),
            "at": "2126-11-21T10:00:01+01:00",
            "direction": "outbound",
            "channel": "sms",
            "status": "sent",
            "subject": "Re",
            "body": "At nine.",
            "attachments": ["map.png"],
        },
    ]
    assert len(await run.call("list_messages")) == 3


async def test_list_of_messages_goes_back_page_by_page(world: World) -> None:
    agent = await world.agent()
    contact = await stored_contact(world, agent)
    for n in range(5):
        await stored_message(world, agent, contact_id=contact.id, body=str(n), created_at=NOW + n * SECOND)
    run = await world.start(agent)

    bodies, arguments = [], {"contact_id": str(contact.id), "limit": 2}
    page = await run.call("list_messages", **arguments)
    while isinstance(page, PartialResult):
        assert page.left_out.endswith(f'before="{page.value[0]["id"]}".')
        bodies.append([message["body"] for message in page.value])
        page = await run.call("list_messages", **arguments, before=page.value[0]["id"])
    assert [*bodies, [message["body"] for message in page]] == [["3", "4"], ["1", "2"], ["0"]]


async def test_long_bodies_are_cut_in_a_list_only(world: World) -> None:
    agent = await world.agent()
    message = await stored_message(world, agent, body="x" * 5000)
    run = await world.start(agent)

    [listed] = await run.call("list_messages")

    assert listed["body"] == f"{'x' * 2000}… (cut: 2000 of 5000 characters)"
    assert (await run.call("get_message", message_id=str(message.id)))["body"] == message.body


async def test_list_of_messages_is_bounded_in_bytes(world: World) -> None:
    agent = await world.agent()
    for n in range(30):
        await stored_message(world, agent, body="\u20ac" * 2000, created_at=NOW + n * SECOND)
    run = await world.start(agent)

    page = await run.call("list_messages", limit=100)

    assert isinstance(page, PartialResult)
    assert len(page.value) == MAX_LIST_BYTES // 6300
    assert page.value[-1]["at"] == "2126-11-21T09:00:29+00:00"


async def test_message_is_read_with_its_attachments(world: World) -> None:
    agent = await world.agent()
    contact = await stored_contact(world, agent)
    message = await stored_message(world, agent, contact_id=contact.id)
    run = await world.start(agent)

    assert await run.call("get_message", message_id=str(message.id)) == {
        "id": str(message.id),
        "contact": str(contact.id),
        "at": "2126-11-21T09:00:00+00:00",
        "direction": "inbound",
        "channel": "sms",
        "status": "received",
        "subject": "",
        "body": "Hello",
        "attachments": ["a.png"],
    }


async def test_conversation_with_contact_of_another_agent_is_listed(world: World) -> None:
    agent, sibling = await world.agent(), await world.agent()
    contact = await stored_contact(world, sibling)
    run = await world.start(agent)
    assert (await refusal(run, "list_messages", contact_id=str(contact.id)))["code"] == "not_found"

    message = await stored_message(world, agent, contact_id=contact.id)
    assert [one["id"] for one in await run.call("list_messages", contact_id=str(contact.id))] == [
        str(message.id)
    ]


async def test_messages_of_another_agent_stay_hidden(world: World) -> None:
    """Invariant I7."""
    agent, sibling = await world.agent(), await world.agent()
    shared = await stored_contact(world, agent, agent_id=None)
    hidden = await stored_message(world, sibling, contact_id=shared.id)
    run = await world.start(agent)

    assert await run.call("list_messages", contact_id=str(shared.id)) == []
    for tool, argument in (("get_message", "message_id"), ("list_messages", "before")):
        for message_id in (hidden.id, new_id()):
            error = await refusal(run, tool, **{argument: str(message_id)})
            assert error == {"code": "not_found", "message": f"You have no message {message_id}."}
