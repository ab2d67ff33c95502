"""The people that agents are in touch with."""

from uuid import UUID

from aiohttp import web

from storage.channels.contacts import Contact, ContactFilters
from storage.errors import ReferenceMissing
from storage.ids import new_id
from web.access.auth import Caller
from web.access.body_references import owner_of_new, require_owner
from web.access.path_access import path_id, require_agent
from web.app_keys import CLOCK, STORAGE
from web.constraint_errors import refusal
from web.errors import NotFound
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.contacts import ContactBody, ContactQuery, ContactResponse, serialize_contact

BODY = ContactBody()
QUERY = ContactQuery()


async def create_contact(request: web.Request, caller: Caller) -> web.Response:
    body = await read_body(request, BODY)
    organization_id, now = await owner_of_new(request, caller, body), request.app[CLOCK].now()
    contact = Contact(id=new_id(), organization_id=organization_id, created_at=now, **body)
    try:
        await request.app[STORAGE].contacts.insert(contact)
    except ReferenceMissing as error:
        raise refusal(error, body) from error
    return json_response(serialize_contact(contact), status=201)


async def list_contacts(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_agent(request, caller, query["agent"])
    contacts = request.app[STORAGE].contacts
    filters = ContactFilters(caller.organizations, query["agent"])

    async def find(contact_id: UUID) -> Contact | None:
        last = await contacts.get(contact_id)
        return last if last and last.organization_id in caller.roles else None

    listing = Listing(
        fetch=lambda page: contacts.page(filters, page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_contact,
    )
    return await answer_list(request, query, listing)


async def get_contact(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_contact(await _contact(request, caller)))


async def change_contact(request: web.Request, caller: Caller) -> web.Response:
    contact = await _contact(request, caller)
    changes = await read_body(request, BODY, partial=True)
    await require_owner(request, contact.organization_id, changes)
    contacts = request.app[STORAGE].contacts
    try:
        changed = await contacts.update(contact.id, changes)
    except ReferenceMissing as error:
        raise refusal(error, changes) from error
    if changed is None:
        raise NotFound
    return json_response(serialize_contact(changed))


async def delete_contact(request: web.Request, caller: Caller) -> web.Response:
    contact = await _contact(request, caller)
    await request.app[STORAGE].contacts.delete(contact.id)
    return web.Response(status=204)


async def _contact(request: web.Request, caller: Caller) -> Contact:
    contact = await request.app[STORAGE].contacts.get(path_id(request))
    if contact is None:
        raise NotFound
    caller.require(contact.organization_id)
    return contact


ROUTES = (
    for_callers(
        "GET",
        "/api/defaults/contacts/",
        list_contacts,
        "List contacts",
        answer=list[ContactResponse],
        query=QUERY,
    ),
    for_callers(
        "POST",
        "/api/defaults/contacts/",
        create_contact,
        "Create a contact",
        status=201,
        answer=ContactResponse,
        body=BODY,
        by_header=True,
    ),
    for_callers("GET", "/api/defaults/contacts/{id}/", get_contact, "Read a contact", answer=ContactResponse),
    for_callers(
        "PATCH",
        "/api/defaults/contacts/{id}/",
        change_contact,
        "Change a contact",
        answer=ContactResponse,
        body=BODY,
        partial=True,
    ),
    for_callers("DELETE", "/api/defaults/contacts/{id}/", delete_contact, "Delete a contact", status=204),
)
