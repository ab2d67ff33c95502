"""Inbound hooks: addresses at which other services deliver events. The event log is their record."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import insert_once
from storage.encryption import NO_ENCRYPTION, SecretCipher, secret_of_hook
from storage.events.events import MAX_TEXT
from storage.events.model import EventType
from storage.model import Priority, Receipt, Source
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.shared_reads import SharedReads, TtlCache, no_other_cache
from storage.postgres.statement import delete_row, fields_of, from_row, insert_into

SECRETS = ("secret", "old_secret")
LISTED_DELIVERIES = 100

UPDATE = "UPDATE hook SET /* set */ WHERE id = $1"

RECORD = """
INSERT INTO event (at, type, organization_id, agent_id, actor, data)
SELECT $4, $2, organization_id, agent_id, 'hook:' || id, json_build_object('error', $3::text)
FROM hook WHERE id = $1
"""

# An accepted delivery has created a notification. The condition LIKE is that of the index.
LIST_DELIVERIES = """
SELECT CASE type WHEN 'notification.created' THEN 'accepted' ELSE split_part(type, '.', 2) END AS outcome,
       coalesce(data ->> 'error', '') AS error, resource_id AS notification, agent_id AS agent,
       at AS created_at
FROM event
WHERE actor = $1 AND actor LIKE 'hook:%' AND type IN ('notification.created', 'hook.ignored', 'hook.refused')
ORDER BY id DESC LIMIT $2
"""


class Verification(StrEnum):
    """How a sender proves that a delivery is its own."""

    STANDARD = "standard"
    """Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`."""
    GITHUB = "github"
    """GitHub: `X-Hub-Signature-256`."""
    STRIPE = "stripe"
    """Stripe: `Stripe-Signature`."""
    SLACK = "slack"
    """Slack: `X-Slack-Signature` and `X-Slack-Request-Timestamp`."""
    HMAC = "hmac"
    """An HMAC of the body, as `header`, `algorithm`, `encoding` and `prefix` say."""
    TOKEN = "token"  # noqa: S105 -- the name of a kind
    """The secret as the last part of the path, for senders that cannot sign."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook for an agent or for a template. A secret that cannot be decrypted is None."""

    id: UUID
    organization_id: UUID
    name: str
    agent_id: UUID | None
    template_id: UUID | None
    verify: Verification
    header: str
    algorithm: str
    encoding: str
    prefix: str
    title: str
    body: str
    source: Source
    priority: Priority
    only_if: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime
    secret: str | None = field(repr=False)
    old_secret: str | None = field(default="", repr=False)
    old_secret_until: datetime | None = None

    @property
    def actor(self) -> str:
        """Return the actor of what its deliveries do."""
        return f"hook:{self.id}"

    def secrets(self, now: datetime) -> list[str]:
        """Return the secrets that are valid now."""
        has_old = self.old_secret_until is not None and now < self.old_secret_until
        return [each for each in (self.secret, self.old_secret if has_old else None) if each]


TABLE = OwnedTable("hook", "h", Hook)


class Hooks:
    """The table `hook`."""

    def __init__(
        self,
        pool: Pool,
        cipher: SecretCipher = NO_ENCRYPTION,
        others_forget: Callable[[], Awaitable[None]] = no_other_cache,
    ) -> None:
        self._pool = pool
        self._cipher = cipher
        self.get = SharedReads(
            "hooks", pool, TABLE.get, self._hook, texts=("h.title", "h.body"), documents=("h.only_if",)
        )
        self._cache = TtlCache(self.get.get_short, others_forget)

    async def get_cached(self, hook_id: UUID, now: datetime) -> Hook | None:
        """Return the hook, unless it is long from a cache: each delivery needs it. None if there is none."""
        return await self._cache.get(hook_id, now) or await self.get(hook_id)

    async def insert(self, hook: Hook, receipt: Receipt | None = None) -> None:
        """Store the hook. Raise AnsweredBefore if the receipt exists already."""
        insert = insert_into("hook", self._encrypted(hook.id, fields_of(hook)))
        await insert_once(self._pool, receipt, hook.organization_id, *insert)

    async def list_page(self, organization_ids: tuple[UUID, ...], page: Page) -> Chunk[Hook]:
        """List one page of the organizations' hooks, newest first."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        return await fetch_page(self._pool, Hook, TABLE.page, conditions, self._hook)

    async def update(self, hook_id: UUID, changes: Mapping[str, Any], now: datetime) -> Hook | None:
        """Set the columns in `changes` and return the hook; None if there is no such hook."""
        stored = self._encrypted(hook_id, {**changes, "updated_at": now})
        async with self._cache.invalidating():
            await self._pool.execute(assign(UPDATE, stored, Hook, after=1), hook_id, *stored.values())
        return await self.get(hook_id)

    async def delete(self, hook_id: UUID) -> bool:
        """Delete the hook; return False if there is none."""
        async with self._cache.invalidating():
            return await delete_row(self._pool, "hook", hook_id)

    async def record(self, hook: Hook, type_: EventType, error: str, now: datetime) -> None:
        """Store the event of a delivery that was ignored or refused."""
        await self._pool.change(RECORD, hook.id, type_, error[:MAX_TEXT], now)

    async def list_deliveries(self, hook: Hook) -> list[Record]:
        """List the outcome, error, notification, agent and time of the last deliveries, newest first."""
        return await self._pool.fetch(LIST_DELIVERIES, hook.actor, LISTED_DELIVERIES)

    def _encrypted(self, hook_id: UUID, columns: Mapping[str, Any]) -> dict[str, Any]:
        place = secret_of_hook(hook_id)
        secrets = {
            name: self._cipher.encrypt(columns[name] or "", place) for name in SECRETS if name in columns
        }
        return {**columns, **secrets}

    def _hook(self, row: Record) -> Hook:
        place = secret_of_hook(row["id"])
        return from_row(
            Hook, row, **{name: self._cipher.decrypt_or_none(row[name], place) for name in SECRETS}
        )
