"""Contacts: the people that agents are in touch with."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.channels.addresses import MAX_ADDRESS_LENGTH
from storage.channels.contacts import Contact, ContactFilters, Contacts
from storage.errors import AddressTaken
from storage.ids import new_id
from supervisors.tools.builtin.contacts import ADDRESSES
from supervisors.tools.tool import denied_tools
from web.access.auth import Caller, RunAccess
from web.access.path_access import delete_owned, load_of_agent, load_row_of_agent, require_agent
from web.access.references import organization_for_new, require_same_owner
from web.app_keys import CLOCK, STORAGE
from web.errors import Invalid, PermissionDenied, refusing_constraint_errors, require_found
from web.fields import Email, EmailFilter, JsonValue, Line, ListOf, PhoneFilter, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import CreatedPageQuery, answer_owned, period
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes

MAX_OTHER_ADDRESSES = 20


class ContactBody(Body):
    """The writable fields of a contact."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    name = Line(max_length=255, load_default="")
    email = Email(max_length=254, load_default="")
    phone = Line(max_length=64, load_default="")
    """In any notation with + and the country code, or in that of the organization's `phone_region`; also a
    short code of three to six digits."""
    metadata = JsonValue(load_default=dict)
    other_addresses = ListOf(
        Line(blank=False, max_length=MAX_ADDRESS_LENGTH), max_items=MAX_OTHER_ADDRESSES, load_default=list
    )
    """Phone numbers in the notations of `phone`, e-mail addresses, and names that carriers show."""


class ContactQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only contacts of this agent; those for all agents of the organization are left out."""
    email = EmailFilter(blank=False, load_default=None)
    """Only contacts with this address, also among `other_addresses`; upper and lower case are the same."""
    phone = PhoneFilter(load_default=None)
    """Only contacts with this number, also among `other_addresses`; all characters but digits are ignored. A
    number without a country code is one of your organization's `phone_region`."""
    search = Line(load_default=None)
    """Only contacts whose name, e-mail address, number or other address contains this text; upper and lower
    case are the same."""


class ContactResponse(TypedDict):
    """A person that agents are in touch with."""

    id: UUID
    """Agents name the contact by this id when they send a message."""
    organization: UUID
    """The organization that the contact belongs to."""
    agent: UUID | None
    """The agent that the contact is for; null: all agents of the organization."""
    name: str
    """Shown in the title of the notification about a message; "" if it is not known."""
    email: str
    """An e-mail address, which no other contact of the organization has; "" if there is none."""
    phone: str
    """A phone number in E.164 form, such as `+4312345678`, or a short code, which no other contact has; "" if
    there is none."""
    metadata: Any
    """Any JSON value of yours but null; the service only stores it."""
    other_addresses: Sequence[str]
    """Up to 20 further addresses that messages of the contact come from, in the form in which they are
    compared."""
    created_at: datetime
    """When the contact was created."""


serialize_contact = Serializer(ContactResponse, Contact)

routes = Routes()


@routes.create("/api/defaults/contacts/", body=ContactBody, by_header=True)
async def create_contact(request: web.Request, caller: Caller) -> ContactResponse:
    """Create a contact, for one agent or for all agents of the organization.

    Messages and the agents' messaging tools refer to it by its id. Each phone number and e-mail address
    belongs to one contact of the organization: an address of another contact is refused with 400.
    """
    body = await read_body_once(request, caller)
    organization_id, now = await organization_for_new(request, caller, body), request.app[CLOCK].now()
    contacts = request.app[STORAGE].contacts
    with refusing_constraint_errors(body):
        contact = await contacts.normalized(
            Contact(id=new_id(), organization_id=organization_id, created_at=now, **body)
        )
        answer = serialize_contact(contact)
        await contacts.insert(contact, receipt_of(request, answer))
    return answer


@routes.get(
    "/api/defaults/contacts/", answer=list[ContactResponse], query=ContactQuery, run_access=RunAccess.RUNNING
)
async def list_contacts(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the contacts of your organizations, newest first.

    A run lists those of its agent and those for all agents.
    """
    query, reach = read_query(request), caller.reach
    await require_agent(request, caller, query["agent"])
    contacts = request.app[STORAGE].contacts
    filters = ContactFilters(
        reach.organization_ids,
        query["agent"],
        query["email"],
        query["phone"],
        period(query, "created"),
        visible_to=reach.agent_id,
        search=query["search"],
    )
    fetch = partial(contacts.list_rows, filters)
    owners = reach.organization_ids
    return await answer_owned(request, query, owners, contacts.get, fetch, serialize_contact.row)


@routes.get("/api/defaults/contacts/{id}/", run_access=RunAccess.RUNNING)
async def get_contact(request: web.Request, caller: Caller) -> ContactResponse:
    """Read one contact."""
    row = await load_row_of_agent(request, caller, request.app[STORAGE].contacts.get)
    return serialize_contact.row(row)


@routes.patch("/api/defaults/contacts/{id}/", body=ContactBody, run_access=RunAccess.RUNNING)
async def change_contact(request: web.Request, caller: Caller) -> ContactResponse:
    """Change the fields that the body contains; the others stay as they are.

    A run may not change the `agent`, nor the addresses if its template's `may_create_contacts` is false.
    """
    contacts = request.app[STORAGE].contacts
    contact = await load_of_agent(request, caller, contacts.get)
    changes = await read_body(request)
    await require_same_owner(request, caller, contact, changes)
    if caller.run is not None and changes.keys() & ADDRESSES:
        await _require_may_create(request, caller.run.agent_id)
    with refusing_constraint_errors(changes):
        try:
            changed = await contacts.update(contact.id, changes)
        except AddressTaken as error:
            await _require_visible(caller, contacts, error)
            raise
    return serialize_contact(require_found(changed))


async def _require_may_create(request: web.Request, agent_id: UUID) -> None:
    storage = request.app[STORAGE]
    agent = require_found(await storage.agents.get(agent_id))
    if "create_contact" in denied_tools(await storage.templates.get_of(agent)):
        raise PermissionDenied("The template of the agent says that it may not write to new people.")


async def _require_visible(caller: Caller, contacts: Contacts, error: AddressTaken) -> None:
    """Raise Invalid without the id of the contact with the address if the caller's run does not reach it."""
    owner = await contacts.get(error.contact_id)
    if caller.run is not None and owner is not None and owner.agent_id not in {None, caller.run.agent_id}:
        message = f"{error.address} is an address of a contact of another agent."
        raise Invalid({error.field: [message]}) from error


@routes.delete("/api/defaults/contacts/{id}/")
async def delete_contact(request: web.Request, caller: Caller) -> None:
    """Delete a contact. Its messages stay, with null as their `contact`."""
    await delete_owned(request, caller, request.app[STORAGE].contacts)
