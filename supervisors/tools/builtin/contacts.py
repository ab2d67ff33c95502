"""Contact tools: an agent looks up and corrects the people that it is in touch with."""

import re
from functools import partial
from typing import Any

from storage.channels.contacts import Contact, ContactFilters
from storage.errors import AddressTaken, BadAddress, ReferenceMissing
from supervisors.tools.arguments import Arguments, ToolError
from supervisors.tools.builtin.listing import (
    AFTER,
    LIMIT,
    by_creation,
    named_cursor,
    named_resource,
    reaches,
    read_page,
)
from supervisors.tools.tool import PartialResult, ToolDefinition, ToolInvocation, schema

MAX_LENGTHS = {"name": 255, "email": 254, "phone": 64}
NOT_DIGITS = re.compile("[^0-9]")

CONTACT_ID = {"type": "string", "format": "uuid"}

LIST_CONTACTS = ToolDefinition(
    name="list_contacts",
    description="Lists your contacts, newest first, or those with an address.",
    parameters=schema(
        address={"type": "string", "description": "A phone number or an e-mail address."},
        limit=LIMIT,
        after=AFTER,
    ),
)

GET_CONTACT = ToolDefinition(
    name="get_contact",
    description="Reads a contact.",
    parameters=schema(("contact_id",), contact_id=CONTACT_ID),
)

UPDATE_CONTACT = ToolDefinition(
    name="update_contact",
    description="Changes what is given of a contact.",
    parameters=schema(
        ("contact_id",),
        contact_id=CONTACT_ID,
        name={"type": "string"},
        email={"type": "string"},
        phone={"type": "string"},
    ),
)


async def list_contacts(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the contacts that the agent reaches, newest first."""
    contacts, agent = call.stores.contacts, call.agent
    email, phone = _address(call.arguments)
    filters = ContactFilters((agent.organization_id,), email=email, phone=phone, visible_to=agent.id)
    after = await named_cursor(call, "after", "contact", contacts.get, by_creation)
    page = await read_page(call, partial(contacts.list_page, filters), _summary, after)
    return page.result()


async def get_contact(call: ToolInvocation) -> dict[str, Any]:
    """Return a contact with its metadata."""
    return _serialize(await named_resource(call, "contact_id", "contact", call.stores.contacts.get))


async def update_contact(call: ToolInvocation) -> dict[str, Any]:
    """Change the name and the addresses of a contact, as far as they are given."""
    contact = await named_resource(call, "contact_id", "contact", call.stores.contacts.get)
    lines = {name: call.arguments.optional_line(name, length) for name, length in MAX_LENGTHS.items()}
    changes = {name: line for name, line in lines.items() if line is not None}
    if not changes:
        raise ToolError("invalid", f"Give at least one of {', '.join(MAX_LENGTHS)}.")
    try:
        changed = await call.stores.contacts.update(contact.id, changes)
    except BadAddress as error:
        raise ToolError("invalid", f"{error.field}: {error}", parameter=error.field) from error
    except AddressTaken as error:
        raise await _taken(call, error) from error
    except ReferenceMissing:
        changed = None
    if changed is None:
        raise ToolError("not_found", f"The contact {contact.id} was deleted.")
    return _serialize(changed)


async def _taken(call: ToolInvocation, error: AddressTaken) -> ToolError:
    """Return the error for an address of another contact; it names a contact that the agent reaches."""
    owner = await call.stores.contacts.get(error.contact_id)
    is_visible = owner is not None and reaches(call.agent, owner)
    whose = f"the contact {error.contact_id}" if is_visible else "a contact of another agent"
    message = f"{error.field}: {error.address} is an address of {whose}."
    return ToolError("invalid", message, parameter=error.field)


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


def _summary(contact: Contact) -> dict[str, Any]:
    return {"id": str(contact.id), "name": contact.name, "email": contact.email, "phone": contact.phone}


def _serialize(contact: Contact) -> dict[str, Any]:
    return {
        **_summary(contact),
        "other_addresses": list(contact.other_addresses),
        "metadata": contact.metadata,
    }
