"""Messages: request bodies, queries and responses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from marshmallow import ValidationError

from storage.channels.messages import Attachment, Channel, Direction, Message, MessageStatus
from web.fields import Choice, Line, ListOf, ObjectOf, Text, Url, Uuid
from web.json import to_json
from web.paging import CreatedPageQuery
from web.request.parsing import Body

MAX_ATTACHMENTS_BYTES = 262_144  # of all attachments of a message, as JSON


class AttachmentBody(Body):
    """A file that belongs to a message; it stays where it is."""

    name = Line(max_length=255, load_default="")
    content_type = Line(max_length=255, load_default="")
    url = Url(required=True, blank=False, max_length=2000)


class _MessageBody(Body):
    """Limits what a message has beside its body."""

    def check_together(self, checked: Mapping[str, Any]) -> None:
        if len(to_json(checked.get("attachments", ()))) > MAX_ATTACHMENTS_BYTES:
            message = f"Ensure this field has no more than {MAX_ATTACHMENTS_BYTES} bytes as JSON."
            raise ValidationError({"attachments": [message]})


class NewMessageBody(_MessageBody):
    """A new message."""

    agent_id = Uuid(data_key="agent", required=True)
    contact_id = Uuid(data_key="contact", allow_none=True, load_default=None)
    channel = Choice(Channel, required=True)
    direction = Choice(Direction, required=True)
    subject = Line(max_length=998, load_default="")
    body = Text(load_default="")
    attachments = ListOf(ObjectOf(AttachmentBody), load_default=list)
    status = Choice(MessageStatus, load_default=None)
    """Left out or null: `received` if it is inbound, `queued` if it is outbound."""


class MessageChangesBody(_MessageBody):
    """The fields to change; agent, channel and direction stay."""

    contact_id = Uuid(data_key="contact", allow_none=True)
    subject = Line(max_length=998)
    body = Text()
    attachments = ListOf(ObjectOf(AttachmentBody))
    status = Choice(MessageStatus)


class MessageQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only messages to or from this agent."""
    contact = Uuid(load_default=None)
    """Only messages to or from this contact."""
    channel = Choice(Channel, load_default=None)
    """Only messages of this channel."""
    direction = Choice(Direction, load_default=None)
    """Only messages in this direction."""


class MessageResponse(TypedDict):
    """A message between an agent and a contact."""

    id: UUID
    """Chosen by the service; the agent's tool `open_sms_attachment` takes it."""
    agent: UUID
    """The agent that wrote the message or gets it."""
    contact: UUID | None
    """The contact at the other end; null if it is not known or was deleted."""
    channel: Channel
    """The way that the message travels, and the source of an inbound message's notification."""
    direction: Direction
    """Whether the agent gets the message or wrote it."""
    subject: str
    """One line, for channels that have subjects; else ""."""
    body: str
    """The text; "" if there are only attachments."""
    attachments: Sequence[Attachment]
    """Files that belong to the message, at most 262,144 bytes of JSON together."""
    status: MessageStatus
    """How far the message has come; the tool of its channel may set it."""
    created_at: datetime
    """When the message was stored."""


def serialize_message(message: Message) -> MessageResponse:
    return {
        "id": message.id,
        "agent": message.agent_id,
        "contact": message.contact_id,
        "channel": message.channel,
        "direction": message.direction,
        "subject": message.subject,
        "body": message.body,
        "attachments": message.attachments,
        "status": message.status,
        "created_at": message.created_at,
    }
