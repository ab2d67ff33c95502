"""Messages: request bodies, queries and responses."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from marshmallow import ValidationError

from storage.channels.addresses import MAX_ADDRESS_LENGTH
from storage.channels.messages import (
    Attachment,
    Channel,
    Direction,
    Message,
    MessageStatus,
)
from web.fields import Choice, Line, ListOf, ObjectOf, Text, Url, Uuid
from web.json import to_json
from web.paging import CreatedPageQuery
from web.request.file_fields import Files
from web.request.parsing import Body
from web.serializers import Serializer

UPLOADED_PATH = re.compile(r"/api/defaults/attachments/[0-9a-f-]{36}/")
MAX_ATTACHMENTS_BYTES = 262_144  # of all attachments of a message, as JSON


class AttachmentBody(Body):
    """A file elsewhere that belongs to a message; it stays where it is."""

    name = Line(max_length=255, load_default="")
    """The file name; "" if it is not known."""
    content_type = Line(max_length=255, load_default="")
    """A media type such as `image/png`; "" if it is not known."""
    url = Url(required=True, blank=False, max_length=2000)
    """The http or https address of the file, which the agent's tool `open_sms_attachment` shows."""


class _AnyAttachmentUrl(Url):
    """An address of a file elsewhere, or the path of an uploaded one."""

    def matches(self, text: str) -> bool:
        return UPLOADED_PATH.fullmatch(text) is not None or super().matches(text)


class AttachmentChangesBody(AttachmentBody):
    """A file of a message; uploaded files stay, whether they are in the list or not."""

    url = _AnyAttachmentUrl(required=True, blank=False, max_length=2000)
    """The http or https address of a file elsewhere, or the path of an uploaded file of this message."""


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
    sender = Line(data_key="from", max_length=MAX_ADDRESS_LENGTH, allow_none=True, load_default=None)
    """The sender of an inbound message, whose contact is found or created: a phone number, a short code, a
    name that carriers show, or an e-mail address. "" or `anonymous`: it is withheld; null: see `contact`."""
    channel = Choice(Channel, required=True)
    direction = Choice(Direction, required=True)
    subject = Line(max_length=998, load_default="")
    body = Text(load_default="")
    attachments = ListOf(ObjectOf(AttachmentBody), load_default=list)
    status = Choice(MessageStatus, load_default=None)
    """Left out or null: `received` if it is inbound, `queued` if it is outbound."""
    files = Files()
    """Up to 20 files to store with the message, as parts with file names in `multipart/form-data`. Together
    they have at most `limits.attachment_bytes`."""

    def check_together(self, checked: Mapping[str, Any]) -> None:
        super().check_together(checked)
        if checked["sender"] is None:
            return
        if checked["contact_id"] is not None:
            raise ValidationError({"from": ["Only one of from and contact may be given."]})
        if checked["direction"] is Direction.OUTBOUND:
            raise ValidationError({"from": ["Only an inbound message has a sender; use contact instead."]})


class MessageChangesBody(_MessageBody):
    """The fields to change; agent, channel and direction stay."""

    contact_id = Uuid(data_key="contact", allow_none=True)
    subject = Line(max_length=998)
    body = Text()
    attachments = ListOf(ObjectOf(AttachmentChangesBody))
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


class AttachmentResponse(TypedDict):
    """A file elsewhere that belongs to a message; the service does not store it."""

    name: str
    """The file name; "" if it is not known."""
    content_type: str
    """A media type such as `image/png`; "" if it is not known."""
    url: str
    """The http or https address of the file, which the agent's tool `open_sms_attachment` shows."""


class UploadedAttachmentResponse(TypedDict):
    """A file that was uploaded with a message."""

    id: UUID
    """Chosen by the service; `/api/defaults/attachments/{id}/` answers with the content."""
    name: str
    """The name that the file was sent with, without folders; "" if it had none."""
    content_type: str
    """The media type that was sent, or `application/octet-stream` if the content contradicts it."""
    url: str
    """The path in this API where the file can be downloaded, with the usual credentials."""
    size: int
    """The number of bytes."""


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
    address: str
    """The address that an inbound message came from, or an outbound one went to; "" if it is not known."""
    attachments: Sequence[AttachmentResponse | UploadedAttachmentResponse]
    """Files that belong to the message: those that were uploaded with it, then those elsewhere."""
    status: MessageStatus
    """How far the message has come; the tool of its channel may set it."""
    created_at: datetime
    """When the message was stored."""


_serialize_fields = Serializer(MessageResponse, Message)


def serialize_message(message: Message) -> MessageResponse:
    attachments = [_serialize_attachment(attachment) for attachment in message.attachments]
    return {**_serialize_fields(message), "attachments": attachments}


def _serialize_attachment(attachment: Attachment) -> AttachmentResponse | UploadedAttachmentResponse:
    link: AttachmentResponse = {
        "name": attachment.name,
        "content_type": attachment.content_type,
        "url": attachment.url,
    }
    if attachment.id is None:
        return link
    return {"id": attachment.id, **link, "size": attachment.size or 0}
