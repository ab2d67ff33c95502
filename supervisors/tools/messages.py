"""Writing to contacts, parents and children, and opening what contacts have sent."""

from typing import Any
from uuid import UUID

from storage.arrivals import NewNotification
from storage.contacts import Contact
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.messages import Channel, Direction, Message, MessageStatus
from storage.model import Agent, Priority, Source
from supervisors.tools.errors import ToolError
from supervisors.tools.toolkit import ToolCall, ToolDefinition, schema

CONTACT_ID = {
    "type": "string",
    "format": "uuid",
    "description": "The contact, as in source_id of its notification; or your parent or child agent.",
}

SEND_MESSAGE = ToolDefinition(
    name="send_message",
    description="Sends a message to a contact by the channel that it last wrote by, or to a related agent.",
    parameters=schema(
        ("contact_id", "body"),
        contact_id=CONTACT_ID,
        body={"type": "string"},
        subject={"type": "string", "default": ""},
    ),
)

SEND_SMS = ToolDefinition(
    name="send_sms",
    description="Sends an SMS to a contact, or a message to a related agent.",
    parameters=schema(("contact_id", "body"), contact_id=CONTACT_ID, body={"type": "string"}),
)

OPEN_SMS_ATTACHMENT = ToolDefinition(
    name="open_sms_attachment",
    description="Lists what was attached to a message that came in, with addresses to read it from.",
    parameters=schema(
        ("message_id",),
        message_id={
            "type": "string",
            "format": "uuid",
            "description": "As in the body of its notification.",
        },
    ),
)


async def send_message(call: ToolCall) -> dict[str, Any]:
    """To a contact by the channel it last wrote by, else by what address it has; or to a relative."""
    recipient = await _recipient(call)
    body, subject = call.arguments.text("body"), call.arguments.text("subject", "")
    if isinstance(recipient, Agent):
        return await _tell_relative(call, recipient, subject, body)
    channel = await call.stores.messages.last_channel(call.agent.id, recipient.id)
    raise _no_channel(await _keep(call, recipient, channel or _channel_of(recipient), subject, body))


async def send_sms(call: ToolCall) -> dict[str, Any]:
    """To a contact, or to a relative."""
    recipient = await _recipient(call)
    body = call.arguments.text("body")
    if isinstance(recipient, Agent):
        return await _tell_relative(call, recipient, "", body)
    raise _no_channel(await _keep(call, recipient, Channel.SMS, "", body))


async def open_sms_attachment(call: ToolCall) -> dict[str, Any]:
    """The attachments of a message that came in for the agent."""
    message_id = call.arguments.id("message_id")
    message = await call.stores.messages.get(message_id)
    if message is None or message.agent_id != call.agent.id or message.direction is not Direction.INBOUND:
        raise ToolError("not_found", f"You were sent no message {message_id}.")
    attachments = [
        {"name": attachment.name, "content_type": attachment.content_type, "url": attachment.url}
        for attachment in message.attachments
    ]
    return {"message_id": str(message.id), "attachments": attachments}


async def _recipient(call: ToolCall) -> Contact | Agent:
    """A contact that the agent may know, its parent, or one of its children."""
    recipient_id = call.arguments.id("contact_id")
    contact = await call.stores.contacts.get(recipient_id)
    if (
        contact is not None
        and contact.organization_id == call.agent.organization_id
        and contact.agent_id in {None, call.agent.id}
    ):
        return contact
    agent = await call.stores.agents.get(recipient_id)
    if agent is not None and (agent.id == call.agent.parent_id or agent.parent_id == call.agent.id):
        return agent
    raise _unknown(recipient_id)


def _channel_of(contact: Contact) -> Channel:
    return Channel.SMS if contact.phone and not contact.email else Channel.EMAIL


async def _tell_relative(call: ToolCall, relative: Agent, subject: str, body: str) -> dict[str, Any]:
    notification = NewNotification(
        id=new_id(),
        agent_id=relative.id,
        source=Source.SUBAGENT,
        source_id=str(call.agent.id),
        title=subject.strip() or f"Message from {call.agent.name}",
        body=body,
        priority=Priority.HIGH,
        created_at=call.now,
        scheduled_for=None,
    )
    try:
        await call.stores.notifications.insert(notification, {call.agent.organization_id})
    except ReferenceMissing as error:
        raise _unknown(relative.id) from error
    return {"agent": str(relative.id), "status": "delivered"}


async def _keep(call: ToolCall, contact: Contact, channel: Channel, subject: str, body: str) -> Message:
    """The message as it is stored: no tool that would take it further can be called, so it has failed."""
    message = Message(
        id=new_id(),
        organization_id=call.agent.organization_id,
        agent_id=call.agent.id,
        contact_id=contact.id,
        channel=channel,
        direction=Direction.OUTBOUND,
        subject=subject,
        body=body,
        attachments=(),
        status=MessageStatus.FAILED,
        created_at=call.now,
    )
    try:
        await call.stores.messages.insert(message)
    except ReferenceMissing as error:
        raise _unknown(contact.id) from error
    return message


def _no_channel(message: Message) -> ToolError:
    return ToolError(
        "no_channel",
        f"You have no tool that sends messages by {message.channel}. The message was not sent, but is kept.",
        channel=message.channel,
        message_id=str(message.id),
    )


def _unknown(recipient_id: UUID) -> ToolError:
    return ToolError("not_found", f"You have no contact, parent or child {recipient_id}.")
