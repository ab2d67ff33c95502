"""Event webhooks: addresses that get an organization's events, the secrets that sign them, and the matching.

The matching stores a delivery for each event that a webhook asks for.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.encryption import NO_ENCRYPTION, SecretCipher, value_of_webhook_secret
from storage.ids import new_id
from storage.model import Receipt
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fetch_one, from_row

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

        async def work(connection: Connection) -> None:
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

        await self._pool.write(work, f"insert of webhook {webhook.id}")
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
        return await delete_row(self._pool, "webhook", webhook_id)

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


MAX_EVENTS = 200  # that one statement compares with each webhook
MAX_PENDING = 1000  # deliveries of one webhook; its further events wait in the log

LIST_ORGANIZATIONS = "SELECT DISTINCT organization_id FROM webhook WHERE is_active"

# Store the deliveries together with the position of their webhook, so that no crash loses or repeats one.
# Write the position only if that saves reading many events again. Compare an event about an agent with the
# tags and the template that the agent has now. Leave out a given-up delivery that was itself about webhooks:
# two receivers that are gone would otherwise create deliveries for each other without end.
MATCH = """
WITH subscription AS (
    SELECT * FROM webhook WHERE organization_id = $1 AND is_active AND position < $2
    ORDER BY id FOR NO KEY UPDATE
), measured AS (
    SELECT s.*, $4 > (
        SELECT count(*) FROM (
            SELECT FROM webhook_delivery d
            WHERE d.webhook_id = s.id AND d.next_attempt_at IS NOT NULL LIMIT $4
        ) pending) AS has_room
    FROM subscription s
), page AS (
    SELECT m.id AS webhook_id, m.url, m.types, m.agent_id AS only_agent, m.template_id AS only_template,
           m.tag, e.id, e.at, e.type, e.organization_id, e.agent_id, e.run_id, e.resource_id, e.actor, e.data
    FROM measured m
    CROSS JOIN LATERAL (
        SELECT * FROM event e WHERE e.organization_id = m.organization_id AND e.id > m.position AND e.id <= $2
        ORDER BY e.id LIMIT $3
    ) e
    WHERE m.has_room
), matched AS (
    SELECT p.* FROM page p LEFT JOIN agent a ON a.id = p.agent_id
    WHERE p.type <> 'audit' AND p.types && ARRAY[p.type, split_part(p.type, '.', 1) || '.*', '*']
        AND (p.type LIKE 'organization.%' OR (
            (p.only_agent IS NULL OR p.only_agent = p.agent_id)
            AND (p.only_template IS NULL OR p.only_template = a.template_id)
            AND (p.tag = '' OR p.tag = ANY (a.tags))))
        AND (p.type <> 'webhook.given_up' OR coalesce(p.data ->> 'type', '') NOT LIKE 'webhook.%')
), inserted AS (
    INSERT INTO webhook_delivery (
        id, organization_id, agent_id, webhook_id, url, payload, created_at, next_attempt_at)
    SELECT gen_random_uuid(), m.organization_id, m.agent_id, m.webhook_id, m.url,
           json_build_object('type', m.type, 'timestamp', at.text, 'data', json_build_object(
               'id', m.id, 'type', m.type, 'at', at.text, 'organization', m.organization_id,
               'agent', m.agent_id, 'run', m.run_id, 'resource_id', m.resource_id,
               'by', json_build_object(
                   'type', coalesce(nullif(split_part(m.actor, ':', 1), ''), 'service'),
                   'id', nullif(split_part(m.actor, ':', 2), '')),
               'data', m.data)),
           m.at, least(m.at, $5::timestamptz)
    FROM matched m
    CROSS JOIN LATERAL (
        SELECT to_char(m.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text) AS at
    RETURNING webhook_id
), compared AS (
    SELECT webhook_id, count(*) = $3 AS has_more, max(id) AS last FROM page GROUP BY webhook_id
), moved AS (
    UPDATE webhook w SET position = CASE WHEN c.has_more THEN c.last ELSE $2 END
    FROM compared c
    WHERE w.id = c.webhook_id AND (c.has_more OR w.id IN (SELECT webhook_id FROM inserted))
)
SELECT (SELECT count(*) FROM inserted) AS stored,
       (SELECT coalesce(bool_or(has_more), false) FROM compared) AS has_more,
       (SELECT coalesce(bool_or(NOT has_room), false) FROM measured) AS is_held
"""


@dataclass(frozen=True, slots=True)
class Matched:
    """The result of one statement: the number of new deliveries, and what is left to do.

    `has_more`: further events can be matched at once. `is_held`: a webhook has too many pending deliveries.
    """

    stored: int
    has_more: bool
    is_held: bool


class WebhookMatching:
    """Matches events with webhooks; sets `stored` when there are new deliveries.

    `changed` is set by those who change webhooks.
    """

    def __init__(self, pool: Pool, *, stored: asyncio.Event, changed: asyncio.Event) -> None:
        self.changed = changed
        self._pool = pool
        self._stored = stored

    async def list_organizations(self) -> Collection[UUID]:
        """Return the organizations that have an active webhook."""
        rows = await self._pool.fetch(LIST_ORGANIZATIONS)
        return {row["organization_id"] for row in rows}

    async def match(self, organization_id: UUID, until: int, now: datetime) -> Matched:
        """Store deliveries for the organization's next events up to the id `until`, each exactly once."""
        [row] = await self._pool.fetch(MATCH, organization_id, until, MAX_EVENTS, MAX_PENDING, now)
        matched = Matched(**dict(row))
        if matched.stored:
            self._stored.set()
        return matched
