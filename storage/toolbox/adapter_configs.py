"""Adapter configs: the settings of an adapter for the agents of a template."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import insert_once
from storage.encryption import NO_ENCRYPTION, SecretCipher, config_of
from storage.model import Receipt
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.rows import from_row, to_row
from storage.postgres.shared_reads import SharedReads

INSERT = """
INSERT INTO adapter_config (id, template_id, adapter_id, config, created_at, updated_at, secret_headers)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""

GET = """
SELECT c.*, (SELECT t.organization_id FROM template t WHERE t.id = c.template_id) AS organization_id
FROM adapter_config c WHERE c.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

PAGE = """
SELECT c.*, t.organization_id FROM adapter_config c JOIN template t ON t.id = c.template_id
WHERE t.organization_id = ANY ($1::uuid[]) /* and */
ORDER BY c.created_at DESC, c.id DESC LIMIT $2 OFFSET $3
"""

UPDATE = """
UPDATE adapter_config c SET updated_at = greatest(c.updated_at, $2), /* set */
FROM template t WHERE c.id = $1 AND t.id = c.template_id RETURNING c.*, t.organization_id
"""

DELETE = "DELETE FROM adapter_config WHERE id = $1 RETURNING id"


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """The config of one adapter for one template; `organization_id` is the template's.

    `config` is None if it cannot be decrypted. `secret_headers` are headers of tool calls, each with the name
    of the secret that is its value.
    """

    id: UUID
    organization_id: UUID
    template_id: UUID
    adapter_id: UUID
    config: Any = field(repr=False)
    created_at: datetime
    updated_at: datetime
    secret_headers: Mapping[str, str] = field(default_factory=dict)


class AdapterConfigs:
    """The table `adapter_config`."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        documents = ("c.config", "c.secret_headers")
        self.get = SharedReads("adapter configs", pool, GET, self._config, documents=documents)

    async def insert(self, config: AdapterConfig, receipt: Receipt | None = None) -> None:
        """Store the config.

        Raise NotUnique if the template has one for the adapter, ReferenceMissing for `template` or `adapter`,
        AnsweredBefore if the receipt exists already.
        """
        stored = self._cipher.encrypt_json(config.config, config_of(config.id))
        row = to_row(INSERT, config, config=stored)
        await insert_once(self._pool, receipt, config.organization_id, INSERT, *row)

    async def list_page(
        self,
        organization_ids: tuple[UUID, ...],
        template_id: UUID | None,
        adapter_id: UUID | None,
        page: Page,
    ) -> Chunk[AdapterConfig]:
        """List one page of the configs of the organizations' templates, newest first."""
        conditions = PageConditions(organization_ids, page, "c.created_at, c.id")
        conditions.add_optional("c.template_id = $", template_id)
        conditions.add_optional("c.adapter_id = $", adapter_id)
        return await fetch_page(self._pool, AdapterConfig, PAGE, conditions, self._config)

    async def update(
        self, config_id: UUID, changes: Mapping[str, Any], now: datetime
    ) -> AdapterConfig | None:
        """Set the columns in `changes` and return the adapter config; None if there is none."""
        if not changes:
            return await self.get(config_id)
        if "config" in changes:
            stored = self._cipher.encrypt_json(changes["config"], config_of(config_id))
            changes = {**changes, "config": stored}
        statement = assign(UPDATE, changes, AdapterConfig, after=2)
        return self._found(await self._pool.fetchrow(statement, config_id, now, *changes.values()))

    async def delete(self, config_id: UUID) -> bool:
        return await self._pool.fetchval(DELETE, config_id) is not None

    def _found(self, row: Record | None) -> AdapterConfig | None:
        return None if row is None else self._config(row)

    def _config(self, row: Record) -> AdapterConfig:
        config = self._cipher.decrypt_json_or_none(row["config"], config_of(row["id"]))
        return from_row(AdapterConfig, row, config=config)
