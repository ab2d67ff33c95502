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
    """A file that came with a message; it stays where it is."""

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
    """Without a status, an inbound message is `received` and an outbound one is `queued`."""

    agent_id = Uuid(data_key="agent", required=True)
    contact_id = Uuid(data_key="contact", allow_none=True, load_default=None)
    channel = Choice(Channel, required=True)
    direction = Choice(Direction, required=True)
    subject = Line(max_length=998, load_default="")
    body = Text(load_default="")
    attachments = ListOf(ObjectOf(AttachmentBody), load_default=list)
    status = Choice(MessageStatus, load_default=None)


class MessageChangesBody(_MessageBody):
    contact_id = Uuid(data_key="contact", allow_none=True)
    subject = Line(max_length=998)
    body = Text()
    attachments = ListOf(ObjectOf(AttachmentBody))
    status = Choice(MessageStatus)


class MessageQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    contact = Uuid(load_default=None)
    channel = Choice(Channel, load_default=None)
    direction = Choice(Direction, load_default=None)


class MessageResponse(TypedDict):
    id: UUID
    agent: UUID
    contact: UUID | None
    channel: Channel
    direction: Direction
    subject: str
    body: str
    attachments: Sequence[Attachment]
    status: MessageStatus
    created_at: datetime


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
