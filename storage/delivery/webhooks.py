"""Event webhooks: addresses that get an organization's events, with the secrets that sign them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.encryption import NO_ENCRYPTION, SecretCipher, value_of_webhook_secret
from storage.ids import new_id
from storage.model import Receipt
from storage.postgres.owned_tables import OwnedTable
from storage.postgres.page_conditions import OrganizationsPage, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.rows import fetch_one, from_row
from storage.postgres.shared_reads import SharedReads

OLD_SECRET_LIFETIME = timedelta(days=1)  # after a rotation
MAX_OLD_SECRETS = 5  # that are valid at the same time

# From the last event that exists on: an event of a transaction in progress may be before or after it.
INSERT = """
INSERT INTO webhook (
    id, organization_id, url, description, types, agent_id, template_id, tag, is_active, created_at,
    updated_at, position)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, (SELECT coalesce(max(id), 0) FROM event))
"""

INSERT_SECRET = "INSERT INTO webhook_secret (id, webhook_id, value) VALUES ($1, $2, $3)"  # noqa: S105

# A webhook that was off does not get the events of that time.
UPDATE = """
UPDATE webhook SET updated_at = greatest(updated_at, $2),
    position = CASE WHEN is_active THEN position ELSE (SELECT coalesce(max(id), 0) FROM event) END,
    /* set */
WHERE id = $1 RETURNING *
"""

DELETE = "DELETE FROM webhook WHERE id = $1 RETURNING id"

LOCK = "SELECT FROM webhook WHERE id = $1 FOR UPDATE"

DELETE_EXPIRED_SECRETS = "DELETE FROM webhook_secret WHERE webhook_id = $1 AND valid_until <= $2"

COUNT_OLD_SECRETS = """
SELECT count(*) FROM webhook_secret WHERE webhook_id = $1 AND valid_until IS NOT NULL
"""

EXPIRE_OLD = """
UPDATE webhook_secret SET valid_until = $2 WHERE webhook_id = $1 AND valid_until IS NULL
"""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An event webhook without its secrets.

    `types` are types of events, `run.*` for a family, or `*` for all. `failing_since` is the first failed
    attempt since the last success. `disabled_at` is set if the service has switched the webhook off.
    """

    id: UUID
    organization_id: UUID
    url: str
    description: str
    types: tuple[str, ...]
    agent_id: UUID | None
    template_id: UUID | None
    tag: str
    is_active: bool
    created_at: datetime
    updated_at: datetime
    failing_since: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str = ""


TABLE = OwnedTable("webhook", "w", Webhook)


class Webhooks:
    """The tables `webhook` and `webhook_secret`. `changed` is set after each change of a webhook."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self.changed = asyncio.Event()
        self._pool = pool
        self._cipher = cipher
        self.get = SharedReads("webhooks", pool, TABLE.get, partial(from_row, Webhook))

    async def insert(self, webhook: Webhook, secret: str, receipt: Receipt | None = None) -> None:
        """Store the webhook, which gets events from now on. Raise AnsweredBefore if the receipt exists."""
        async with self._pool.transaction() as connection:
            await insert_receipt(connection, receipt, webhook.organization_id)
            await connection.execute(
                INSERT,
                webhook.id,
                webhook.organization_id,
                webhook.url,
                webhook.description,
                webhook.types,
                webhook.agent_id,
                webhook.template_id,
                webhook.tag,
                webhook.is_active,
                webhook.created_at,
            )
            await connection.execute(INSERT_SECRET, *self._secret_row(webhook.id, secret))
        self.changed.set()

    async def list_page(self, organization_ids: tuple[UUID, ...], page: Page) -> Chunk[Webhook]:
        """List one page of the organizations' webhooks, newest first."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        return await fetch_page(self._pool, Webhook, TABLE.page, conditions)

    async def update(self, webhook_id: UUID, changes: Mapping[str, Any], now: datetime) -> Webhook | None:
        """Set the columns in `changes` and return the webhook; None if there is no such webhook.

        With a new URL, or when it is switched on, its failures are forgotten.
        """
        if not changes:
            return await self.get(webhook_id)
        if "url" in changes or changes.get("is_active"):
            changes = {**changes, "failing_since": None}
        if changes.get("is_active"):
            changes = {**changes, "disabled_at": None, "disabled_reason": ""}
        sql = assign(UPDATE, changes, Webhook, after=2)
        webhook = await fetch_one(self._pool, Webhook, sql, webhook_id, now, *changes.values())
        self.changed.set()
        return webhook

    async def delete(self, webhook_id: UUID) -> bool:
        """Delete the webhook; return False if there is none. Its pending deliveries can no longer be sent."""
        return await self._pool.fetchval(DELETE, webhook_id) is not None

    async def rotate_secret(self, webhook_id: UUID, secret: str, now: datetime) -> bool:
        """Sign with this secret from now on, and for a day with the current one as well.

        Return False without a change if too many old secrets are still valid.
        """
        async with self._pool.transaction() as connection:
            await connection.execute(LOCK, webhook_id)
            await connection.execute(DELETE_EXPIRED_SECRETS, webhook_id, now)
            if await connection.fetchval(COUNT_OLD_SECRETS, webhook_id) >= MAX_OLD_SECRETS:
                return False
            await connection.execute(EXPIRE_OLD, webhook_id, now + OLD_SECRET_LIFETIME)
            await connection.execute(INSERT_SECRET, *self._secret_row(webhook_id, secret))
        return True

    def _secret_row(self, webhook_id: UUID, secret: str) -> tuple[UUID, UUID, str]:
        secret_id = new_id()
        return secret_id, webhook_id, self._cipher.encrypt(secret, value_of_webhook_secret(secret_id))
