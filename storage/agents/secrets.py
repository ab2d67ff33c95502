"""Secrets for the code and the tools of agents: of an organization, or of one of its templates.

Only `get_values` reads values, for those who use them. Nothing else returns one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.encryption import NO_ENCRYPTION, SecretCipher, value_of_secret
from storage.model import Receipt
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fetch_one, fields_of, from_row, insert_into

UPDATE = """
UPDATE secret SET value = $2, updated_at = greatest(updated_at, $3) WHERE id = $1
RETURNING id, organization_id, template_id, name, created_at, updated_at
"""

# Of two secrets with one name, that of the template.
LIST_VALUES = """
SELECT DISTINCT ON (name) id, name, value FROM secret
WHERE organization_id = $1 AND name = ANY ($3::text[]) AND (template_id = $2 OR template_id IS NULL)
ORDER BY name, template_id NULLS LAST
"""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret without its value; `template_id` is None if it belongs to the whole organization."""

    id: UUID
    organization_id: UUID
    template_id: UUID | None
    name: str
    created_at: datetime
    updated_at: datetime


TABLE = OwnedTable("secret", "s", Secret)


@dataclass(frozen=True, slots=True)
class SecretFilters:
    """Which secrets to list: those of a template, or without one those of the organizations themselves."""

    organization_ids: tuple[UUID, ...]
    template_id: UUID | None = None


class Secrets:
    """The table `secret`."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        self.get = SharedReads("secrets", pool, TABLE.get, partial(from_row, Secret))

    async def insert(self, secret: Secret, value: str, receipt: Receipt | None = None) -> None:
        """Store the secret.

        Raise NotUnique if the organization or template has one of this name, ReferenceMissing for
        `template`, AnsweredBefore if the receipt exists already.
        """
        stored = self._cipher.encrypt(value, value_of_secret(secret.id))
        insert = insert_into("secret", fields_of(secret) | {"value": stored})
        await insert_once(self._pool, receipt, secret.organization_id, *insert)

    async def list_page(self, filters: SecretFilters, page: Page) -> Chunk[Secret]:
        """List one page of the secrets, newest first."""
        conditions = OrganizationsPage(filters.organization_ids, page, TABLE.order)
        if filters.template_id is None:
            conditions.add("s.template_id IS NULL")
        conditions.add_optional("s.template_id = $", filters.template_id)
        return await fetch_page(self._pool, Secret, TABLE.page, conditions)

    async def update(self, secret_id: UUID, value: str, now: datetime) -> Secret | None:
        """Replace the value and return the secret; None if there is no such secret."""
        stored = self._cipher.encrypt(value, value_of_secret(secret_id))
        return await fetch_one(self._pool, Secret, UPDATE, secret_id, stored, now)

    async def delete(self, secret_id: UUID) -> bool:
        return await delete_row(self._pool, "secret", secret_id)

    async def get_values(
        self, organization_id: UUID, template_id: UUID | None, names: Collection[str]
    ) -> dict[str, str]:
        """Return the values by name, without names that no secret has; the template's secrets come first.

        Raise SecretUnreadable for a value that cannot be decrypted.
        """
        rows = await self._pool.fetch(LIST_VALUES, organization_id, template_id, list(names))
        return {row["name"]: self._cipher.decrypt(row["value"], value_of_secret(row["id"])) for row in rows}
