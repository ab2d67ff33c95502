"""Contacts: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.channels.contacts import Contact
from web.fields import Email, JsonValue, Line, Uuid
from web.paging import PageQuery
from web.request.parsing import Body


class ContactBody(Body):
    """Without an agent it is for all agents of the organization."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    name = Line(max_length=255, load_default="")
    email = Email(max_length=254, load_default="")
    phone = Line(max_length=64, load_default="")
    metadata = JsonValue(load_default=dict)


class ContactQuery(PageQuery):
    agent = Uuid(load_default=None)


class ContactResponse(TypedDict):
    id: UUID
    organization: UUID
    agent: UUID | None
    name: str
    email: str
    phone: str
    metadata: Any
    created_at: datetime


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
