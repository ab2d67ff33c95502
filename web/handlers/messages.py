"""What agents and their contacts write to each other. What comes in is in the agent's queue at once."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.channels.contacts import Contact
from storage.channels.messages import Attachment, Direction, Message, MessageFilters, MessageStatus
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.model import Priority, Source
from storage.notifications.inserts import NewNotification
from web.access.auth import Caller
from web.access.body_references import owner_of_new, require_owner
from web.access.path_access import path_id, require_agent, require_contact
from web.app_keys import CLOCK, STORAGE
from web.constraint_errors import refusal
from web.errors import NotFound
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.messages import (
    MessageChangesBody,
    MessageQuery,
    MessageResponse,
    NewMessageBody,
    serialize_message,
)

NEW = NewMessageBody()
CHANGES = MessageChangesBody()
QUERY = MessageQuery()

USUAL = {Direction.INBOUND: MessageStatus.RECEIVED, Direction.OUTBOUND: MessageStatus.QUEUED}
HINT = "Attachments: {count}. Open them with the tool open_sms_attachment and the message id {id}."


async def create_message(request: web.Request, caller: Caller) -> web.Response:
    """What comes in wakes the agent as any high notification of its source does."""
    messages = request.app[STORAGE].messages
    body = await read_body_once(request, caller, NEW)
    organization_id = await owner_of_new(request, caller, body)
    message = _message_of(body, organization_id, request.app[CLOCK].now())
    answer = json_response(serialize_message(message), status=201)
    receipt = receipt_of(request, answer)
    try:
        if message.direction is Direction.INBOUND:
            notice = await _notice_of(request, message)
            await messages.receive(message, notice, caller.roles, receipt)
        else:
            await messages.insert(message, receipt)
    except ReferenceMissing as error:
        raise refusal(error, body) from error
    return answer


def _message_of(body: Mapping[str, Any], organization_id: UUID, now: datetime) -> Message:
    given = {**body, "attachments": _attachments(body), "status": body["status"] or USUAL[body["direction"]]}
    return Message(id=new_id(), organization_id=organization_id, created_at=now, **given)


def _attachments(body: Mapping[str, Any]) -> tuple[Attachment, ...]:
    return tuple(Attachment(**attachment) for attachment in body["attachments"])


async def _notice_of(request: web.Request, message: Message) -> NewNotification:
    """What the agent finds in its queue."""
    contact = None
    if message.contact_id is not None:
        contact = await request.app[STORAGE].contacts.get(message.contact_id)
    hint = HINT.format(count=len(message.attachments), id=message.id) if message.attachments else ""
    return NewNotification(
        id=new_id(),
        agent_id=message.agent_id,
        source=Source(message.channel),
        source_id=str(contact.id) if contact else "",
        title=f"New {message.channel} from {_name_of(contact)}",
        body="\n\n".join(filter(None, (message.body, hint))),
        priority=Priority.HIGH,
        created_at=message.created_at,
        scheduled_for=None,
    )


def _name_of(contact: Contact | None) -> str:
    known = contact and (contact.name or contact.email or contact.phone)
    return known or "an unknown sender"


async def list_messages(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_agent(request, caller, query["agent"])
    await require_contact(request, caller, query["contact"])
    messages = request.app[STORAGE].messages
    filters = MessageFilters(
        caller.organizations, query["agent"], query["contact"], query["channel"], query["direction"]
    )

    async def find(message_id: UUID) -> Message | None:
        last = await messages.get(message_id)
        return last if last and last.organization_id in caller.roles else None

    listing = Listing(
        fetch=lambda page: messages.page(filters, page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_message,
    )
    return await answer_list(request, query, listing)


async def get_message(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_message(await _message(request, caller)))


async def change_message(request: web.Request, caller: Caller) -> web.Response:
    message = await _message(request, caller)
    changes = await read_body(request, CHANGES, partial=True)
    await require_owner(request, message.organization_id, changes)
    if "attachments" in changes:
        changes["attachments"] = _attachments(changes)
    messages = request.app[STORAGE].messages
    try:
        changed = await messages.update(message.id, changes)
    except ReferenceMissing as error:
        raise refusal(error, changes) from error
    if changed is None:
        raise NotFound
    return json_response(serialize_message(changed))


async def delete_message(request: web.Request, caller: Caller) -> web.Response:
    message = await _message(request, caller)
    await request.app[STORAGE].messages.delete(message.id)
    return web.Response(status=204)


async def _message(request: web.Request, caller: Caller) -> Message:
    message = await request.app[STORAGE].messages.get(path_id(request))
    if message is None:
        raise NotFound
    caller.require(message.organization_id)
    return message


ROUTES = (
    for_callers(
        "GET",
        "/api/defaults/messages/",
        list_messages,
        "List messages",
        answer=list[MessageResponse],
        query=QUERY,
    ),
    for_callers(
        "POST",
        "/api/defaults/messages/",
        create_message,
        "Create a message",
        status=201,
        answer=MessageResponse,
        body=NEW,
        idempotent=True,
    ),
    for_callers("GET", "/api/defaults/messages/{id}/", get_message, "Read a message", answer=MessageResponse),
    for_callers(
        "PATCH",
        "/api/defaults/messages/{id}/",
        change_message,
        "Change a message",
        answer=MessageResponse,
        body=CHANGES,
        partial=True,
    ),
    for_callers("DELETE", "/api/defaults/messages/{id}/", delete_message, "Delete a message", status=204),
)
