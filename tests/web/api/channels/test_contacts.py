"""Contacts over HTTP: defaults, refused fields, and the organization they belong to."""

from typing import Any

from tests.web.api.unknown import UNKNOWN_ID, UNKNOWN_ID_MESSAGES
from tests.web.conftest import Api

CONTACTS = "/api/defaults/contacts/"
REFUSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"email": "ada"}, {"email": ["Enter a valid email address."]}),
    ({"metadata": None}, {"metadata": ["This field may not be null."]}),
    ({"phone": "1" * 65}, {"phone": ["Ensure this field has no more than 64 characters."]}),
    ({"agent": UNKNOWN_ID}, {"agent": UNKNOWN_ID_MESSAGES}),
]


async def test_contact_needs_no_field(api: Api) -> None:
    created = await api.create(CONTACTS)
    defaults: dict[str, Any] = {"agent": None, "name": "", "email": "", "phone": "", "metadata": {}}
    assert {**created, **defaults} == created


async def test_organization_header_must_agree_with_the_agent_in_the_body(api: Api, other: Api) -> None:
    mine, theirs = await api.create_agent(), await other.create_agent()
    for organization, status in ((mine["organization"], 201), (theirs["organization"], 403)):
        headers = {"X-Organization": organization}
        answer = await api.post(CONTACTS, {"agent": mine["id"]}, headers=headers)
        assert answer.status == status
