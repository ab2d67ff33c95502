"""Message tools: an agent writes to contacts, reads what was written, and opens what was attached."""

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from storage.channels.addresses import is_email, is_sender_name
from storage.channels.contacts import Contact
from storage.channels.messages import (
    Attachment,
    Channel,
    Direction,
    Message,
    MessageFilters,
    MessageStatus,
    Origin,
)
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.model import Agent, Priority, Source
from storage.notifications.inserts import NewNotification
from storage.toolbox.agent_tools import CallableTool
from supervisors.clock import Clock
from supervisors.text import cut, format_local
from supervisors.tools.adapter_tools import AdapterTools
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.listing import (
    LIMIT,
    by_creation,
    more,
    named_correspondent,
    named_cursor,
    named_resource,
    reaches,
    read_page,
)
from supervisors.tools.tool import PartialResult, ToolDefinition, ToolInvocation, schema

CONTACT_ID = {
    "type": "string",
    "format": "uuid",
    "description": "The contact, as in source_id of its notification; or your parent or child agent.",
}

SEND_MESSAGE = ToolDefinition(
    name="send_message",
    description=(
        "Sends a message to a contact by the channel and to the address that it last wrote from, "
        "or to a related agent."
    ),
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

MAX_LISTED_CHARACTERS = 2000  # of a body in a list

LIST_MESSAGES = ToolDefinition(
    name="list_messages",
    description="Lists the last messages with a contact, or with all, newest last; long bodies are cut.",
    parameters=schema(
        contact_id={"type": "string", "format": "uuid"},
        limit=LIMIT,
        before={"type": "string", "format": "uuid", "description": "Lists those before this message."},
    ),
)

GET_MESSAGE = ToolDefinition(
    name="get_message",
    description="Reads a message with its whole body.",
    parameters=schema(("message_id",), message_id={"type": "string", "format": "uuid"}),
)

MAX_TEXT_BYTES = 16_384  # of all attachments of a message that are shown as text
TEXT_TYPES = frozenset({"application/json", "application/xml", "application/x-yaml"})

OPEN_SMS_ATTACHMENT = ToolDefinition(
    name="open_sms_attachment",
    description=(
        "Opens what was attached to a message that came in: the name, type and size of each file, "
        "the text of text files, and addresses to read files from."
    ),
    parameters=schema(
        ("message_id",),
        message_id={"type": "string", "format": "uuid", "description": "As in the body of its notification."},
    ),
)


class Messaging:
    """Sends messages of agents: to related agents as notifications, to contacts through adapter tools."""

    def __init__(self, adapters: AdapterTools, clock: Clock) -> None:
        self._adapters = adapters
        self._clock = clock

    async def send_message(self, call: ToolInvocation) -> dict[str, Any]:
        """Send a message to a related agent, or to a contact.

        A contact gets it by the channel of its last message, at the address that it wrote from; else by a
        channel that it has an address for.
        """
        recipient, origin = await _recipient(call)
        body = call.arguments.written("body")
        subject = " ".join(call.arguments.text("subject", "").split())  # one line: it may become a header
        if isinstance(recipient, Agent):
            return await _notify_relative(call, recipient, subject, body)
        channel = origin.channel if origin else _channel_of(recipient)
        address = _address(recipient, channel, origin)
        return await self._send(call, recipient, channel, address, subject, body)

    async def send_sms(self, call: ToolInvocation) -> dict[str, Any]:
        """Send an SMS to a contact, or a message to a related agent."""
        recipient, origin = await _recipient(call)
        body = call.arguments.written("body")
        if isinstance(recipient, Agent):
            return await _notify_relative(call, recipient, "", body)
        address = _address(recipient, Channel.SMS, origin)
        return await self._send(call, recipient, Channel.SMS, address, "", body)

    async def _send(
        self,
        call: ToolInvocation,
        contact: Contact,
        channel: Channel,
        address: str,
        subject: str,
        body: str,
    ) -> dict[str, Any]:
        """Store the message, then call the tool of its channel; the call id is the message's id."""
        earlier = await _earlier(call)
        if earlier is not None:
            return await self._repeat(call, earlier, contact)
        tool = await self._adapters.channel(call.agent, channel)
        message = replace(_message(call, contact, channel, subject, body), address=address)
        if tool is None:
            await _insert(call, replace(message, status=MessageStatus.FAILED))
            raise _no_channel(message)
        await _insert(call, message)
        return await self._post(call, tool, message, contact)

    async def _repeat(self, call: ToolInvocation, message: Message, contact: Contact) -> dict[str, Any]:
        """Send a message that an earlier run stored as it is stored, unless it is known to be sent.

        The tool of the channel gets the same id again, by which it knows a message that it has sent already.
        """
        if message.status is MessageStatus.SENT:
            return _result(message, message.status)
        tool = await self._adapters.channel(call.agent, message.channel)
        if tool is None:
            raise _no_channel(message)
        await call.stores.messages.requeue(message.id)
        return await self._post(call, tool, message, contact)

    async def _post(
        self, call: ToolInvocation, tool: CallableTool, message: Message, contact: Contact
    ) -> dict[str, Any]:
        try:
            await self._adapters.post(call, tool, message.id, _arguments(message, contact))
        except ToolError as error:
            status = await self._report(call, message, MessageStatus.FAILED)
            raise _not_sent(message, status, error) from error
        return _result(message, await self._report(call, message, MessageStatus.SENT))

    async def _report(self, call: ToolInvocation, message: Message, status: MessageStatus) -> MessageStatus:
        now = self._clock.now()
        return await call.stores.messages.update_queued(message.id, status, now, actor=call.actor)


async def _recipient(call: ToolInvocation) -> tuple[Contact | Agent, Origin | None]:
    """Return a contact that the agent may write to, its parent, or one of its children.

    A contact comes with the origin of its last message to the agent. The agent may write to its own contacts,
    to those of all agents, and to those that have written to it.
    """
    if not call.arguments.text("contact_id").strip():
        raise _withheld()
    recipient_id = call.arguments.id("contact_id")
    contact = await call.stores.contacts.get(recipient_id)
    if contact is not None and contact.organization_id == call.agent.organization_id:
        origin = await call.stores.messages.get_last_origin(call.agent.id, contact.id)
        if origin is not None or reaches(call.agent, contact):
            return contact, origin
    agent = await call.stores.agents.get(recipient_id)
    if agent is not None and (agent.id == call.agent.parent_id or agent.parent_id == call.agent.id):
        return agent, None
    message = await call.stores.messages.get(recipient_id)
    if message is not None and message.agent_id == call.agent.id and message.contact_id is None:
        raise _withheld()
    raise _unknown(recipient_id)


def _channel_of(contact: Contact) -> Channel:
    has_email = contact.email or any(map(is_email, contact.other_addresses))
    return Channel.SMS if contact.phone and not has_email else Channel.EMAIL


def _address(contact: Contact, channel: Channel, origin: Origin | None) -> str:
    """Return the address of the contact on this channel; "" if it has none.

    It is the one that the contact last wrote from, if that fits the channel. Raise ToolError if only a name
    is known of the contact, which takes no messages.
    """
    last = origin.address if origin else ""
    own = contact.email if channel is Channel.EMAIL else contact.phone
    shown = [address for address in (last, *contact.other_addresses) if is_sender_name(address)]
    usable = [address for address in (last, own, *contact.other_addresses) if address not in shown]
    if shown and not any((*usable, contact.email, contact.phone)):
        raise ToolError(
            "no_address", f"{shown[0]} is a name that its network showed, not a number: it takes no answers."
        )
    fitting = [address for address in usable if is_email(address) is (channel is Channel.EMAIL)]
    return next(filter(None, fitting), "")


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
        await call.stores.notifications.insert(notification, {call.agent.organization_id}, actor=call.actor)
    except ReferenceMissing as error:
        raise _unknown(relative.id) from error
    return {"agent": str(relative.id), "status": "delivered"}


def _message(call: ToolInvocation, contact: Contact, channel: Channel, subject: str, body: str) -> Message:
    return Message(
        id=call.message_id or new_id(),
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


def _result(message: Message, status: MessageStatus) -> dict[str, Any]:
    return {"message_id": str(message.id), "channel": message.channel, "status": status}


async def _earlier(call: ToolInvocation) -> Message | None:
    """Return the message that an earlier call stored under the chosen id, if there is one."""
    return None if call.message_id is None else await call.stores.messages.get(call.message_id)


async def _insert(call: ToolInvocation, message: Message) -> None:
    try:
        await call.stores.messages.insert(message, actor=call.actor)
    except ReferenceMissing as error:
        raise ToolError("not_found", "The contact was deleted.") from error


def _arguments(message: Message, contact: Contact) -> dict[str, Any]:
    """Return the arguments of a channel's tool. They do not depend on its `parameters`."""
    return {
        "message_id": str(message.id),
        "channel": message.channel,
        "to": message.address,
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


def _withheld() -> ToolError:
    return ToolError(
        "no_address",
        "The sender withheld its address, so its message cannot be answered. A notification that can be "
        "answered has the id of a contact as its source_id.",
    )


def _unknown(recipient_id: UUID) -> ToolError:
    return ToolError("not_found", f"You have no contact, parent or child {recipient_id}.")


async def list_messages(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the agent's last messages, in the order in which they were written."""
    messages, agent, contact_id = call.stores.messages, call.agent, None
    if call.arguments.given.get("contact_id") is not None:
        contact_id = (await named_correspondent(call)).id
    filters = MessageFilters((agent.organization_id,), agent.id, contact_id)
    before = await named_cursor(call, "before", "message", messages.get, by_creation)
    page = await read_page(
        call, partial(messages.list_page, filters), partial(_summary, agent.timezone), before
    )
    items = page.items[::-1]
    return PartialResult(items, more("before", items[0])) if page.has_more else items


async def get_message(call: ToolInvocation) -> dict[str, Any]:
    """Return one of the agent's messages."""
    message = await named_resource(call, "message_id", "message", call.stores.messages.get)
    return _serialize(call.agent.timezone, message)


def _summary(timezone: str, message: Message) -> dict[str, Any]:
    """Return the message with a short body, without a subject and attachments if it has none."""
    summary = _serialize(timezone, message)
    summary["body"] = cut(message.body, MAX_LISTED_CHARACTERS)
    return {name: value for name, value in summary.items() if value or name not in {"subject", "attachments"}}


def _serialize(timezone: str, message: Message) -> dict[str, Any]:
    return {
        "id": str(message.id),
        "contact": str(message.contact_id) if message.contact_id else None,
        "at": format_local(message.created_at, timezone),
        "direction": message.direction,
        "channel": message.channel,
        "status": message.status,
        "subject": message.subject,
        "body": message.body,
        "attachments": [attachment.name or attachment.content_type for attachment in message.attachments],
    }


async def open_sms_attachment(call: ToolInvocation) -> dict[str, Any]:
    """Return the attachments of a message that the agent received.

    The text of uploaded text files is included, the first MAX_TEXT_BYTES of all together.
    """
    message_id = call.arguments.id("message_id")
    message = await call.stores.messages.get(message_id)
    if message is None or message.agent_id != call.agent.id or message.direction is not Direction.INBOUND:
        raise ToolError("not_found", f"You were sent no message {message_id}.")
    opened, remaining = [], MAX_TEXT_BYTES
    for attachment in message.attachments:
        shown = _shown(attachment)
        if remaining and attachment.id is not None and _is_text(attachment.content_type):
            start = await call.stores.attachments.get_start(attachment.id, remaining)
            remaining -= len(start)
            shown["text"] = start.decode(errors="replace").replace("\x00", "\ufffd")
            shown["is_cut"] = len(start) < (attachment.size or 0)
        opened.append(shown)
    return {"message_id": str(message.id), "attachments": opened}


def _shown(attachment: Attachment) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": attachment.name,
        "content_type": attachment.content_type,
        "url": attachment.url,
    }
    if attachment.id is not None:
        shown |= {"id": str(attachment.id), "size": attachment.size}
    return shown


def _is_text(content_type: str) -> bool:
    return content_type.startswith("text/") or content_type in TEXT_TYPES
