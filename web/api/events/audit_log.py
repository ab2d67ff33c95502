"""The audit log: who did what, when and from where, as a list and as an export that can be verified."""

from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.events.audit_chain import AuditEntry
from web.access.auth import Caller, requested_organization
from web.api.events.schemas import ActorResponse, actor_of
from web.app_keys import CLOCK, ROOM, STORAGE
from web.fields import Line, Uuid
from web.json import Serializer
from web.paging import CreatedPageQuery, answer_owned, period, send_pieces
from web.request.client_address import address_of
from web.request.parsing import read_query
from web.routes import Routes

JSON_LINES = "text/plain"  # which clients generated from the API document can read


class AuditQuery(CreatedPageQuery):
    """Which entries to list."""

    resource = Line(load_default=None, max_length=50)
    """Only entries about this kind of resource, such as `template`."""
    resource_id = Uuid(load_default=None)
    """Only entries about this resource."""
    action = Line(load_default=None, max_length=50)
    """Only entries with this action, such as `deleted`."""
    actor = Line(load_default=None, max_length=50)
    """Only what this actor did: its type and id, such as `key:0198c0de-0000-7000-8000-000000000000`, or
    `operator`."""


class AuditEntryResponse(TypedDict):
    """An entry of the audit log."""

    id: UUID
    """Chosen by the service."""
    organization: UUID
    """The organization that it concerns."""
    number: int
    """Its number in the organization: 1, 2, … without gaps."""
    created_at: datetime
    """When it happened."""
    by: ActorResponse
    """Who did it."""
    address: str
    """The address of the client; "" if there was no request."""
    resource: str
    """What it was done to, such as `template`, `api_key` or `agent`."""
    action: str
    """What was done: `created`, `changed`, `deleted`, or another word, such as `logged_in`."""
    resource_id: UUID | None
    """The id of the resource; null if it has none."""
    agent: UUID | None
    """The agent that it concerns; null if it concerns none."""
    data: dict[str, Any]
    """More about it: what the resource is called, and `fields`, the changed columns, never secret values."""
    digest: str
    """The digest of this and all earlier entries, as the export has it."""


serialize_entry = Serializer(
    AuditEntryResponse,
    AuditEntry,
    by=lambda entry: actor_of(entry.actor),
    digest=lambda entry: entry.digest.hex(),
)

routes = Routes()


@routes.get("/api/organizations/audit-log/", answer=list[AuditEntryResponse], query=AuditQuery)
async def list_audit_log(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the audit logs of the organizations that you administer, newest entries first.

    An entry appears about a second after its effect. Members are refused with 403.
    """
    organization_ids = caller.administered()
    query = read_query(request)
    log = request.app[STORAGE].audit_log
    fetch = partial(log.list_page, organization_ids, query, period(query, "created"))
    return await answer_owned(request, query, organization_ids, log.get, fetch, serialize_entry)


@routes.get("/api/organizations/audit-log/export/", answer=str, media_types=(JSON_LINES,), by_header=True)
async def export_audit_log(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Export the whole audit log of one organization as JSON Lines, oldest entries first.

    `hostsvc verify` proves that nothing is missing. The last line names the head. The export is an entry
    itself, of the next export. Members are refused with 403.
    """
    organization_id = requested_organization(request, caller)
    caller.require_admin(organization_id)
    log, clock, room = request.app[STORAGE].audit_log, request.app[CLOCK], request.app[ROOM]

    async def pieces() -> AsyncIterator[bytes]:
        await log.record_export(organization_id, clock.now(), caller.identity, address_of(request))
        async for piece in log.export(organization_id, partial(room.reading, caller.accountable)):
            yield piece

    return await send_pieces(request, {"Content-Type": f"{JSON_LINES}; charset=utf-8"}, pieces())
