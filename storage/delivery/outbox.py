"""The outbox of webhooks: each is stored in the transaction of its event, so that none can be lost."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.encryption import (
    NO_ENCRYPTION,
    SecretCipher,
    tool_call_secret_of,
    value_of_webhook_secret,
)
from storage.errors import SecretUnreadable
from storage.histogram import LONG_SECONDS, Histogram
from storage.ids import new_id
from storage.postgres.paging import Chunk, Page, PageConditions, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import Statement, columns_of, from_row, values_of

# Only if the agent's template names a webhook. The payload holds no secret and no prompt.
INSERT_AGENT_CREATED = """
INSERT INTO webhook_delivery (
    id, organization_id, agent_id, template_id, url, payload, created_at, next_attempt_at)
SELECT $1, a.organization_id, a.id, t.id, t.agent_created_webhook_url,
       json_build_object('type', 'agent.created', 'timestamp', at.text, 'data', json_build_object(
           'agent', a.id, 'template', t.id, 'organization', a.organization_id, 'name', a.name,
           'tags', a.tags, 'purpose', a.purpose, 'created_at', at.text)),
       a.created_at, a.created_at
FROM agent a
JOIN template t ON t.id = a.template_id
CROSS JOIN LATERAL (
    SELECT to_char(a.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text) AS at
WHERE a.id = $2 AND t.agent_created_webhook_url <> ''
RETURNING id
"""

# Step from one receiver to the next along the index, at a cost that does not depend on how many rows each
# has; then take the first due rows of each.
LIST_DUE = """
WITH RECURSIVE receiver AS (
    (SELECT organization_id, url FROM webhook_delivery
     WHERE next_attempt_at IS NOT NULL AND (organization_id, url) > ($2, $3)
       AND (SELECT paused_at FROM instance) IS NULL
     ORDER BY organization_id, url LIMIT 1)
    UNION ALL
    SELECT n.organization_id, n.url FROM receiver r
    CROSS JOIN LATERAL (
        SELECT d.organization_id, d.url FROM webhook_delivery d
        WHERE d.next_attempt_at IS NOT NULL AND (d.organization_id, d.url) > (r.organization_id, r.url)
        ORDER BY d.organization_id, d.url LIMIT 1
    ) n
)
SELECT d.id, d.organization_id, d.template_id, d.webhook_id, d.url, d.payload::text AS body, d.attempts,
       d.next_attempt_at, w.is_active, s.secret_ids, s.secrets,
       (SELECT tool_call_secret FROM template WHERE id = d.template_id) AS secret
FROM receiver r
CROSS JOIN LATERAL (
    SELECT d.* FROM webhook_delivery d
    WHERE d.organization_id = r.organization_id AND d.url = r.url AND d.next_attempt_at <= $1
    ORDER BY d.next_attempt_at, d.id LIMIT $4
) d
LEFT JOIN webhook w ON w.id = d.webhook_id
LEFT JOIN LATERAL (
    SELECT array_agg(s.id ORDER BY s.valid_until DESC NULLS FIRST) AS secret_ids,
           array_agg(s.value ORDER BY s.valid_until DESC NULLS FIRST) AS secrets
    FROM webhook_secret s WHERE s.webhook_id = w.id AND (s.valid_until IS NULL OR s.valid_until > $1)
) s ON true
LIMIT $5
"""

INSERT_TEST = """
INSERT INTO webhook_delivery (id, organization_id, webhook_id, url, payload, created_at, next_attempt_at)
SELECT $1, w.organization_id, w.id, w.url,
       json_build_object('type', 'webhook.test', 'timestamp', at.text, 'data', json_build_object(
           'webhook', w.id, 'organization', w.organization_id)),
       $3, $3
FROM webhook w
CROSS JOIN LATERAL (
    SELECT to_char($3 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text) AS at
WHERE w.id = $2 AND w.is_active
RETURNING *, payload ->> 'type' AS type
"""

REDELIVER = """
UPDATE webhook_delivery SET attempts = 0, next_attempt_at = $2, delivered_at = NULL, failed_at = NULL,
    dismissed = false
WHERE id = $1
RETURNING *, payload ->> 'type' AS type
"""

GET = """
SELECT d.*, d.payload ->> 'type' AS type FROM webhook_delivery d
WHERE d.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

# Read a page of each organization along its index, then take the newest of all.
PAGE = """
SELECT d.*, d.payload ->> 'type' AS type FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT d.* FROM webhook_delivery d WHERE d.organization_id = o.id /* and */
    ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint
) d
ORDER BY d.created_at DESC, d.id DESC LIMIT $2 OFFSET $3
"""

COUNT = """
SELECT count(*) FILTER (WHERE failed_at IS NULL) AS pending, count(failed_at) AS failed,
       min(created_at) FILTER (WHERE failed_at IS NULL) AS oldest_pending_at
FROM webhook_delivery WHERE delivered_at IS NULL
"""

DISABLE_AFTER = timedelta(days=5)  # without a success

NO_TEMPLATE = "The template was deleted, and with it the secret that would sign this."
NO_WEBHOOK = "The webhook was deleted, and with it the secret that would sign this."
SWITCHED_OFF = "The webhook is switched off."

Receiver = tuple[UUID, str]
"""The organization and the URL that its webhooks go to."""

FIRST_RECEIVER: Receiver = (UUID(int=0), "")  # comes before all others


class DeliveryStatus(StrEnum):
    """The progress of a delivery."""

    PENDING = "pending"
    """It waits for its first attempt or a retry."""
    DELIVERED = "delivered"
    """The receiver has confirmed it."""
    FAILED = "failed"
    """It was given up; it can be sent again on request."""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """One event for the webhook of a template, or for an event webhook.

    `attempts` counts since the delivery was last requested.
    """

    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    template_id: UUID | None
    webhook_id: UUID | None
    type: str
    url: str
    payload: dict[str, Any]
    created_at: datetime
    attempts: int
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    failed_at: datetime | None
    last_status: int | None
    last_error: str

    @property
    def status(self) -> DeliveryStatus:
        if self.delivered_at is not None:
            return DeliveryStatus.DELIVERED
        return DeliveryStatus.PENDING if self.failed_at is None else DeliveryStatus.FAILED


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery to send now. `secrets` are all that sign it, the current one first.

    If it must not be sent, `refusal` says why, and there are no secrets.
    """

    id: UUID
    organization_id: UUID
    url: str
    body: bytes
    attempts: int
    next_attempt_at: datetime
    secrets: tuple[str, ...] = field(repr=False)
    refusal: str = ""

    @property
    def receiver(self) -> Receiver:
        return self.organization_id, self.url


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of an attempt: exactly one of the three times is set."""

    delivered_at: datetime | None = None
    failed_at: datetime | None = None
    next_attempt_at: datetime | None = None
    status: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class DisabledWebhook:
    """An event webhook that was switched off by the attempt, and why."""

    id: UUID
    organization_id: UUID
    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeliveryFilters:
    """The deliveries that a list shows."""

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    template_id: UUID | None = None
    webhook_id: UUID | None = None
    status: DeliveryStatus | None = None


@dataclass(frozen=True, slots=True)
class OutboxSize:
    """The webhooks of all organizations."""

    pending: int
    """How many are still to be delivered."""
    failed: int
    """How many were given up."""


ATTEMPT = columns_of(Attempt)

# Only if the delivery is as it was read: an attempt or a redelivery that was recorded since then stands. An
# event webhook is judged by the attempts at its present URL, and written only if they change something.
UPDATE_AFTER_ATTEMPT = Statement(
    """
WITH recorded AS (
    UPDATE webhook_delivery
    SET attempts = attempts + 1, delivered_at = :delivered_at, failed_at = :failed_at,
        next_attempt_at = :next_attempt_at, last_status = :status, last_error = :error
    WHERE id = :id AND attempts = :seen_attempts AND next_attempt_at = :seen_attempt_at
    RETURNING *
), given_up_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, resource_id, data)
    SELECT failed_at, 'webhook.given_up', organization_id, agent_id, id,
           json_build_object(
               'type', payload ->> 'type', 'url', left(url, 200), 'error', left(last_error, 200))
    FROM recorded WHERE failed_at IS NOT NULL
), judged AS (
    UPDATE webhook w
    SET failing_since = CASE WHEN :delivered_at::timestamptz IS NULL
                             THEN coalesce(w.failing_since, :now::timestamptz) END,
        is_active = :delivered_at IS NOT NULL OR w.failing_since IS NULL,
        disabled_at = CASE WHEN :delivered_at IS NULL AND w.failing_since IS NOT NULL THEN :now END,
        disabled_reason = CASE WHEN :delivered_at IS NOT NULL OR w.failing_since IS NULL THEN '' ELSE
            'Every attempt since ' || to_char(w.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')
            || ' UTC has failed. The last error: ' || left(:error, 200) END
    FROM recorded r
    WHERE w.id = r.webhook_id AND w.url = r.url AND w.is_active AND CASE
        WHEN :delivered_at IS NOT NULL THEN w.failing_since IS NOT NULL
        ELSE w.failing_since IS NULL OR w.failing_since <= :give_up_before END
    RETURNING w.id, w.organization_id, w.url, w.disabled_at, w.disabled_reason
), disabled AS (
    SELECT * FROM judged WHERE disabled_at IS NOT NULL
), disabled_event AS (
    INSERT INTO event (at, type, organization_id, resource_id, data)
    SELECT disabled_at, 'webhook.disabled', organization_id, id,
           json_build_object('url', left(url, 200), 'error', left(:error, 200))
    FROM disabled
)
SELECT id, organization_id, url, disabled_reason AS reason FROM disabled
    """,
    [*ATTEMPT, "id", "seen_attempts", "seen_attempt_at", "now", "give_up_before"],
)


class Outbox:
    """The table `webhook_delivery`. The event `stored` is set when a delivery can be sent at once."""

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        self.last_size = OutboxSize(0, 0)
        self.oldest_pending_at: datetime | None = None
        self.stored = asyncio.Event()
        self.first_attempts = Histogram(LONG_SECONDS)  # from when they were due to their end
        build = partial(from_row, WebhookDelivery)
        self.get = SharedReads("webhook deliveries", pool, GET, build, documents=("d.payload",))

    async def refresh_size(self) -> None:
        """Count the deliveries into `last_size`, which the status shows without waiting for the database."""
        [row] = await self._pool.fetch(COUNT)
        self.last_size = OutboxSize(row["pending"], row["failed"])
        self.oldest_pending_at = row["oldest_pending_at"]

    async def list_due(
        self, now: datetime, after: Receiver = FIRST_RECEIVER, *, limit_per_receiver: int, limit: int
    ) -> list[DueDelivery]:
        """List due deliveries by receiver, up to `limit_per_receiver` of each and the longest due first.

        `after` is the last receiver of the page before.
        """
        rows = await self._pool.fetch(LIST_DUE, now, *after, limit_per_receiver, limit)
        return [self._due(row) for row in rows]

    def _due(self, row: Record) -> DueDelivery:
        """Build a due delivery. One secret that cannot be decrypted does not keep the others back."""
        secrets: tuple[str, ...] = ()
        refusal = _refusal(row)
        if not refusal:
            try:
                secrets = tuple(self._cipher.decrypt(stored, place) for place, stored in _stored_secrets(row))
            except SecretUnreadable as unreadable:
                refusal = str(unreadable)
        return from_row(DueDelivery, row, body=row["body"].encode(), secrets=secrets, refusal=refusal)

    async def record(self, delivery: DueDelivery, attempt: Attempt, now: datetime) -> DisabledWebhook | None:
        """Store the outcome of an attempt that ended now, unless the delivery was changed since it was read.

        Return the event webhook if it has failed for too long, so that this attempt has switched it off.
        """
        statement = UPDATE_AFTER_ATTEMPT.given(
            values_of(ATTEMPT, attempt),
            id=delivery.id,
            seen_attempts=delivery.attempts,
            seen_attempt_at=delivery.next_attempt_at,
            now=now,
            give_up_before=now - DISABLE_AFTER,
        )
        rows = await self._pool.change(*statement)
        if delivery.attempts == 0:
            self.first_attempts.add((now - delivery.next_attempt_at).total_seconds())
        return from_row(DisabledWebhook, rows[0]) if rows else None

    async def insert_test(self, webhook_id: UUID, now: datetime) -> WebhookDelivery | None:
        """Store a delivery without an event, due now; None if no active webhook has this id."""
        row = await self._pool.fetchrow(INSERT_TEST, new_id(), webhook_id, now)
        self.stored.set()
        return None if row is None else from_row(WebhookDelivery, row)

    async def redeliver(self, delivery_id: UUID, now: datetime) -> WebhookDelivery | None:
        """Make the delivery due now, with no attempts counted; None if there is no such delivery."""
        row = await self._pool.fetchrow(REDELIVER, delivery_id, now)
        self.stored.set()
        return None if row is None else from_row(WebhookDelivery, row)

    async def list_page(self, filters: DeliveryFilters, page: Page) -> Chunk[WebhookDelivery]:
        """List one page of the deliveries, newest first."""
        conditions = PageConditions(filters.organization_ids, page, "d.created_at, d.id")
        conditions.add_optional("d.agent_id = $", filters.agent_id)
        conditions.add_optional("d.template_id = $", filters.template_id)
        conditions.add_optional("d.webhook_id = $", filters.webhook_id)
        match filters.status:
            case DeliveryStatus.PENDING:
                conditions.add("d.next_attempt_at IS NOT NULL")
            case DeliveryStatus.DELIVERED:
                conditions.add("d.delivered_at IS NOT NULL")
            case DeliveryStatus.FAILED:
                conditions.add("d.failed_at IS NOT NULL")
        return await fetch_page(self._pool, WebhookDelivery, PAGE, conditions)


def _refusal(row: Record) -> str:
    """Return why a due delivery must not be sent; "" if it may."""
    if row["webhook_id"] is None:
        return NO_TEMPLATE if row["secret"] is None else ""
    match row["is_active"]:
        case True:
            return ""
        case False:
            return SWITCHED_OFF
        case _:
            return NO_WEBHOOK


def _stored_secrets(row: Record) -> Iterator[tuple[str, str]]:
    """Yield the place and the stored text of each secret that signs a due delivery, the current one first."""
    if row["webhook_id"] is None:
        yield tool_call_secret_of(row["template_id"]), row["secret"]
        return
    for secret_id, stored in zip(row["secret_ids"], row["secrets"], strict=True):
        yield value_of_webhook_secret(secret_id), stored


async def insert_agent_created(connection: Connection, agent_id: UUID) -> bool:
    """Store the `agent.created` webhook within the agent's own transaction.

    Return whether one was stored: False if the agent's template names no webhook.
    """
    return await connection.fetchval(INSERT_AGENT_CREATED, new_id(), agent_id) is not None
