"""Bodies and responses of contacts."""

from storage.channels.contacts import Contact
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    NULL,
    ORGANIZATION_ID,
    ORGANIZATION_ID_TEXT,
    accept,
    refuse,
    serve,
)
from web.api.channels.contacts import ContactBody, serialize_contact


def test_contact_needs_no_field() -> None:
    defaults: dict[str, object] = {
        "agent_id": None,
        "name": "",
        "email": "",
        "phone": "",
        "metadata": {},
        "other_addresses": [],
    }
    assert accept(ContactBody(), {}) == defaults


def test_contact_refuses_bad_address_and_null_metadata() -> None:
    assert refuse(ContactBody(), {"email": "ada", "metadata": None}) == {
        "email": ["Enter a valid email address."],
        "metadata": NULL,
    }


def test_response_of_a_contact_for_all_agents() -> None:
    contact = Contact(ID, ORGANIZATION_ID, None, "Ada", "ada@example.com", "+43123456", {"vip": [1]}, NOON)
    assert serve(serialize_contact(contact)) == {
        "id": ID_TEXT,
        "organization": ORGANIZATION_ID_TEXT,
        "agent": None,
        "name": "Ada",
        "email": "ada@example.com",
        "phone": "+43123456",
        "metadata": {"vip": [1]},
        "other_addresses": [],
        "created_at": NOON_TEXT,
    }
