"""The addresses of contacts: each belongs to one contact of an organization."""

import asyncio
from dataclasses import replace

import pytest

from storage.agents.agents import Agents
from storage.channels.contacts import ContactFilters, Contacts
from storage.errors import AddressTaken, BadAddress
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import contact
from tests.storage.factories import NOW, stored_agent

INSERT_AS_BEFORE = """
INSERT INTO contact (id, organization_id, name, email, phone, created_at) VALUES ($1, $2, '', $3, $4, $5)
"""


async def test_contact_is_found_by_each_of_its_addresses(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    ada = contact(scout, email="Ada@Example.org", phone="+43123456", other_addresses=("+49301234567", "BANK"))
    await contacts.insert(ada)

    for address in ("ada@example.org", "+43123456", "+49301234567", "BANK"):
        assert await contacts.find(scout.organization_id, address) == ada
    assert await contacts.find(scout.organization_id, "+43123457") is None
    stranger = await stored_agent(pool)
    assert await contacts.find(stranger.organization_id, "+43123456") is None


async def test_contact_is_found_though_its_region_has_changed(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    await pool.execute("UPDATE organization SET phone_region = 'FO'")
    ada = await contacts.insert(contact(scout, phone="211234"))

    found = await contacts.find_or_insert(scout.organization_id, "211234", NOW)

    assert (found.id, found.phone) == (ada.id, "+298211234")


async def test_contact_is_stored_with_its_addresses_in_one_form(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    await pool.execute("UPDATE organization SET phone_region = 'AT'")
    written = {
        "email": " Ada@B\u00fccher.example",
        "phone": "01/23456",
        "other_addresses": ("+43 1 23457", "Bank"),
    }
    ada = contact(scout, **written)

    stored = await contacts.insert(ada)

    assert stored == await contacts.get(ada.id)
    assert (stored.phone, stored.other_addresses) == ("+43123456", ("+43123457", "BANK"))
    for address in ("ada@xn--bcher-kva.example", "+43123456", "+43123457", "BANK"):
        assert await contacts.find(scout.organization_id, address) == stored
    listed = ContactFilters((scout.organization_id,), email="ADA@b\u00fccher.example")
    assert await contacts.list_page(listed, Page()) == [stored]
    for field in ("phone", "email"):
        with pytest.raises(BadAddress):
            await contacts.insert(contact(scout, **{field: "unknown"}))


async def test_concurrent_searches_store_one_new_contact(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)

    found = await asyncio.gather(
        *(contacts.find_or_insert(scout.organization_id, "+43123456", NOW) for _ in range(8))
    )

    [stored] = await contacts.list_page(ContactFilters((scout.organization_id,)), Page())
    assert found == [stored] * 8
    assert (stored.agent_id, stored.phone, stored.name) == (None, "+43123456", "")


async def test_organizations_may_have_the_same_address(pool: Pool, scout: Agent) -> None:
    contacts, stranger = Contacts(pool), await stored_agent(pool)
    ada, theirs = contact(scout, phone="+43123456"), contact(stranger, phone="+43123456")
    await contacts.insert(ada)
    await contacts.insert(theirs)
    assert await contacts.find(stranger.organization_id, "+43123456") == theirs


async def test_change_gives_old_addresses_up(pool: Pool, scout: Agent) -> None:
    contacts, organization_id = Contacts(pool), scout.organization_id
    ada = contact(scout, phone="+43123456", email="ada@example.org", other_addresses=("+43123457",))
    await contacts.insert(ada)

    changed = await contacts.update(ada.id, {"phone": "+43 1 23457", "other_addresses": ["+43 1 23458"]})

    assert changed == replace(ada, phone="+43123457", other_addresses=("+43123458",))
    assert await contacts.find(organization_id, "+43123456") is None
    for address in ("+43123457", "+43123458", "ada@example.org"):
        assert await contacts.find(organization_id, address) == changed
    await contacts.update(ada.id, {"email": ""})
    await contacts.insert(contact(scout, email="ada@example.org", phone="+43123456"))


async def test_contact_of_deleted_agent_gives_its_addresses_up(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    await contacts.insert(contact(scout, phone="+43123456"))
    await Agents(pool).delete(scout.id, NOW)
    assert await contacts.find(scout.organization_id, "+43123456") is None

    new = contact(scout, agent_id=None, phone="+43123456")
    await contacts.insert(new)

    assert await contacts.find(scout.organization_id, "+43123456") == new


async def test_concurrent_contacts_with_one_address_leave_one(pool: Pool, scout: Agent) -> None:
    contacts = Contacts(pool)
    new = [contact(scout, phone="+43123456", email="ada@example.org") for _ in range(8)]

    results = await asyncio.gather(*map(contacts.insert, new), return_exceptions=True)

    assert sum(isinstance(result, AddressTaken) for result in results) == 7
    [stored] = await contacts.list_page(ContactFilters((scout.organization_id,)), Page())
    assert await contacts.find(scout.organization_id, "ada@example.org") == stored


async def test_contact_with_address_of_earlier_version_can_be_changed(pool: Pool, scout: Agent) -> None:
    """An earlier version stored phone numbers as they were sent, and one address with several contacts."""
    contacts = Contacts(pool)
    await contacts.insert(contact(scout, email="ada@example.org"))
    double = contact(scout)
    await pool.execute(INSERT_AS_BEFORE, double.id, scout.organization_id, "ada@example.org", "01 23456", NOW)

    assert await contacts.update(double.id, {"name": "Ada"}) is not None
    changed = await contacts.update(double.id, {"phone": "+43123456"})

    assert changed is not None
    assert (changed.name, changed.email, changed.phone) == ("Ada", "ada@example.org", "+43123456")
    assert await contacts.find(scout.organization_id, "+43123456") == changed


async def test_filters_find_other_addresses_and_doubles(pool: Pool, scout: Agent) -> None:
    contacts, owners = Contacts(pool), (scout.organization_id,)
    ada = contact(scout, other_addresses=("ada@example.org", "+43123456"))
    await contacts.insert(ada)
    double = contact(scout)
    await pool.execute(
        INSERT_AS_BEFORE, double.id, scout.organization_id, "ADA@example.org", "+43 1/23456", NOW
    )

    by_email = ContactFilters(owners, email="Ada@example.org")
    by_phone = ContactFilters(owners, phone="43123456")
    for filters in (by_email, by_phone):
        assert {each.id for each in await contacts.list_page(filters, Page())} == {ada.id, double.id}
