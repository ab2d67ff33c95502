"""Message tools: what is sent to whom, and what was written before."""

import asyncio
from uuid import UUID

import pytest
from aiohttp import web

from storage.channels.contacts import Contact
from storage.channels.messages import Attachment, Channel, Direction, MessageStatus
from storage.ids import new_id
from storage.postgres.pool import Pool
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.listing import MAX_LIST_BYTES
from supervisors.tools.tool import PartialResult
from tests.receiver import receiving
from tests.storage.factories import NOW, SECOND, adapter, tool
from tests.supervisors.tools.builtin.resources import refusal, stored_contact, stored_message
from tests.supervisors.world import World, open_world


async def new_contact(
    world: World, organization_id: UUID, agent_id: UUID | None = None, name: str = "Ada"
) -> Contact:
    contact = Contact(new_id(), organization_id, agent_id, name, "", "+15555550100", {}, world.clock.now())
    await world.storage.contacts.insert(contact)
    return contact


@pytest.mark.parametrize("tool", ["send_message", "send_sms"])
async def test_message_without_a_text_is_refused(world: World, tool: str) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    contact = await new_contact(world, agent.organization_id)

    error = await refusal(run, tool, contact_id=str(contact.id), body=" \n")

    assert (error["code"], error["message"]) == ("invalid", "body takes a text that is not blank.")


async def test_failed_message_is_sent_once_however_long_the_call_takes(pool: Pool) -> None:
    may_answer = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await may_answer.wait()
        return web.Response()

    async def send_again() -> None:
        await world.toolset.send_again(message.id, world.registry.ask, caller="somebody")

    async with receiving() as gateway, open_world(pool, outbound={"timeout_seconds": 300}) as world:
        phone = adapter(await world.organization())
        await world.storage.adapters.insert(phone)
        await world.storage.tools.insert(tool(phone.id, handler="channel:sms", url=gateway.url))
        agent = await world.agent(phone.organization_id, adapters=(phone.id,))
        contact = await new_contact(world, agent.organization_id)
        message = await stored_message(
            world,
            agent,
            contact_id=contact.id,
            direction=Direction.OUTBOUND,
            channel=Channel.SMS,
            status=MessageStatus.FAILED,
        )
        gateway.answer = answer
        sending = asyncio.create_task(send_again())
        await gateway.wait_for(1)
        await world.advance(600)
        with pytest.raises(ToolError, match="being sent"):
            await send_again()
        may_answer.set()
        await sending
        assert len(gateway.requests) == 1


async def test_message_by_a_tool_that_needs_an_approval_is_not_sent(pool: Pool) -> None:
    async with receiving() as gateway, open_world(pool) as world:
        phone = adapter(await world.organization())
        await world.storage.adapters.insert(phone)
        guarded = tool(phone.id, handler="channel:sms", url=gateway.url, approval="always")
        await world.storage.tools.insert(guarded)
        agent = await world.agent(phone.organization_id, adapters=(phone.id,))
        contact = await stored_contact(world, agent, phone="+436641234567")
        run = await world.start(agent)

        error = await refusal(run, "send_message", contact_id=str(contact.id), body="Hi")

        assert error["code"] == "needs_approval"
        assert gateway.requests == []


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


async def test_address_of_another_agents_contact_is_refused(world: World) -> None:
    """Invariant I7."""
    sibling = await world.agent()
    hidden = await stored_contact(world, sibling, phone="+436641234567")
    run = await world.start(await world.agent())

    error = await refusal(run, "send_sms", contact_id=hidden.phone, body="Hi")

    assert error == {
        "code": "not_found",
        "message": "+436641234567 is an address of a contact of another agent.",
    }


@pytest.mark.parametrize(
    ("tool", "recipient", "message"),
    [
        ("send_message", "Ada", "contact_id takes an id or a phone number"),
        (
            "send_message",
            "0664 1234567",
            "contact_id takes an id, a phone number or an e-mail address. Enter",
        ),
        ("send_sms", "ada@example.com", "contact_id takes an id or a phone number"),
    ],
)
async def test_recipient_that_is_no_address_is_refused(
    world: World, tool: str, recipient: str, message: str
) -> None:
    run = await world.start(await world.agent())

    error = await refusal(run, tool, contact_id=recipient, body="Hi")

    assert (error["code"], error["parameter"]) == ("invalid", "contact_id")
    assert error["message"].startswith(message)
    assert await run.call("list_contacts") == []


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
    for name, argument in (("get_message", "message_id"), ("list_messages", "before")):
        for message_id in (hidden.id, new_id()):
            error = await refusal(run, name, **{argument: str(message_id)})
            assert error == {"code": "not_found", "message": f"You have no message {message_id}."}
