"""Contacts: request bodies, queries and responses."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.channels.addresses import MAX_ADDRESS_LENGTH
from storage.channels.contacts import Contact
from web.fields import Email, JsonValue, Line, ListOf, Uuid
from web.filter_fields import EmailFilter, PhoneFilter
from web.paging import CreatedPageQuery
from web.request.parsing import Body
from web.serializers import Serializer

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
