"""Contacts over HTTP: defaults, refused fields, and the organization they belong to."""

from typing import Any

from tests.web.conftest import Api

CONTACTS = "/api/defaults/contacts/"


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
