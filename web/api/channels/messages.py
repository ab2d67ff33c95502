"""Messages between agents and their contacts, with their files. An inbound one also notifies its agent."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from urllib.parse import quote
from uuid import UUID

from aiohttp import web
from marshmallow import ValidationError

from storage.channels.addresses import (
    BAD_EMAIL,
    MAX_ADDRESS_LENGTH,
    InvalidAddress,
    is_email,
    is_sender_name,
    is_withheld,
)
from storage.channels.contacts import Contact, Contacts, contact_with
from storage.channels.messages import (
    CHUNK_BYTES,
    Attachment,
    Channel,
    Direction,
    Message,
    MessageFilters,
    MessageStatus,
    StoredAttachment,
    Upload,
)
from storage.errors import AddressTaken, ConstraintError, ReferenceMissing
from storage.ids import new_id
from storage.model import Priority, Source
from storage.notifications.notifications import NewNotification
from storage.organization_limits import attachment_bytes
from web.access.auth import Caller, RunAccess
from web.access.path_access import delete_owned, load_of_agent, load_owned, require_agent, require_of_agent
from web.access.references import organization_for_new, require_same_owner
from web.app_keys import CLOCK, ROOM, SETTINGS, STORAGE
from web.errors import (
    Invalid,
    TooLarge,
    Unavailable,
    constraint_refusal,
    refusing_constraint_errors,
    require_found,
)
from web.fields import Boolean, Choice, Line, ListOf, ObjectOf, Text, Url, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer, to_json
from web.paging import CreatedPageQuery, answer_owned, period, send_pieces
from web.request.files import BINARY, Files, stored_type
from web.request.parsing import Body, read_body, read_query, room_for_files
from web.routes import Routes

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
    status = Choice(MessageStatus, load_default=None)
    """Only messages with this status."""
    needs_person = Boolean(load_default=None)
    """true: only messages that were not sent and that nobody has dealt with since. false: only others."""


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
    error: str
    """Why it was not sent, as far as that is known; "" for any other message."""
    needs_person: bool
    """Whether it was not sent, and neither sent again nor dismissed since."""
    run: UUID | None
    """The run that wrote it; null if there was none."""
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


@dataclass(frozen=True, slots=True)
class Sender:
    """The contact that wrote a message, if it is known, and its address, if the message names it."""

    address: str = ""
    contact: Contact | None = None
    is_new: bool = False
    is_withheld: bool = False


async def find_sender(
    contacts: Contacts, organization_id: UUID, body: Mapping[str, Any], now: datetime
) -> Sender:
    """Return the sender that a message names, with a new contact if none has its address; else its contact.

    Raise Invalid if it names no address, or no e-mail address although the message is an e-mail.
    """
    text = body["sender"]
    if text is None:
        return Sender(contact=await contacts.get(body["contact_id"]) if body["contact_id"] else None)
    if is_withheld(text):
        return Sender(is_withheld=True)
    try:
        address = await contacts.normalize_address(organization_id, text)
    except InvalidAddress as error:
        raise Invalid({"from": [str(error)]}) from error
    if body["channel"] is Channel.EMAIL and not is_email(address):
        raise Invalid({"from": [BAD_EMAIL]})
    contact = await contacts.find(organization_id, address)
    if contact is not None:
        return Sender(address, contact)
    name = text.strip() if is_sender_name(address) else ""
    return Sender(address, contact_with(organization_id, address, now, name), is_new=True)


routes = Routes()

DEFAULT_STATUS = {Direction.INBOUND: MessageStatus.RECEIVED, Direction.OUTBOUND: MessageStatus.QUEUED}
SENDER_ATTEMPTS = 5
ATTACHMENT_PATH = "/api/defaults/attachments/{id}/"
NOT_UPLOADED = "This message has no uploaded file with this address."
RETRY_SECONDS = 1
ATTACHMENT_HINT = "Attachments: {count}. Open them with the tool open_sms_attachment and the message id {id}."

WITHHELD_HINT = "The sender withheld its address, so this message cannot be answered."


@routes.create("/api/defaults/messages/", body=NewMessageBody, takes_files=True)
async def create_message(request: web.Request, caller: Caller) -> MessageResponse:
    """Store a message, with the files that a multipart form contains.

    An inbound message also puts a high notification into the agent's queue, which wakes the agent after its
    debounce window. If `from` names its sender, the contact with this address is found, or created with it.
    An outbound message is only stored: it is not sent. Agents send messages by their tools.
    """
    with room_for_files(request):
        body = await read_body_once(request, caller)
        organization_id = await organization_for_new(request, caller, body)
        uploads = _build_uploads(request, body)
        size = attachment_bytes(len(upload.content) for upload in uploads)
        async with request.app[STORAGE].limits.document_bytes.reserved(organization_id, size):
            return await _store_message(request, caller, organization_id, body, uploads)


async def _store_message(
    request: web.Request,
    caller: Caller,
    organization_id: UUID,
    body: Mapping[str, Any],
    uploads: Sequence[Upload],
) -> MessageResponse:
    """Store a message, an inbound one together with its sender, if that is new.

    Look for the sender again if another request has created its contact in between, or deleted it.
    """
    storage, now = request.app[STORAGE], request.app[CLOCK].now()
    for _ in range(SENDER_ATTEMPTS):
        sender = await find_sender(storage.contacts, organization_id, body, now)
        message = _build_message(body, organization_id, now, uploads, sender)
        answer = serialize_message(message)
        receipt = receipt_of(request, answer)
        try:
            if message.direction is Direction.OUTBOUND:
                await storage.messages.insert(message, receipt, uploads=uploads, actor=caller.identity)
            else:
                await storage.messages.receive(
                    message,
                    _build_notification(message, sender),
                    caller.roles,
                    receipt,
                    sender=sender.contact if sender.is_new else None,
                    uploads=uploads,
                    actor=caller.identity,
                )
        except ConstraintError as error:
            is_about_contact = isinstance(error, AddressTaken) or (
                isinstance(error, ReferenceMissing) and error.field == "contact"
            )
            if body["sender"] is None or not is_about_contact:
                raise constraint_refusal(error, body) from error
            continue
        return answer
    raise Unavailable("The contact of the sender is being changed.", RETRY_SECONDS)


def _build_uploads(request: web.Request, body: Mapping[str, Any]) -> list[Upload]:
    """Return the files of the body as they are stored. Raise TooLarge for too many bytes."""
    files, max_bytes = body["files"], request.app[SETTINGS].limits.attachment_bytes
    if sum(len(file.content) for file in files) > max_bytes:
        raise TooLarge(f"limits.attachment_bytes: the files of a message have at most {max_bytes} bytes.")
    return [Upload(new_id(), file.name, stored_type(file) or BINARY, file.content) for file in files]


def _build_message(
    body: Mapping[str, Any],
    organization_id: UUID,
    now: datetime,
    uploads: Sequence[Upload],
    sender: Sender,
) -> Message:
    uploaded = (
        Attachment(
            upload.name,
            upload.content_type,
            ATTACHMENT_PATH.format(id=upload.id),
            upload.id,
            len(upload.content),
        )
        for upload in uploads
    )
    return Message(
        id=new_id(),
        organization_id=organization_id,
        agent_id=body["agent_id"],
        contact_id=sender.contact.id if sender.contact else body["contact_id"],
        channel=body["channel"],
        direction=body["direction"],
        subject=body["subject"],
        body=body["body"],
        address=sender.address,
        attachments=(*uploaded, *_build_links(body)),
        status=body["status"] or DEFAULT_STATUS[body["direction"]],
        created_at=now,
    )


def _build_links(body: Mapping[str, Any], uploaded: Set[str] = frozenset()) -> tuple[Attachment, ...]:
    """Return the files elsewhere that the body names; it may repeat those in `uploaded`, which stay."""
    links = [Attachment(**item) for item in body["attachments"] if item["url"] not in uploaded]
    paths = [index for index, link in enumerate(links) if link.url.startswith("/")]
    if paths:
        raise Invalid({"attachments": {str(index): {"url": [NOT_UPLOADED]} for index in paths}})
    return tuple(links)


def _build_notification(message: Message, sender: Sender) -> NewNotification:
    """Return the notification that tells the agent about an inbound message."""
    hints, contact = [], sender.contact
    if message.attachments:
        hints.append(ATTACHMENT_HINT.format(count=len(message.attachments), id=message.id))
    if sender.is_withheld:
        hints.append(WITHHELD_HINT)
    return NewNotification(
        id=new_id(),
        agent_id=message.agent_id,
        source=Source(message.channel),
        source_id=str(contact.id) if contact else "",
        title=f"New {message.channel} from {_sender_name(contact)}",
        body="\n\n".join(filter(None, (message.body, *hints))),
        priority=Priority.HIGH,
        created_at=message.created_at,
        scheduled_for=None,
    )


def _sender_name(contact: Contact | None) -> str:
    name = contact and (contact.name or contact.email or contact.phone)
    return name or "an unknown sender"


@routes.get(
    "/api/defaults/messages/", answer=list[MessageResponse], query=MessageQuery, run_access=RunAccess.RUNNING
)
async def list_messages(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the messages of your organizations, newest first. A run lists those of its agent."""
    query, reach = read_query(request), caller.reach
    await require_agent(request, caller, query["agent"])
    await require_of_agent(caller, request.app[STORAGE].contacts.get, query["contact"])
    messages = request.app[STORAGE].messages
    filters = MessageFilters(
        reach.organization_ids,
        query["agent"] or reach.agent_id,
        query["contact"],
        query["channel"],
        query["direction"],
        query["status"],
        query["needs_person"],
        period(query, "created"),
    )
    fetch = partial(messages.list_page, filters)
    owners = reach.organization_ids
    return await answer_owned(request, query, owners, messages.get, fetch, serialize_message)


@routes.get("/api/defaults/messages/{id}/", run_access=RunAccess.RUNNING)
async def get_message(request: web.Request, caller: Caller) -> MessageResponse:
    """Read one message."""
    message = await load_of_agent(request, caller, request.app[STORAGE].messages.get)
    return serialize_message(message)


@routes.patch("/api/defaults/messages/{id}/", body=MessageChangesBody)
async def change_message(request: web.Request, caller: Caller) -> MessageResponse:
    """Change the fields that the body contains.

    A tool that delivers messages reports its result this way, in `status`. The agent is not notified again.
    """
    messages = request.app[STORAGE].messages
    message = await load_owned(request, caller, messages.get)
    changes = await read_body(request)
    await require_same_owner(request, caller, message, changes)
    if "attachments" in changes:
        uploaded = {attachment.url for attachment in message.attachments if attachment.id is not None}
        changes["attachments"] = _build_links(changes, uploaded)
    with refusing_constraint_errors(changes):
        changed = await messages.update(message.id, changes, request.app[CLOCK].now(), actor=caller.identity)
    return serialize_message(require_found(changed))


@routes.delete("/api/defaults/messages/{id}/")
async def delete_message(request: web.Request, caller: Caller) -> None:
    """Delete a message. A notification about it stays in the agent's queue."""
    await delete_owned(request, caller, request.app[STORAGE].messages)


@routes.get(
    ATTACHMENT_PATH, answer=bytes, media_types=(BINARY,), run_access=RunAccess.RUNNING, refusals={429}
)
async def download_attachment(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Download a file that was uploaded with a message.

    Browsers store it rather than show it: nothing in it runs. A run reads the files of its own agent.
    """
    attachments = request.app[STORAGE].attachments
    attachment = await load_of_agent(request, caller, attachments.get)

    async def pieces() -> AsyncIterator[bytes]:
        for position, _ in enumerate(range(0, attachment.size, CHUNK_BYTES)):
            async with request.app[ROOM].reading(caller.accountable):
                piece = await attachments.get_chunk(attachment.id, position)
            yield require_found(piece)  # else the file was deleted meanwhile

    return await send_pieces(request, headers_of(attachment), pieces(), attachment.size)


def headers_of(attachment: StoredAttachment) -> dict[str, str]:
    """Return the headers with which a file is a download and nothing else, whatever it contains."""
    ascii_name = "".join(
        character if character.isascii() and character not in '"\\%' else "_" for character in attachment.name
    )
    name = quote(attachment.name, safe="")
    return {
        "Content-Type": attachment.content_type,
        "Content-Disposition": f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{name}",
        "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    }
