"""Failed attempts at passwords and codes, as token buckets that all nodes share.

A bucket is stored as the moment when it will be full again, so a full one needs no row.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from storage.postgres.pool import Pool
from storage.postgres.statement import delete_rows

IMPLAUSIBLE = timedelta(hours=1)  # no bucket takes as long to fill: the clock was set back after its last use

LIST_FULL_AT = "SELECT key, full_at FROM throttle_bucket WHERE key = ANY($1::bytea[]) AND full_at < $2"

# In the order of the keys, so that two statements for the same buckets cannot deadlock.
TAKE = """
INSERT INTO throttle_bucket AS b (key, full_at)
SELECT key, $3::timestamptz + fills_in
FROM unnest($1::bytea[], $2::interval[]) AS t (key, fills_in) ORDER BY key
ON CONFLICT ON CONSTRAINT throttle_bucket_pkey DO UPDATE
SET full_at = excluded.full_at + CASE WHEN b.full_at > $3 AND b.full_at < $4::timestamptz
                                      THEN b.full_at - $3 ELSE interval '0' END
"""

# SKIP LOCKED: a bucket that is in use will not be full.
DELETE_FULL = """
DELETE FROM throttle_bucket WHERE key IN (
    SELECT key FROM throttle_bucket WHERE full_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
"""


class ThrottleBuckets:
    """The table `throttle_bucket`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_full_at(self, keys: Sequence[bytes], now: datetime) -> dict[bytes, datetime]:
        """Return when the buckets will be full again, by key, without those that are full."""
        rows = await self._pool.fetch(LIST_FULL_AT, keys, now + IMPLAUSIBLE)
        return {row["key"]: row["full_at"] for row in rows if row["full_at"] > now}

    async def take(self, tokens: Mapping[bytes, timedelta], now: datetime) -> None:
        """Take one token from each bucket; `tokens` says by key how long the bucket takes to gain one."""
        await self._pool.execute(TAKE, list(tokens), list(tokens.values()), now, now + IMPLAUSIBLE)

    async def delete_full(self, now: datetime, limit: int) -> int:
        """Delete up to `limit` buckets that are full; return their number."""
        return await delete_rows(self._pool, DELETE_FULL, now, limit)
