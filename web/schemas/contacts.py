"""Contacts: request bodies, queries and responses."""

import re
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.channels.contacts import Contact
from web.fields import Email, JsonValue, Line, Uuid, wording
from web.paging import CreatedPageQuery
from web.request.parsing import Body

NOT_DIGITS = re.compile("[^0-9]")


class ContactBody(Body):
    """Without an agent it is for all agents of the organization."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    name = Line(max_length=255, load_default="")
    email = Email(max_length=254, load_default="")
    phone = Line(max_length=64, load_default="")
    metadata = JsonValue(load_default=dict)


class EmailFilter(Email):
    """An e-mail address to look for. A space is a `+` that was not written as `%2B`."""

    def _tidy(self, text: str) -> str:
        return super()._tidy(text).replace(" ", "+")


class PhoneFilter(Line):
    """A telephone number to look for, reduced to its digits."""

    default_error_messages = wording(digits="Enter a telephone number with at least one digit.")

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        digits = NOT_DIGITS.sub("", super()._deserialize(value, attr, data, **options))
        if not digits:
            raise self.make_error("digits")
        return digits


class ContactQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    email = EmailFilter(
        blank=False,
        load_default=None,
        metadata={"description": "Only contacts with this address; upper and lower case are the same."},
    )
    phone = PhoneFilter(
        max_length=64,
        load_default=None,
        metadata={
            "description": "Only contacts with the same digits in their number; all other characters are "
            "ignored on both sides."
        },
    )


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
