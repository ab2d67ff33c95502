"""Messages between agents and their contacts. An inbound message also notifies its agent."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.channels.attachments import Upload
from storage.channels.contacts import Contact
from storage.channels.messages import Attachment, Direction, Message, MessageFilters, MessageStatus
from storage.errors import AddressTaken, ReferenceMissing
from storage.ids import new_id
from storage.model import Priority, Source
from storage.notifications.inserts import NewNotification
from storage.organization_limits import attachment_bytes
from web.access.auth import Caller, RunAccess
from web.access.body_references import organization_for_new, require_same_owner
from web.access.path_access import load_of_agent, load_owned, require_agent, require_of_agent
from web.app_keys import CLOCK, SETTINGS, STORAGE
from web.constraint_errors import refusal, refusing_constraint_errors
from web.errors import Invalid, TooLarge, Unavailable, require_found
from web.handlers.attachments import PATH as ATTACHMENT_PATH
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.page_reader import Listing
from web.paging import answer_list, find_owned, period
from web.request.body import room_for_files
from web.request.file_parts import BINARY, stored_type
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.messages import (
    MessageChangesBody,
    MessageQuery,
    MessageResponse,
    NewMessageBody,
    serialize_message,
)
from web.senders import find_sender

routes = Routes()

NEW = NewMessageBody()
CHANGES = MessageChangesBody()
QUERY = MessageQuery()

DEFAULT_STATUS = {Direction.INBOUND: MessageStatus.RECEIVED, Direction.OUTBOUND: MessageStatus.QUEUED}
SENDER_ATTEMPTS = 5
NOT_UPLOADED = "This message has no uploaded file with this address."
RETRY_SECONDS = 1
ATTACHMENT_HINT = "Attachments: {count}. Open them with the tool open_sms_attachment and the message id {id}."

WITHHELD_HINT = "The sender withheld its address, so this message cannot be answered."


@routes.create("/api/defaults/messages/", answer=MessageResponse, body=NEW, takes_files=True)
async def create_message(request: web.Request, caller: Caller) -> web.Response:
    """Store a message, with the files that a multipart form contains.

    An inbound message also puts a high notification into the agent's queue, which wakes the agent after its
    debounce window. If `from` names its sender, the contact with this address is found, or created with it.
    An outbound message is only stored: it is not sent. Agents send messages by their tools.
    """
    with room_for_files(request):
        body = await read_body_once(request, caller, NEW)
        organization_id = await organization_for_new(request, caller, body)
        uploads = _build_uploads(request, body)
        size = attachment_bytes(len(upload.content) for upload in uploads)
        store = _store_message if body["sender"] is None else _receive_from_sender
        async with request.app[STORAGE].limits.document_bytes.reserved(organization_id, size):
            return await store(request, caller, organization_id, body, uploads)


async def _store_message(
    request: web.Request,
    caller: Caller,
    organization_id: UUID,
    body: Mapping[str, Any],
    uploads: Sequence[Upload],
) -> web.Response:
    """Store a message of the contact that the body names, if any."""
    storage = request.app[STORAGE]
    message = _build_message(body, organization_id, request.app[CLOCK].now(), uploads)
    answer = json_response(serialize_message(message), status=201)
    receipt = receipt_of(request, answer)
    with refusing_constraint_errors(body):
        if message.direction is Direction.INBOUND:
            contact = await storage.contacts.get(message.contact_id) if message.contact_id else None
            notification = _build_notification(message, contact)
            await storage.messages.receive(
                message, notification, caller.roles, receipt, uploads=uploads, actor=caller.identity
            )
        else:
            await storage.messages.insert(message, receipt, uploads=uploads, actor=caller.identity)
    return answer


async def _receive_from_sender(
    request: web.Request,
    caller: Caller,
    organization_id: UUID,
    body: Mapping[str, Any],
    uploads: Sequence[Upload],
) -> web.Response:
    """Store an inbound message together with its sender, if that is new.

    Look for the sender again if another request has created its contact in between, or deleted it.
    """
    storage, now = request.app[STORAGE], request.app[CLOCK].now()
    for _ in range(SENDER_ATTEMPTS):
        sender = await find_sender(storage.contacts, organization_id, body["sender"], body["channel"], now)
        message = replace(
            _build_message(body, organization_id, now, uploads),
            contact_id=sender.contact.id if sender.contact else None,
            address=sender.address,
        )
        notification = _build_notification(message, sender.contact, is_withheld=sender.contact is None)
        answer = json_response(serialize_message(message), status=201)
        try:
            await storage.messages.receive(
                message,
                notification,
                caller.roles,
                receipt_of(request, answer),
                sender=sender.contact if sender.is_new else None,
                uploads=uploads,
                actor=caller.identity,
            )
        except AddressTaken:
            continue
        except ReferenceMissing as error:
            if error.field != "contact":
                raise refusal(error, body) from error
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
    body: Mapping[str, Any], organization_id: UUID, now: datetime, uploads: Sequence[Upload]
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
        contact_id=body["contact_id"],
        channel=body["channel"],
        direction=body["direction"],
        subject=body["subject"],
        body=body["body"],
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


def _build_notification(
    message: Message, contact: Contact | None, *, is_withheld: bool = False
) -> NewNotification:
    """Return the notification that tells the agent about an inbound message."""
    hints = []
    if message.attachments:
        hints.append(ATTACHMENT_HINT.format(count=len(message.attachments), id=message.id))
    if is_withheld:
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
    "/api/defaults/messages/", answer=list[MessageResponse], query=QUERY, run_access=RunAccess.RUNNING
)
async def list_messages(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the messages of your organizations, newest first. A run lists those of its agent."""
    query, reach = read_query(request, QUERY), caller.reach
    await require_agent(request, caller, query["agent"])
    await require_of_agent(caller, request.app[STORAGE].contacts.get, query["contact"])
    messages = request.app[STORAGE].messages
    filters = MessageFilters(
        reach.organization_ids,
        query["agent"] or reach.agent_id,
        query["contact"],
        query["channel"],
        query["direction"],
        period(query, "created"),
    )
    listing = Listing(
        partial(messages.list_page, filters),
        serialize_message,
        find_owned(reach.organization_ids, messages.get),
    )
    return await answer_list(request, query, listing)


@routes.get("/api/defaults/messages/{id}/", answer=MessageResponse, run_access=RunAccess.RUNNING)
async def get_message(request: web.Request, caller: Caller) -> web.Response:
    """Read one message."""
    message = await load_of_agent(request, caller, request.app[STORAGE].messages.get)
    return json_response(serialize_message(message))


@routes.patch("/api/defaults/messages/{id}/", answer=MessageResponse, body=CHANGES)
async def change_message(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains.

    A tool that delivers messages reports its result this way, in `status`. The agent is not notified again.
    """
    messages = request.app[STORAGE].messages
    message = await load_owned(request, caller, messages.get)
    changes = await read_body(request, CHANGES, partial=True)
    await require_same_owner(request, caller, message, changes)
    if "attachments" in changes:
        uploaded = {attachment.url for attachment in message.attachments if attachment.id is not None}
        changes["attachments"] = _build_links(changes, uploaded)
    with refusing_constraint_errors(changes):
        changed = await messages.update(message.id, changes, request.app[CLOCK].now(), actor=caller.identity)
    return json_response(serialize_message(require_found(changed)))


@routes.delete("/api/defaults/messages/{id}/")
async def delete_message(request: web.Request, caller: Caller) -> web.Response:
    """Delete a message. A notification about it stays in the agent's queue."""
    messages = request.app[STORAGE].messages
    message = await load_owned(request, caller, messages.get)
    await messages.delete(message.id)
    return web.Response(status=204)
