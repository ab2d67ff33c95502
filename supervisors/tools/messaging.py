"""Messaging tools: write to contacts, parents and children, and open the attachments of contacts."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from storage.channels.contacts import Contact
from storage.channels.messages import Channel, Direction, Message, MessageStatus
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.model import Agent, Priority, Source
from storage.notifications.inserts import NewNotification
from supervisors.tools.adapter_tools import AdapterTools
from supervisors.tools.errors import ToolError
from supervisors.tools.toolkit import ToolDefinition, ToolInvocation, schema

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
        message_id={"type": "string", "format": "uuid", "description": "As in the body of its notification."},
    ),
)


class Messaging:
    """Sends messages of agents: to related agents as notifications, to contacts through adapter tools."""

    def __init__(self, adapters: AdapterTools) -> None:
        self._adapters = adapters

    async def send_message(self, call: ToolInvocation) -> dict[str, Any]:
        """Send a message to a related agent, or to a contact.

        A contact gets it by the channel of its last message, else by the one that it has an address for.
        """
        recipient = await _recipient(call)
        body = call.arguments.text("body")
        subject = " ".join(call.arguments.text("subject", "").split())  # one line: it may become a header
        if isinstance(recipient, Agent):
            return await _notify_relative(call, recipient, subject, body)
        channel = await call.stores.messages.get_last_channel(call.agent.id, recipient.id)
        return await self._send(call, recipient, channel or _channel_of(recipient), subject, body)

    async def send_sms(self, call: ToolInvocation) -> dict[str, Any]:
        """Send an SMS to a contact, or a message to a related agent."""
        recipient = await _recipient(call)
        body = call.arguments.text("body")
        if isinstance(recipient, Agent):
            return await _notify_relative(call, recipient, "", body)
        return await self._send(call, recipient, Channel.SMS, "", body)

    async def _send(
        self, call: ToolInvocation, contact: Contact, channel: Channel, subject: str, body: str
    ) -> dict[str, Any]:
        """Store the message, then call the tool of its channel; the call id is the message's id."""
        tool = await self._adapters.channel(call.agent, channel)
        message = _message(call, contact, channel, subject, body)
        if tool is None:
            await _insert(call, replace(message, status=MessageStatus.FAILED))
            raise _no_channel(message)
        await _insert(call, message)
        try:
            await self._adapters.post(call, tool, message.id, _arguments(message, contact))
        except ToolError as error:
            status = await call.stores.messages.update_queued(message.id, MessageStatus.FAILED)
            raise _not_sent(message, status, error) from error
        status = await call.stores.messages.update_queued(message.id, MessageStatus.SENT)
        return {"message_id": str(message.id), "channel": channel, "status": status}


async def open_sms_attachment(call: ToolInvocation) -> dict[str, Any]:
    """List the attachments of a message that the agent received."""
    message_id = call.arguments.id("message_id")
    message = await call.stores.messages.get(message_id)
    if message is None or message.agent_id != call.agent.id or message.direction is not Direction.INBOUND:
        raise ToolError("not_found", f"You were sent no message {message_id}.")
    attachments = [
        {"name": attachment.name, "content_type": attachment.content_type, "url": attachment.url}
        for attachment in message.attachments
    ]
    return {"message_id": str(message.id), "attachments": attachments}


async def _recipient(call: ToolInvocation) -> Contact | Agent:
    """Return a contact that the agent may write to, its parent, or one of its children."""
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


async def _notify_relative(call: ToolInvocation, relative: Agent, subject: str, body: str) -> dict[str, Any]:
    notification = NewNotification(
        id=new_id(),
        agent_id=relative.id,
        source=Source.SUBAGENT,
        source_id=str(call.agent.id),
        title=subject or f"Message from {call.agent.name}",
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


def _message(call: ToolInvocation, contact: Contact, channel: Channel, subject: str, body: str) -> Message:
    return Message(
        id=new_id(),
        organization_id=call.agent.organization_id,
        agent_id=call.agent.id,
        contact_id=contact.id,
        channel=channel,
        direction=Direction.OUTBOUND,
        subject=subject,
        body=body,
        attachments=(),
        status=MessageStatus.QUEUED,
        created_at=call.now,
        run_id=call.run_id,
    )


async def _insert(call: ToolInvocation, message: Message) -> None:
    try:
        await call.stores.messages.insert(message)
    except ReferenceMissing as error:
        raise ToolError("not_found", "The contact was deleted.") from error


def _arguments(message: Message, contact: Contact) -> dict[str, Any]:
    """Return the arguments of a channel's tool. They do not depend on its `parameters`."""
    return {
        "message_id": str(message.id),
        "channel": message.channel,
        "contact": {
            "id": str(contact.id),
            "name": contact.name,
            "email": contact.email,
            "phone": contact.phone,
        },
        "subject": message.subject,
        "body": message.body,
    }


def _no_channel(message: Message) -> ToolError:
    return ToolError(
        "no_channel",
        f"You have no tool that sends messages by {message.channel}. The message was not sent, but is kept.",
        channel=message.channel,
        message_id=str(message.id),
    )


def _not_sent(message: Message, status: MessageStatus, error: ToolError) -> ToolError:
    """Return the error of the channel's tool with the details of the message."""
    details = {**error.details, "channel": message.channel, "message_id": str(message.id)}
    return ToolError(error.code, f"The message is kept as {status}. {error.message}", **details)


def _unknown(recipient_id: UUID) -> ToolError:
    return ToolError("not_found", f"You have no contact, parent or child {recipient_id}.")
