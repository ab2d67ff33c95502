"""Messages between agents and their contacts. An inbound message also notifies its agent."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.channels.contacts import Contact
from storage.channels.messages import Attachment, Direction, Message, MessageFilters, MessageStatus
from storage.ids import new_id
from storage.model import Priority, Source
from storage.notifications.inserts import NewNotification
from web.access.auth import Caller, RunAccess
from web.access.body_references import organization_for_new, require_same_owner
from web.access.path_access import load_of_agent, load_owned, require_agent, require_of_agent
from web.app_keys import CLOCK, STORAGE
from web.constraint_errors import refusing_constraint_errors
from web.errors import require_found
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.paging import answer_owned_list, period
from web.request.parsing import read_body, read_query
from web.routes import CallerRoute
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

DEFAULT_STATUS = {Direction.INBOUND: MessageStatus.RECEIVED, Direction.OUTBOUND: MessageStatus.QUEUED}
ATTACHMENT_HINT = "Attachments: {count}. Open them with the tool open_sms_attachment and the message id {id}."


async def create_message(request: web.Request, caller: Caller) -> web.Response:
    """Store a message.

    An inbound message also puts a high notification into the agent's queue, which wakes the agent after its
    debounce window. An outbound message is only stored: it is not sent. Agents send messages by their tools.
    """
    messages = request.app[STORAGE].messages
    body = await read_body_once(request, caller, NEW)
    organization_id = await organization_for_new(request, caller, body)
    message = _build_message(body, organization_id, request.app[CLOCK].now())
    answer = json_response(serialize_message(message), status=201)
    receipt = receipt_of(request, answer)
    with refusing_constraint_errors(body):
        if message.direction is Direction.INBOUND:
            notification = await _build_notification(request, message)
            await messages.receive(message, notification, caller.roles, receipt)
        else:
            await messages.insert(message, receipt)
    return answer


def _build_message(body: Mapping[str, Any], organization_id: UUID, now: datetime) -> Message:
    status = body["status"] or DEFAULT_STATUS[body["direction"]]
    values = {**body, "attachments": _build_attachments(body), "status": status}
    return Message(id=new_id(), organization_id=organization_id, created_at=now, **values)


def _build_attachments(body: Mapping[str, Any]) -> tuple[Attachment, ...]:
    return tuple(Attachment(**attachment) for attachment in body["attachments"])


async def _build_notification(request: web.Request, message: Message) -> NewNotification:
    """Return the notification that tells the agent about an inbound message."""
    contact = None
    if message.contact_id is not None:
        contact = await request.app[STORAGE].contacts.get(message.contact_id)
    hint = (
        ATTACHMENT_HINT.format(count=len(message.attachments), id=message.id) if message.attachments else ""
    )
    return NewNotification(
        id=new_id(),
        agent_id=message.agent_id,
        source=Source(message.channel),
        source_id=str(contact.id) if contact else "",
        title=f"New {message.channel} from {_sender_name(contact)}",
        body="\n\n".join(filter(None, (message.body, hint))),
        priority=Priority.HIGH,
        created_at=message.created_at,
        scheduled_for=None,
    )


def _sender_name(contact: Contact | None) -> str:
    name = contact and (contact.name or contact.email or contact.phone)
    return name or "an unknown sender"


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
    return await answer_owned_list(
        request, query, reach.organization_ids, messages, filters, serialize_message
    )


async def get_message(request: web.Request, caller: Caller) -> web.Response:
    """Read one message."""
    message = await load_of_agent(request, caller, request.app[STORAGE].messages.get)
    return json_response(serialize_message(message))


async def change_message(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains.

    A tool that delivers messages reports its result this way, in `status`. The agent is not notified again.
    """
    messages = request.app[STORAGE].messages
    message = await load_owned(request, caller, messages.get)
    changes = await read_body(request, CHANGES, partial=True)
    await require_same_owner(request, caller, message, changes)
    if "attachments" in changes:
        changes["attachments"] = _build_attachments(changes)
    with refusing_constraint_errors(changes):
        changed = await messages.update(message.id, changes)
    return json_response(serialize_message(require_found(changed)))


async def delete_message(request: web.Request, caller: Caller) -> web.Response:
    """Delete a message. A notification about it stays in the agent's queue."""
    messages = request.app[STORAGE].messages
    message = await load_owned(request, caller, messages.get)
    await messages.delete(message.id)
    return web.Response(status=204)


ROUTES = (
    CallerRoute(
        "GET",
        "/api/defaults/messages/",
        list_messages,
        "List messages",
        answer=list[MessageResponse],
        query=QUERY,
        run_access=RunAccess.RUNNING,
    ),
    CallerRoute(
        "POST",
        "/api/defaults/messages/",
        create_message,
        "Create a message",
        status=201,
        answer=MessageResponse,
        body=NEW,
        idempotent=True,
    ),
    CallerRoute(
        "GET",
        "/api/defaults/messages/{id}/",
        get_message,
        "Read a message",
        answer=MessageResponse,
        run_access=RunAccess.RUNNING,
    ),
    CallerRoute(
        "PATCH",
        "/api/defaults/messages/{id}/",
        change_message,
        "Change a message",
        answer=MessageResponse,
        body=CHANGES,
    ),
    CallerRoute("DELETE", "/api/defaults/messages/{id}/", delete_message, "Delete a message", status=204),
)
