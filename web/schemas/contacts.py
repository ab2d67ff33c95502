"""Contacts: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.channels.contacts import Contact
from web.fields import Email, JsonValue, Line, Uuid
from web.filter_fields import EmailFilter, PhoneFilter
from web.paging import CreatedPageQuery
from web.request.parsing import Body


class ContactBody(Body):
    """The writable fields of a contact."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    name = Line(max_length=255, load_default="")
    email = Email(max_length=254, load_default="")
    phone = Line(max_length=64, load_default="")
    metadata = JsonValue(load_default=dict)


class ContactQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only contacts of this agent; those for all agents of the organization are left out."""
    email = EmailFilter(blank=False, load_default=None)
    """Only contacts with this address; upper and lower case are the same."""
    phone = PhoneFilter(load_default=None)
    """Only contacts whose number has the same digits; all other characters are ignored on both sides."""


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
    """An e-mail address; "" if there is none."""
    phone: str
    """A phone number in any notation, stored as it is sent; "" if there is none."""
    metadata: Any
    """Any JSON value of yours but null; the service only stores it."""
    created_at: datetime
    """When the contact was created."""


def serialize_contact(contact: Contact) -> ContactResponse:
    return {
        "id": contact.id,
        "organization": contact.organization_id,
        "agent": contact.agent_id,
        "name": contact.name,
        "email": contact.email,
        "phone": contact.phone,
        "metadata": contact.metadata,
        "created_at": contact.created_at,
    }
