"""Contacts: the people that agents exchange messages with, and the addresses that they are found by.

Each address belongs to one contact of an organization.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage import errors
from storage.channels.addresses import (
    NOT_DIGITS,
    InvalidAddress,
    is_email,
    is_sender_name,
    needs_region,
    normalize,
    normalize_email,
    normalize_phone,
    phone_addresses,
)
from storage.delivery.receipts import insert_receipt
from storage.ids import new_id
from storage.model import Receipt
from storage.postgres.paging import Chunk, OfAgents, OwnedTable, Page, PageConditions, fetch_page, fetch_rows
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import ALWAYS, Period, assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fetch_one, fields_of, from_row, insert_into

# The rows are locked in the order of their addresses, so that no two transactions can deadlock. A contact of
# a deleted agent gives its addresses up.
CLAIM_ADDRESSES = """
INSERT INTO contact_address AS held (organization_id, address, contact_id)
SELECT $1, address, $2 FROM unnest($3::text[]) AS address ORDER BY address
ON CONFLICT ON CONSTRAINT contact_address_pkey DO UPDATE SET contact_id = excluded.contact_id
WHERE held.contact_id = excluded.contact_id OR EXISTS (
    SELECT FROM contact c JOIN agent a ON a.id = c.agent_id
    WHERE c.id = held.contact_id AND a.deleted_at IS NOT NULL)
RETURNING address
"""

LIST_OWNERS = """
SELECT address, contact_id FROM contact_address WHERE organization_id = $1 AND address = ANY($2::text[])
"""

RELEASE_ADDRESSES = "DELETE FROM contact_address WHERE contact_id = $1 AND address <> ALL($2::text[])"

ADDRESS_FIELDS = frozenset({"email", "phone", "other_addresses"})


def addresses_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the addresses that a contact with these fields is found by, each with the name of its field.

    A phone number that an earlier version stored, which is not in the form of an address, is left out.
    """
    email, phone = fields.get("email", ""), fields.get("phone", "")
    addresses = dict.fromkeys(fields.get("other_addresses", ()), "other_addresses")
    if phone and not NOT_DIGITS.search(phone.removeprefix("+")):
        addresses[phone] = "phone"
    if email:
        addresses[_email_address(email)] = "email"
    return addresses


def _email_address(text: str) -> str:
    """Return the address that an e-mail address is found by, even if only an earlier version accepted it."""
    try:
        return normalize_email(text)
    except InvalidAddress:
        return text.lower()


def normalized(fields: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return the fields of a contact with its phone number and its further addresses in their stored form.

    An e-mail address is only checked, and keeps its capitals. Raise BadAddress.
    """
    changed = dict(fields)
    if fields.get("email"):
        changed["email"] = fields["email"].strip()
        _checked("email", normalize_email, fields["email"])
    if fields.get("phone"):
        changed["phone"] = _checked("phone", normalize_phone, fields["phone"], region)
    if "other_addresses" in fields:
        others = [_checked("other_addresses", normalize, text, region) for text in fields["other_addresses"]]
        changed["other_addresses"] = tuple(dict.fromkeys(others))
    return changed


def _checked(field: str, convert: Callable[..., str], *parameters: str) -> str:
    try:
        return convert(*parameters)
    except InvalidAddress as error:
        raise errors.BadAddress(field, str(error)) from error


async def claim(
    connection: Connection, organization_id: UUID, contact_id: UUID, fields: Mapping[str, Any]
) -> None:
    """Store that the addresses in these fields belong to the contact.

    Raise AddressTaken if one belongs to another contact.
    """
    addresses = addresses_of(fields)
    if not addresses:
        return
    claimed = await connection.fetch(CLAIM_ADDRESSES, organization_id, contact_id, list(addresses))
    missing = addresses.keys() - {row["address"] for row in claimed}
    for row in await connection.fetch(LIST_OWNERS, organization_id, sorted(missing)) if missing else ():
        address, owner = row["address"], row["contact_id"]
        raise errors.AddressTaken(addresses[address], address, owner)


async def release_others(connection: Connection, contact_id: UUID, fields: Mapping[str, Any]) -> None:
    """Give up all addresses of the contact but those in these fields."""
    await connection.execute(RELEASE_ADDRESSES, contact_id, list(addresses_of(fields)))


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
(SELECT contact_id AS id FROM contact_address WHERE organization_id = ANY($1::uuid[]) AND address = $4)
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

# No index finds parts of words: the contacts are read one after the other, newest first.
SEARCHED = "strpos(lower(concat_ws(' ', c.name, c.email, c.phone, c.other_addresses::text)), lower($)) > 0"

UPDATE = "UPDATE contact SET /* set */ WHERE id = $1"

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
    country code or without that of the `phone_region` of the organizations. `search` is a part of the name or
    of an address.
    """

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    email: str | None = None
    phone: str | None = None
    created: Period = ALWAYS
    visible_to: UUID | None = None
    search: str | None = None


class Contacts:
    """The table `contact`. A deleted agent's contacts are not found."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        documents = ("c.metadata", "c.other_addresses")
        self.get = SharedReads("contacts", pool, TABLE.get, partial(from_row, Contact), documents=documents)

    async def normalized(self, contact: Contact) -> Contact:
        """Return the contact as `insert` stores it. Raise BadAddress."""
        return await _normalized_contact(self._pool, contact)

    async def insert(self, contact: Contact, receipt: Receipt | None = None) -> Contact:
        """Store a contact, and return it with its addresses in their stored form.

        Raise ReferenceMissing for `agent`, BadAddress, AddressTaken if another contact has one of the
        addresses, AnsweredBefore if the receipt exists already.
        """

        async def work(connection: Connection) -> Contact:
            await insert_receipt(connection, receipt, contact.organization_id)
            return await insert_contact(connection, contact)

        return await self._pool.write(work, f"insert of contact {contact.id}")

    async def find_or_insert(self, organization_id: UUID, address: str, now: datetime) -> Contact:
        """Return the contact that has this normalized address; store a new one if none has it."""
        while True:
            found = await self.find(organization_id, address)
            if found is not None:
                return found
            try:
                return await self.insert(contact_with(organization_id, address, now))
            except errors.AddressTaken as error:  # by another call in between
                found = await self.get(error.contact_id)
                if found is not None:  # else it was deleted since
                    return found

    async def normalize_address(self, organization_id: UUID, text: str) -> str:
        """Return the address that a text means in the organization.

        Raise `storage.channels.addresses.InvalidAddress`.
        """
        return normalize(text, await _region_for(self._pool, organization_id, {"phone": text}))

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
            region = await _region_for(self._pool, contact.organization_id, changes)
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
        return await delete_row(self._pool, "contact", contact_id)

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
        if filters.search is not None:
            conditions.add(SEARCHED, _part_of_number(filters.search) or filters.search)
        conditions.add_period("c.created_at", filters.created)
        return statement, conditions

    async def _list_of_email(self, filters: ContactFilters) -> list[UUID]:
        owners = filters.organization_ids
        email = filters.email or ""
        rows = await self._pool.fetch(LIST_OF_EMAIL, owners, email, MAX_FOUND, _email_address(email))
        return [row["id"] for row in rows]

    async def _list_of_phone(self, filters: ContactFilters) -> list[UUID]:
        owners, digits = filters.organization_ids, filters.phone or ""
        regions = [row["phone_region"] for row in await self._pool.fetch(LIST_REGIONS, owners)]
        addresses = phone_addresses(digits, regions)
        rows = await self._pool.fetch(LIST_OF_PHONE, owners, digits, MAX_FOUND, addresses)
        return [row["id"] for row in rows]


def _part_of_number(text: str) -> str:
    """Return the digits that each notation of a telephone number has, "" for a text that is no number."""
    return "" if any(map(str.isalpha, text)) else NOT_DIGITS.sub("", text).lstrip("0")


def contact_with(organization_id: UUID, address: str, now: datetime, name: str = "") -> Contact:
    """Return a new contact of all agents of the organization, because its address is unique there."""
    is_name = is_sender_name(address)
    return Contact(
        id=new_id(),
        organization_id=organization_id,
        agent_id=None,
        name=name,
        email=address if is_email(address) else "",
        phone="" if is_email(address) or is_name else address,
        metadata={},
        created_at=now,
        other_addresses=(address,) if is_name else (),
    )


async def insert_contact(connection: Connection, contact: Contact) -> Contact:
    """Store a contact and its addresses within a transaction. Raise the errors of `Contacts.insert`.

    Every contact comes this way, so none is stored with an address that it cannot be found by.
    """
    contact = await _normalized_contact(connection, contact)
    await connection.execute(*insert_into("contact", fields_of(contact)))
    await claim(connection, contact.organization_id, contact.id, _address_fields(contact))
    return contact


async def _normalized_contact(database: "Pool | Connection", contact: Contact) -> Contact:
    fields = _address_fields(contact)
    region = await _region_for(database, contact.organization_id, fields)
    return replace(contact, **normalized(fields, region))


async def _region_for(database: "Pool | Connection", organization_id: UUID, fields: Mapping[str, Any]) -> str:
    """Return the region of the organization's phone numbers, "" if none of the fields depends on it."""
    texts = (fields.get("phone", ""), *fields.get("other_addresses", ()))
    if not any(map(needs_region, texts)):
        return ""
    region: str | None = await database.fetchval(GET_REGION, organization_id)
    return region or ""


async def _move_addresses(connection: Connection, contact: Contact, changes: Mapping[str, Any]) -> None:
    """Let the contact be found by the addresses that it has after these changes.

    It claims only those that were changed: an earlier version may have stored the others with several
    contacts.
    """
    await release_others(connection, contact.id, _address_fields(contact))
    await claim(connection, contact.organization_id, contact.id, changes)


def _address_fields(contact: Contact) -> dict[str, Any]:
    return {name: getattr(contact, name) for name in ADDRESS_FIELDS}
