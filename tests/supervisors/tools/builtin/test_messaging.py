"""The messaging tools: who may be written to, and what happens to a message that cannot be sent."""

from typing import Any
from uuid import UUID

import pytest

from storage.channels.contacts import Contact
from storage.channels.messages import Channel, MessageStatus
from storage.ids import new_id
from storage.model import Agent, Source
from supervisors.tools.errors import ToolError
from tests.supervisors.world import Puppet, World


async def new_contact(
    world: World, organization_id: UUID, agent_id: UUID | None = None, name: str = "Ada"
) -> Contact:
    contact = Contact(new_id(), organization_id, agent_id, name, "", "+15550100", {}, world.clock.now())
    await world.storage.contacts.insert(contact)
    return contact


async def refusal(run: Puppet, tool: str, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as refused:
        await run.call(tool, **arguments)
    return refused.value


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

    assert (error.code, error.details["channel"]) == ("no_channel", Channel.SMS)
    message = await world.storage.messages.get(UUID(error.details["message_id"]))
    assert message is not None
    assert (message.status, message.body) == (MessageStatus.FAILED, "Hi")


@pytest.mark.parametrize("tool", ["send_message", "send_sms"])
async def test_message_without_a_text_is_refused(world: World, tool: str) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    contact = await new_contact(world, agent.organization_id)

    error = await refusal(run, tool, contact_id=str(contact.id), body=" \n")

    assert (error.code, error.message) == ("invalid", "body takes a text that is not blank.")


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
        assert error.as_json() == {
            "code": "not_found",
            "message": f"You have no contact, parent or child {recipient_id}.",
        }


async def test_attachments_of_an_unknown_message_are_not_found(world: World) -> None:
    run = await world.start(await world.agent())

    error = await refusal(run, "open_sms_attachment", message_id=str(new_id()))

    assert error.code == "not_found"
