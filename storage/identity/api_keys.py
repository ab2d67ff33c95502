"""API keys: each is found by its prefix and checked against the hash of the whole key."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.model import ApiKey, Receipt
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.shared_reads import SharedReads, TtlCache, no_other_cache
from storage.postgres.statement import delete_row, fetch_one, fields_of, from_row, insert_into

TABLE = OwnedTable("api_key", "k", ApiKey)

LAST_USED_INTERVAL = timedelta(minutes=1)

UPDATE = "UPDATE api_key SET /* set */ WHERE id = $1 RETURNING *"

LIST_BY_PREFIX = "SELECT * FROM api_key WHERE prefix = ANY($1::text[])"

SET_LAST_USED = "UPDATE api_key SET last_used_at = greatest(last_used_at, $2) WHERE id = $1"


class ApiKeys:
    """The table `api_key`."""

    def __init__(self, pool: Pool, others_forget: Callable[[], Awaitable[None]] = no_other_cache) -> None:
        self._pool = pool
        self.get = SharedReads("API keys by id", pool, TABLE.get, partial(from_row, ApiKey))
        self._cache = TtlCache(pool.group_commit("API keys", self._get_many).add, others_forget)
        # Return the key with a prefix, and its hash, from a cache: each request with a key needs it.
        self.get_by_prefix = self._cache.get
        self._last_used_at: dict[UUID, datetime] = {}

    async def insert(self, key: ApiKey, key_hash: bytes, receipt: Receipt | None = None) -> None:
        """Store the key.

        Raise NotUnique if the prefix is taken, AnsweredBefore if the receipt exists already.
        """
        insert = insert_into("api_key", fields_of(key) | {"key_hash": key_hash})
        await insert_once(self._pool, receipt, key.organization_id, *insert)

    async def update(self, key_id: UUID, changes: Mapping[str, Any]) -> ApiKey | None:
        """Set the columns in `changes` and return the key; None if there is no such key.

        The next `get_by_prefix` sees the change, on each node.
        """
        if not changes:
            return await self.get(key_id)
        sql = assign(UPDATE, changes, ApiKey, after=1)
        async with self._cache.invalidating():
            return await fetch_one(self._pool, ApiKey, sql, key_id, *changes.values())

    async def delete(self, key_id: UUID) -> bool:
        """Delete the key; return False if there is no such key. `get_by_prefix` no longer returns it."""
        self._last_used_at.pop(key_id, None)
        async with self._cache.invalidating():
            return await delete_row(self._pool, "api_key", key_id)

    async def record_use(self, key_id: UUID, now: datetime) -> None:
        """Store that the key was used, at most once a minute."""
        last = self._last_used_at.get(key_id)
        if last is None or now - last >= LAST_USED_INTERVAL:
            self._last_used_at[key_id] = now
            await self._pool.execute(SET_LAST_USED, key_id, now)

    async def _get_many(self, prefixes: list[str]) -> list[tuple[ApiKey, bytes] | None]:
        rows = await self._pool.fetch(LIST_BY_PREFIX, list(set(prefixes)))
        keys = {row["prefix"]: (from_row(ApiKey, row), row["key_hash"]) for row in rows}
        return [keys.get(prefix) for prefix in prefixes]

    async def list_page(self, organization_ids: Sequence[UUID], page: Page) -> Chunk[ApiKey]:
        """List one page of the organizations' keys, newest first."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        return await fetch_page(self._pool, ApiKey, TABLE.page, conditions)
