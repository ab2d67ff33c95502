"""Message tools: an agent writes to contacts, reads what was written, and opens what was attached."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from storage.channels.addresses import InvalidAddress, is_email, is_sender_name
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
from storage.notifications.notifications import NewNotification
from storage.toolbox import CallableTool
from supervisors.clock import Clock
from supervisors.text import cut, excerpt, format_local
from supervisors.tools.adapter_tools import AdapterTools
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.contacts import require_may_create, summary
from supervisors.tools.builtin.listing import (
    LIMIT,
    more,
    named_correspondent,
    named_resource,
    reaches,
    read_page,
)
from supervisors.tools.tool import PartialResult, ToolDefinition, ToolInvocation, agent_tool, schema

CONTACT_ID = {
    "type": "string",
    "description": (
        "The contact, as in source_id of its notification, or its phone number or e-mail address; or your "
        "parent or child agent."
    ),
}

SEND_MESSAGE = ToolDefinition(
    name="send_message",
    description=(
        "Sends a message to a contact by the channel and to the address that it last wrote from, or to the "
        "phone number or e-mail address that you give; or to a related agent."
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
    description="Sends an SMS to a contact or a phone number, or a message to a related agent.",
    parameters=schema(("contact_id", "body"), contact_id=CONTACT_ID, body={"type": "string"}),
)


STORE_SECONDS = 10.0  # from the end of a call until its result is stored
MAX_ERROR = 500  # characters of the reason that a message keeps
MAX_LISTED_CHARACTERS = 2000  # of a body in a list


MAX_TEXT_BYTES = 16_384  # of all attachments of a message that are shown as text
TEXT_TYPES = frozenset({"application/json", "application/xml", "application/x-yaml"})


class Messaging:
    """Sends messages of agents: to related agents as notifications, to contacts through adapter tools."""

    def __init__(self, adapters: AdapterTools, clock: Clock) -> None:
        self._adapters = adapters
        self._clock = clock
        self.failed: Counter[Channel] = Counter()

    async def send_message(self, call: ToolInvocation) -> dict[str, Any]:
        """Send a message to a related agent, or to a contact.

        A contact gets it by the channel of its last message, at the address that it wrote from; else by a
        channel that it has an address for.
        """
        subject = " ".join(call.arguments.text("subject", "").split())  # one line: it may become a header
        return await self._write(call, subject)

    async def send_sms(self, call: ToolInvocation) -> dict[str, Any]:
        """Send an SMS to a contact, or a message to a related agent."""
        return await self._write(call, "", Channel.SMS)

    async def _write(self, call: ToolInvocation, subject: str, only: Channel | None = None) -> dict[str, Any]:
        """Store the message, then call the tool of its channel; the call id is the message's id."""
        body = call.arguments.written("body")
        recipient, origin = await _recipient(call, only)
        if isinstance(recipient, Agent):
            return await _notify_relative(call, recipient, subject, body)
        channel = only or (origin.channel if origin else _channel_of(recipient))
        address = _address(recipient, channel, origin)
        earlier = await call.stores.messages.get(call.message_id) if call.message_id else None
        if earlier is not None:
            return await self._repeat(call, earlier, recipient)
        message = _message(call, recipient, channel, address, subject, body)
        tool = await self._adapters.channel(call.agent, channel)
        if tool is None:
            self.failed[channel] += 1
            message = replace(message, status=MessageStatus.FAILED, error=_no_channel(message).message)
        try:
            await call.stores.messages.insert(message, actor=call.actor)
        except ReferenceMissing as error:
            raise ToolError("not_found", "The contact was deleted.") from error
        if tool is None:
            raise _no_channel(message)
        return await self._post(call, tool, message, recipient)

    async def _repeat(self, call: ToolInvocation, message: Message, contact: Contact) -> dict[str, Any]:
        """Send a message that an earlier run stored as it is stored, unless it is known to be sent.

        The tool of the channel gets the same id again, by which it knows a message that it has sent already.
        """
        if message.status is MessageStatus.SENT:
            return _result(message, message.status)
        tool = await self._adapters.channel(call.agent, message.channel)
        if tool is None:
            raise _no_channel(message)
        await self._requeue(call, message)
        return await self._post(call, tool, message, contact)

    async def send_again(self, call: ToolInvocation, message: Message) -> None:
        """Send a message that failed, under its own id, unless that has just been done.

        Raise ToolError if it cannot be sent, or is an inbound one.
        """
        if message.direction is Direction.INBOUND:
            raise ToolError("invalid", "This message came in; only outbound messages are sent.")
        contact = await call.stores.contacts.get(message.contact_id) if message.contact_id else None
        if contact is None:
            raise ToolError("not_found", "The contact was deleted.")
        tool = await self._adapters.channel(call.agent, message.channel)
        if tool is None:
            raise _no_channel(message)
        if await self._requeue(call, message):
            await self._post(call, tool, message, contact)
        elif await call.stores.messages.is_being_sent(message.id, self._clock.now()):
            raise ToolError("being_sent", "The message is being sent at this moment.")

    async def _requeue(self, call: ToolInvocation, message: Message) -> bool:
        """Set the message back to queued. No other request sends it while the call of its tool may go on."""
        now, longest = self._clock.now(), self._adapters.max_call_seconds + STORE_SECONDS
        return await call.stores.messages.requeue(message.id, now, now + timedelta(seconds=longest))

    async def _post(
        self, call: ToolInvocation, tool: CallableTool, message: Message, contact: Contact
    ) -> dict[str, Any]:
        status, failure = MessageStatus.SENT, None
        try:
            await self._adapters.post(call, tool, message.id, _arguments(message, contact))
        except ToolError as error:
            status, failure = MessageStatus.FAILED, error
            self.failed[message.channel] += 1
        reason = excerpt(failure.message, MAX_ERROR) if failure else ""
        status = await call.stores.messages.update_queued(
            message.id, status, self._clock.now(), error=reason, actor=call.actor
        )
        if failure is None:
            return _result(message, status)
        details = {**failure.details, **_kept(message)}
        message_kept = f"The message is kept as {status}. {failure.message}"
        raise ToolError(failure.code, message_kept, **details) from failure


async def _recipient(
    call: ToolInvocation, channel: Channel | None = None
) -> tuple[Contact | Agent, Origin | None]:
    """Return a contact that the agent may write to, its parent, or one of its children.

    A contact comes with the origin of its last message to the agent. The agent may write to its own contacts,
    to those of all agents, and to those that have written to it. `channel`: the only one that is meant.
    """
    recipient = call.arguments.text("contact_id").strip()
    if not recipient:
        raise _withheld()
    try:
        recipient_id = UUID(recipient)
    except ValueError:
        return await _contact_at(call, recipient, channel)
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


async def _contact_at(call: ToolInvocation, text: str, only: Channel | None) -> tuple[Contact, Origin]:
    """Return the contact with a phone number or e-mail address, and that address to write to.

    If there is none it is created, for all agents of the organization, as the sender of a message is.
    """
    contacts, organization_id = call.stores.contacts, call.agent.organization_id
    try:
        address = await contacts.normalize_address(organization_id, text)
    except InvalidAddress as error:
        message = f"contact_id takes an id, a phone number or an e-mail address. {error}"
        raise ToolError("invalid", message, parameter="contact_id") from error
    if is_sender_name(address) or (only is Channel.SMS and is_email(address)):
        message = f"contact_id takes an id or a phone number, and {text} is none."
        raise ToolError("invalid", message, parameter="contact_id")
    contact = await contacts.find(organization_id, address)
    if contact is None:
        await require_may_create(call)
        contact = await contacts.find_or_insert(organization_id, address, call.now)
    last = await call.stores.messages.get_last_origin(call.agent.id, contact.id)
    if last is None and not reaches(call.agent, contact):
        raise ToolError("not_found", f"{address} is an address of a contact of another agent.")
    if is_email(address):
        return contact, Origin(Channel.EMAIL, address)
    is_phone = last is not None and last.channel is not Channel.EMAIL
    return contact, Origin(last.channel if last and is_phone else Channel.SMS, address)


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


def _message(
    call: ToolInvocation, contact: Contact, channel: Channel, address: str, subject: str, body: str
) -> Message:
    return Message(
        id=call.message_id or new_id(),
        organization_id=call.agent.organization_id,
        agent_id=call.agent.id,
        contact_id=contact.id,
        channel=channel,
        direction=Direction.OUTBOUND,
        subject=subject,
        body=body,
        address=address,
        attachments=(),
        status=MessageStatus.QUEUED,
        created_at=call.now,
        run_id=call.run_id,
    )


def _result(message: Message, status: MessageStatus) -> dict[str, Any]:
    return {
        "message_id": str(message.id),
        "contact_id": str(message.contact_id),
        "channel": message.channel,
        "status": status,
    }


def _arguments(message: Message, contact: Contact) -> dict[str, Any]:
    """Return the arguments of a channel's tool. They do not depend on its `parameters`."""
    return {
        "message_id": str(message.id),
        "channel": message.channel,
        "to": message.address,
        "contact": summary(contact),
        "subject": message.subject,
        "body": message.body,
    }


def _no_channel(message: Message) -> ToolError:
    return ToolError(
        "no_channel",
        f"You have no tool that sends messages by {message.channel}. The message was not sent, but is kept.",
        **_kept(message),
    )


def _kept(message: Message) -> dict[str, str]:
    """Return what an error says of the message that was not sent."""
    return {
        "channel": message.channel,
        "message_id": str(message.id),
        "contact_id": str(message.contact_id),
    }


def _withheld() -> ToolError:
    return ToolError(
        "no_address",
        "This cannot be answered: it comes from no person, or its sender withheld its address. A "
        "notification that can be answered has the id of a contact as its source_id.",
    )


def _unknown(recipient_id: UUID) -> ToolError:
    return ToolError("not_found", f"You have no contact, parent or child {recipient_id}.")


@agent_tool(
    "Lists the last messages with a contact, or with all, newest last; long bodies are cut.",
    contact_id={"type": "string", "format": "uuid"},
    limit=LIMIT,
    before={"type": "string", "format": "uuid", "description": "Lists those before this message."},
)
async def list_messages(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the agent's last messages, in the order in which they were written."""
    messages, agent, contact_id = call.stores.messages, call.agent, None
    if call.arguments.given.get("contact_id") is not None:
        contact_id = (await named_correspondent(call)).id
    filters = MessageFilters((agent.organization_id,), agent.id, contact_id)
    fetch, serialize = partial(messages.list_page, filters), partial(_summary, agent.timezone)
    page = await read_page(call, "message", messages.get, fetch, serialize, argument="before")
    items = page.items[::-1]
    return PartialResult(items, more("before", items[0])) if page.has_more else items


@agent_tool(
    "Reads a message with its whole body.", ("message_id",), message_id={"type": "string", "format": "uuid"}
)
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


@agent_tool(
    "Opens what was attached to a message that came in, or to a notification: the name, type and size of "
    "each file, the text of text files, and addresses to read files from.",
    ("message_id",),
    message_id={"type": "string", "format": "uuid", "description": "As in the body of its notification."},
    start={"type": "integer", "minimum": 0, "default": 0, "description": "The byte of texts to begin at."},
)
async def open_sms_attachment(call: ToolInvocation) -> dict[str, Any]:
    """Return the attachments of a message that the agent received, or of a notification.

    The text of uploaded text files is included, MAX_TEXT_BYTES of all together.
    """
    message_id = call.arguments.id("message_id")
    start = call.arguments.integer("start", 0, minimum=0)
    opened, remaining = [], MAX_TEXT_BYTES
    for attachment in await _received(call, message_id):
        shown = _shown(attachment)
        if remaining and attachment.id is not None and _is_text(attachment.content_type):
            part = await call.stores.attachments.get_part(attachment.id, start, remaining)
            remaining -= len(part)
            shown["text"] = part.decode(errors="replace").replace("\x00", "\ufffd")
            shown["is_cut"] = start + len(part) < (attachment.size or 0)
            if shown["is_cut"]:
                shown["next_start"] = start + len(part)
        opened.append(shown)
    return {"message_id": str(message_id), "attachments": opened}


async def _received(call: ToolInvocation, id_: UUID) -> Sequence[Attachment]:
    """Return what came with a message for the agent, or with the notification with this id."""
    message = await call.stores.messages.get(id_)
    if message is not None and message.agent_id == call.agent.id and message.direction is Direction.INBOUND:
        return message.attachments
    payload = await call.stores.attachments.get(id_)
    if payload is None or payload.agent_id != call.agent.id or payload.message_id is not None:
        raise ToolError("not_found", f"You were sent no message {id_}.")
    path = f"/api/defaults/attachments/{id_}/"
    return (Attachment(payload.name, payload.content_type, path, id_, payload.size),)


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
