"""Lists of what one agent sees: its own resources, and those for all agents of its organization."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from storage.channels.contacts import Contact, ContactFilters, Contacts
from storage.channels.documents import Document, DocumentFilters, Documents
from storage.channels.projects import ProjectFilters, Projects
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import contact, document, project
from tests.storage.factories import NOW, SECOND, stored_agent
from tests.storage.listed import listed_page


@pytest.mark.parametrize(
    ("store", "model", "filters", "build"),
    [
        (Contacts, Contact, ContactFilters, contact),
        (Documents, Document, DocumentFilters, document),
        (Projects, None, ProjectFilters, project),  # not written as JSON
    ],
    ids=["contacts", "documents", "projects"],
)
async def test_agent_sees_own_and_shared_resources_newest_first(
    pool: Pool, scout: Agent, store: Any, model: Any, filters: Any, build: Callable[..., Any]
) -> None:
    sibling, stranger = await stored_agent(pool, scout.organization_id), await stored_agent(pool)
    listed = store(pool)
    seen = [
        build(scout, agent_id=scout.id if n % 2 else None, created_at=NOW + n * SECOND) for n in range(4)
    ][::-1]
    hidden = [build(sibling), build(stranger), build(stranger, agent_id=None)]
    for each in [*seen, *hidden]:
        await listed.insert(each)

    read = partial(listed_page, listed, model) if model else listed.list_page
    visible = filters((scout.organization_id,), visible_to=scout.id)
    assert await read(visible, Page()) == seen
    assert await read(visible, Page(limit=2, offset=1)) == seen[1:3]
    last = seen[1]
    assert await read(visible, Page(after=(last.created_at, last.id))) == seen[2:]
    own = [each for each in seen if each.agent_id == scout.id]
    assert await read(replace(visible, agent_id=scout.id), Page()) == own


async def test_agent_finds_no_hidden_contact_by_address(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    sibling = await stored_agent(pool, scout.organization_id)
    await contacts.insert(contact(sibling, email="hidden@example.com", phone="+43123452"))
    shared = contact(scout, agent_id=None, email="shared@example.com", phone="+43123453")
    await contacts.insert(shared)

    visible = ContactFilters((scout.organization_id,), visible_to=scout.id)
    for found, filters in (
        ([shared], replace(visible, email="shared@example.com")),
        ([shared], replace(visible, phone="43123453")),
        ([], replace(visible, email="hidden@example.com")),
        ([], replace(visible, phone="43123452")),
    ):
        assert await contacts.list_page(filters, Page()) == found
