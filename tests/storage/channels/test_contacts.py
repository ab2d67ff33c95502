"""Contacts: listing, updating and deleting them."""

from dataclasses import replace

import pytest

from storage.channels.contacts import ContactFilters, Contacts
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import contact
from tests.storage.factories import NOW, SECOND


async def test_contacts_are_listed_updated_and_deleted(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    ada, shared = contact(scout), contact(scout, agent_id=None, created_at=NOW + SECOND)
    await contacts.insert(ada)
    await contacts.insert(shared)
    filters = ContactFilters((scout.organization_id,))

    assert await contacts.list_page(filters, Page()) == [shared, ada]
    assert await contacts.list_page(replace(filters, agent_id=scout.id), Page()) == [ada]
    assert await contacts.list_page(filters, Page(after=(shared.created_at, shared.id))) == [ada]
    assert await contacts.update(ada.id, {"name": "Eve", "agent_id": None}) == replace(
        ada, name="Eve", agent_id=None
    )
    assert await contacts.delete(ada.id)
    assert await contacts.get(ada.id) is None
    with pytest.raises(ReferenceMissing, match="agent"):
        await contacts.update(shared.id, {"agent_id": new_id()})
