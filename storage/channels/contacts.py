"""Contacts: the people that agents exchange messages with."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.model import Receipt
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS, Period, assign
from storage.postgres.rows import fetch_one, to_row

INSERT = """
INSERT INTO contact (id, organization_id, agent_id, name, email, phone, metadata, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""

GET = """
SELECT c.* FROM contact c LEFT JOIN agent a ON a.id = c.agent_id WHERE c.id = $1 AND a.deleted_at IS NULL
"""

# Read a page of each organization along its index, then take the newest of all. The agent is checked by a
# subquery: for a join the planner expects few rows, and would sort all contacts for each page.
PAGE = """
SELECT c.* FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT c.* FROM contact c
    WHERE c.organization_id = o.id
      AND coalesce((SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = c.agent_id), true) /* and */
    ORDER BY c.created_at DESC, c.id DESC LIMIT $2::bigint + $3::bigint
) c
ORDER BY c.created_at DESC, c.id DESC LIMIT $2 OFFSET $3
"""

# What one agent sees: its own, and those for all agents of its organization. To find one by its address, the
# index on addresses of the organization is faster.
PAGE_FOR_AGENT = """
SELECT c.* FROM (
    (SELECT c.* FROM contact c
     WHERE c.agent_id = $1 /* and */
     ORDER BY c.created_at DESC, c.id DESC LIMIT $2::bigint + $3::bigint)
    UNION ALL
    (SELECT c.* FROM contact c
     WHERE c.organization_id = (SELECT a.organization_id FROM agent a WHERE a.id = $1)
       AND c.agent_id IS NULL /* and */
     ORDER BY c.created_at DESC, c.id DESC LIMIT $2::bigint + $3::bigint)
) c
ORDER BY c.created_at DESC, c.id DESC LIMIT $2 OFFSET $3
"""

ORDER = "c.created_at, c.id"

UPDATE = "UPDATE contact SET /* set */ WHERE id = $1"

DELETE = "DELETE FROM contact WHERE id = $1 RETURNING id"

CHANGEABLE = frozenset({"agent_id", "name", "email", "phone", "metadata"})


@dataclass(frozen=True, slots=True)
class Contact:
    """A person; one without an agent belongs to all agents of the organization."""

    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    name: str
    email: str
    phone: str
    metadata: Any
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ContactFilters:
    """The contacts that a list shows: those of organizations, or those that one agent sees.

    `phone` holds the digits of a telephone number alone; the case of `email` does not matter.
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

    async def insert(self, contact: Contact, receipt: Receipt | None = None) -> None:
        """Store the contact.

        Raise ReferenceMissing for `agent`, AnsweredBefore if the receipt exists already.
        """
        row = to_row(INSERT, contact)
        await insert_once(self._pool, receipt, contact.organization_id, INSERT, *row)

    async def get(self, contact_id: UUID) -> Contact | None:
        return await fetch_one(self._pool, Contact, GET, contact_id)

    async def list_page(self, filters: ContactFilters, page: Page) -> Chunk[Contact]:
        """List one page of the contacts, newest first."""
        if filters.visible_to is None or filters.email or filters.phone:
            conditions, statement = PageConditions(filters.organization_ids, page, ORDER), PAGE
            conditions.add_optional("(c.agent_id = $ OR c.agent_id IS NULL)", filters.visible_to)
        else:
            conditions, statement = PageConditions(filters.visible_to, page, ORDER), PAGE_FOR_AGENT
        conditions.add_optional("c.agent_id = $", filters.agent_id)
        # Each second condition is that of the index, without which it is not used.
        conditions.add_optional("lower(c.email) = lower($) AND c.email <> ''", filters.email)
        conditions.add_optional(
            "regexp_replace(c.phone, '[^0-9]', '', 'g') = $ AND c.phone <> ''", filters.phone
        )
        conditions.add_period("c.created_at", filters.created)
        return await fetch_page(self._pool, Contact, statement, conditions)

    async def update(self, contact_id: UUID, changes: Mapping[str, Any]) -> Contact | None:
        """Set the columns in `changes` and return the contact; None if there is no such contact."""
        if changes:
            sql = assign(UPDATE, changes, CHANGEABLE, after=1)
            await self._pool.execute(sql, contact_id, *changes.values())
        return await self.get(contact_id)

    async def delete(self, contact_id: UUID) -> bool:
        """Delete the contact; False if there is no such contact. Its messages stay, without a contact."""
        return await self._pool.fetchval(DELETE, contact_id) is not None
