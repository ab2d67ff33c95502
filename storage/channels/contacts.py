"""Contacts: the people that agents exchange messages with."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.channels.addresses import needs_region, normalize, phone_addresses
from storage.channels.contact_addresses import (
    ADDRESS_FIELDS,
    claim,
    normalized,
    release_others,
)
from storage.delivery.receipts import insert_receipt
from storage.model import Receipt
from storage.postgres.owned_tables import OfAgents, OwnedTable
from storage.postgres.page_conditions import PageConditions, fetch_page, fetch_rows
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import ALWAYS, Period, assign
from storage.postgres.rows import fetch_one, from_row, to_row
from storage.postgres.shared_reads import SharedReads

INSERT = """
INSERT INTO contact (
    id, organization_id, agent_id, name, email, phone, metadata, created_at, other_addresses)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""

FIND = """
SELECT c.* FROM contact_address d JOIN contact c ON c.id = d.contact_id LEFT JOIN agent a ON a.id = c.agent_id
WHERE d.organization_id = $1 AND d.address = $2 AND a.deleted_at IS NULL
"""

GET_REGION = "SELECT phone_region FROM organization WHERE id = $1"

LIST_REGIONS = """
SELECT DISTINCT phone_region FROM organization WHERE id = ANY($1::uuid[]) AND phone_region <> ''
"""

# The contacts with an address, also those whose fields hold it although another contact is found by it: an
# earlier version stored them. Each half reads an index.
LIST_OF_EMAIL = """
(SELECT contact_id AS id FROM contact_address WHERE organization_id = ANY($1::uuid[]) AND address = lower($2))
UNION ALL (
    SELECT id FROM contact
    WHERE organization_id = ANY($1::uuid[]) AND lower(email) = lower($2) AND email <> '' LIMIT $3)
"""

LIST_OF_PHONE = """
(SELECT contact_id AS id FROM contact_address
 WHERE organization_id = ANY($1::uuid[]) AND address = ANY($4::text[]))
UNION ALL (
    SELECT id FROM contact
    WHERE organization_id = ANY($1::uuid[]) AND regexp_replace(phone, '[^0-9]', '', 'g') = $2 AND phone <> ''
    LIMIT $3)
"""

UPDATE = "UPDATE contact SET /* set */ WHERE id = $1"

DELETE = "DELETE FROM contact WHERE id = $1 RETURNING id"

MAX_FOUND = 1000  # contacts of one address, of which earlier versions stored any number


@dataclass(frozen=True, slots=True)
class Contact:
    """A person; one without an agent belongs to all agents of the organization.

    `phone` and `other_addresses` are in the forms of `storage.channels.addresses`.
    """

    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    name: str
    email: str
    phone: str
    metadata: Any
    created_at: datetime
    other_addresses: tuple[str, ...] = ()


TABLE = OwnedTable("contact", "c", Contact, OfAgents.SOME)


@dataclass(frozen=True, slots=True)
class ContactFilters:
    """The contacts that a list shows: those of organizations, or those that one agent sees.

    The case of `email` does not matter. `phone` holds the digits of a telephone number alone, with its
    country code or without that of the `phone_region` of the organizations.
    """

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    email: str | None = None
    phone: str | None = None
    created: Period = ALWAYS
    visible_to: UUID | None = None


class Contacts:
    """The table `contact`. A deleted agent's contacts are not found."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        documents = ("c.metadata", "c.other_addresses")
        self.get = SharedReads("contacts", pool, TABLE.get, partial(from_row, Contact), documents=documents)

    async def normalized(self, contact: Contact) -> Contact:
        """Return the contact with its addresses in their stored form. Raise BadAddress."""
        fields = _address_fields(contact)
        region = await self._region_for(contact.organization_id, fields)
        return replace(contact, **normalized(fields, region))

    async def insert(self, contact: Contact, receipt: Receipt | None = None) -> None:
        """Store a contact whose addresses are normalized.

        Raise ReferenceMissing for `agent`, AddressTaken if another contact has one of the addresses,
        AnsweredBefore if the receipt exists already.
        """
        async with self._pool.transaction() as connection:
            await insert_receipt(connection, receipt, contact.organization_id)
            await insert_contact(connection, contact)

    async def normalize_address(self, organization_id: UUID, text: str) -> str:
        """Return the address that a text means in the organization.

        Raise `storage.channels.addresses.InvalidAddress`.
        """
        return normalize(text, await self._region_for(organization_id, {"phone": text}))

    async def find(self, organization_id: UUID, address: str) -> Contact | None:
        """Return the contact of the organization that has this address; None if none has it."""
        return await fetch_one(self._pool, Contact, FIND, organization_id, address)

    async def list_page(self, filters: ContactFilters, page: Page) -> Chunk[Contact]:
        """List one page of the contacts, newest first."""
        statement, conditions = await self._listing(filters, page)
        return await fetch_page(self._pool, Contact, statement, conditions)

    async def list_rows(self, filters: ContactFilters, page: Page) -> Chunk[Record]:
        """List the same page as rows with the columns of `Contact`."""
        statement, conditions = await self._listing(filters, page)
        return await fetch_rows(self._pool, Contact, statement, conditions)

    async def update(self, contact_id: UUID, changes: Mapping[str, Any]) -> Contact | None:
        """Set the columns in `changes` and return the contact; None if there is no such contact.

        Raise ReferenceMissing for `agent`, BadAddress, AddressTaken if another contact has an address.
        """
        contact = await self.get(contact_id)
        if contact is None or not changes:
            return contact
        if changes.keys() & ADDRESS_FIELDS:
            region = await self._region_for(contact.organization_id, changes)
            changes = normalized(changes, region)
        sql = assign(UPDATE, changes, Contact, after=1)
        async with self._pool.transaction() as connection:
            await connection.execute(sql, contact_id, *changes.values())
            changed = await fetch_one(connection, Contact, TABLE.get, [contact_id])
            if changed is not None and changes.keys() & ADDRESS_FIELDS:
                await _move_addresses(connection, changed, changes)
        return changed

    async def delete(self, contact_id: UUID) -> bool:
        """Delete the contact; False if there is no such contact. Its messages stay, without a contact."""
        return await self._pool.fetchval(DELETE, contact_id) is not None

    async def _listing(self, filters: ContactFilters, page: Page) -> tuple[str, PageConditions]:
        """Return the statement that lists the page, with its conditions."""
        # To find one by its address, the index on addresses of the organization is faster.
        is_by_address = bool(filters.email or filters.phone)
        agent_id = None if is_by_address else filters.visible_to
        statement, conditions = TABLE.listing(filters.organization_ids, agent_id, page)
        if is_by_address:
            conditions.add_optional("(c.agent_id = $ OR c.agent_id IS NULL)", filters.visible_to)
        conditions.add_optional("c.agent_id = $", filters.agent_id)
        if filters.email is not None:
            conditions.add("c.id = ANY($::uuid[])", await self._list_of_email(filters))
        if filters.phone is not None:
            conditions.add("c.id = ANY($::uuid[])", await self._list_of_phone(filters))
        conditions.add_period("c.created_at", filters.created)
        return statement, conditions

    async def _list_of_email(self, filters: ContactFilters) -> list[UUID]:
        owners = filters.organization_ids
        rows = await self._pool.fetch(LIST_OF_EMAIL, owners, filters.email, MAX_FOUND)
        return [row["id"] for row in rows]

    async def _list_of_phone(self, filters: ContactFilters) -> list[UUID]:
        owners, digits = filters.organization_ids, filters.phone or ""
        regions = [row["phone_region"] for row in await self._pool.fetch(LIST_REGIONS, owners)]
        addresses = phone_addresses(digits, regions)
        rows = await self._pool.fetch(LIST_OF_PHONE, owners, digits, MAX_FOUND, addresses)
        return [row["id"] for row in rows]

    async def _region_for(self, organization_id: UUID, fields: Mapping[str, Any]) -> str:
        """Return the region of the organization's phone numbers, "" if none of the fields depends on it."""
        texts = (fields.get("phone", ""), *fields.get("other_addresses", ()))
        if not any(map(needs_region, texts)):
            return ""
        region: str | None = await self._pool.fetchval(GET_REGION, organization_id)
        return region or ""


async def insert_contact(connection: Connection, contact: Contact) -> None:
    """Store a contact and its addresses within a transaction. Raise the errors of `Contacts.insert`."""
    await connection.execute(INSERT, *to_row(INSERT, contact))
    await claim(connection, contact.organization_id, contact.id, _address_fields(contact))


async def _move_addresses(connection: Connection, contact: Contact, changes: Mapping[str, Any]) -> None:
    """Let the contact be found by the addresses that it has after these changes.

    It claims only those that were changed: an earlier version may have stored the others with several
    contacts.
    """
    await release_others(connection, contact.id, _address_fields(contact))
    await claim(connection, contact.organization_id, contact.id, changes)


def _address_fields(contact: Contact) -> dict[str, Any]:
    return {name: getattr(contact, name) for name in ADDRESS_FIELDS}
