"""Contact tools: an agent looks up, creates and corrects the people that it is in touch with."""

import re
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

from storage.channels.contacts import Contact, ContactFilters
from storage.errors import AddressTaken, BadAddress, ReferenceMissing
from storage.ids import new_id
from supervisors.tools.arguments import Arguments, ToolError
from supervisors.tools.builtin.listing import (
    AFTER,
    LIMIT,
    named_resource,
    reaches,
    read_page,
)
from supervisors.tools.tool import PartialResult, ToolInvocation, agent_tool, denied_tools

MAX_LENGTHS = {"name": 255, "email": 254, "phone": 64}
ADDRESSES = frozenset({"email", "phone", "other_addresses"})
NOT_DIGITS = re.compile("[^0-9]")

Stored = TypeVar("Stored", bound=Contact | None)
CONTACT_ID = {"type": "string", "format": "uuid"}


@agent_tool(
    "Lists your contacts, newest first, or those with an address.",
    address={"type": "string", "description": "A phone number or an e-mail address."},
    limit=LIMIT,
    after=AFTER,
)
async def list_contacts(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the contacts that the agent reaches, newest first."""
    contacts, agent = call.stores.contacts, call.agent
    email, phone = _address(call.arguments)
    filters = ContactFilters((agent.organization_id,), email=email, phone=phone, visible_to=agent.id)
    page = await read_page(call, "contact", contacts.get, partial(contacts.list_page, filters), summary)
    return page.result()


@agent_tool("Reads a contact.", ("contact_id",), contact_id=CONTACT_ID)
async def get_contact(call: ToolInvocation) -> dict[str, Any]:
    """Return a contact with its metadata."""
    return _serialize(await named_resource(call, "contact_id", "contact", call.stores.contacts.get))


async def require_may_create(call: ToolInvocation) -> None:
    """Raise ToolError if the agent may not create contacts, nor write to new people by other ways."""
    if create_contact.definition.name in denied_tools(await call.stores.templates.get_of(call.agent)):
        raise ToolError("not_allowed", "You may write only to the contacts and addresses that there are.")


@agent_tool(
    "Creates a contact with a phone number or an e-mail address that no other contact has.",
    name={"type": "string"},
    email={"type": "string"},
    phone={"type": "string"},
)
async def create_contact(call: ToolInvocation) -> dict[str, Any]:
    """Store a contact of all agents of the organization, as a sender gets one."""
    await require_may_create(call)
    lines = {name: call.arguments.optional_line(name, length) or "" for name, length in MAX_LENGTHS.items()}
    if not (lines["email"] or lines["phone"]):
        raise ToolError("invalid", "Give a phone number or an e-mail address.")
    new = Contact(
        id=new_id(),
        organization_id=call.agent.organization_id,
        agent_id=None,
        name=lines["name"],
        email=lines["email"],
        phone=lines["phone"],
        metadata={},
        created_at=call.now,
    )
    return _serialize(await _stored(call, call.stores.contacts.insert(new)))


@agent_tool(
    "Changes what is given of a contact.",
    ("contact_id",),
    contact_id=CONTACT_ID,
    name={"type": "string"},
    email={"type": "string"},
    phone={"type": "string"},
)
async def update_contact(call: ToolInvocation) -> dict[str, Any]:
    """Change the name and the addresses of a contact, as far as they are given."""
    contact = await named_resource(call, "contact_id", "contact", call.stores.contacts.get)
    lines = {name: call.arguments.optional_line(name, length) for name, length in MAX_LENGTHS.items()}
    changes = {name: line for name, line in lines.items() if line is not None}
    if not changes:
        raise ToolError("invalid", f"Give at least one of {', '.join(MAX_LENGTHS)}.")
    if changes.keys() & ADDRESSES:
        await require_may_create(call)
    try:
        changed = await _stored(call, call.stores.contacts.update(contact.id, changes))
    except ReferenceMissing:
        changed = None
    if changed is None:
        raise ToolError("not_found", f"The contact {contact.id} was deleted.")
    return _serialize(changed)


async def _stored(call: ToolInvocation, storing: Awaitable[Stored]) -> Stored:
    """Return what is stored. Raise ToolError for an address that is none, or that another contact has.

    It names that contact if the agent reaches it.
    """
    try:
        return await storing
    except BadAddress as error:
        raise ToolError("invalid", f"{error.field}: {error}", parameter=error.field) from error
    except AddressTaken as error:
        owner = await call.stores.contacts.get(error.contact_id)
        is_visible = owner is not None and reaches(call.agent, owner)
        whose = f"the contact {error.contact_id}" if is_visible else "a contact of another agent"
        message = f"{error.field}: {error.address} is an address of {whose}."
        raise ToolError("invalid", message, parameter=error.field) from error


def _address(arguments: Arguments) -> tuple[str | None, str | None]:
    """Return the e-mail address or the digits of the phone number to look for."""
    address = arguments.optional_line("address", MAX_LENGTHS["email"])
    if address is None:
        return None, None
    if "@" in address:
        return address, None
    digits = NOT_DIGITS.sub("", address)
    if not digits:
        raise ToolError("invalid", "address takes a phone number or an e-mail address.", parameter="address")
    return None, digits


def summary(contact: Contact) -> dict[str, Any]:
    """Return who the contact is, for a list and for a tool that sends messages."""
    return {"id": str(contact.id), "name": contact.name, "email": contact.email, "phone": contact.phone}


def _serialize(contact: Contact) -> dict[str, Any]:
    return {
        **summary(contact),
        "other_addresses": list(contact.other_addresses),
        "metadata": contact.metadata,
    }
