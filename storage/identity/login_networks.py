"""The networks from which users have logged in lately, as hashes: no address is stored."""

import hashlib
from datetime import datetime, timedelta
from uuid import UUID

from storage.postgres.pool import Pool

REMEMBERED = timedelta(days=90)
MAX_NETWORKS = 20  # of one user; of more, those that were used longest ago are forgotten

INSERT = """
INSERT INTO login_network (user_id, network_hash, logged_in_at) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT login_network_pkey
DO UPDATE SET logged_in_at = greatest(login_network.logged_in_at, excluded.logged_in_at)
"""

DELETE_OLDEST = """
DELETE FROM login_network WHERE user_id = $1 AND (logged_in_at < $2 OR network_hash NOT IN (
    SELECT network_hash FROM login_network WHERE user_id = $1 ORDER BY logged_in_at DESC LIMIT $3))
"""

EXISTS = """
SELECT EXISTS (
    SELECT FROM login_network WHERE user_id = $1 AND network_hash = $2 AND logged_in_at >= $3)
"""


class LoginNetworks:
    """The table `login_network`. A network is a text, such as an IPv4 address or an IPv6 /64."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def record(self, user_id: UUID, network: str, now: datetime) -> None:
        """Store that the user has logged in from the network, and forget the oldest networks."""
        async with self._pool.transaction() as connection:
            await connection.execute(INSERT, user_id, _hash(user_id, network), now)
            await connection.execute(DELETE_OLDEST, user_id, now - REMEMBERED, MAX_NETWORKS)

    async def contains(self, user_id: UUID, network: str, now: datetime) -> bool:
        """Return whether the user has logged in from the network within 90 days."""
        earliest = now - REMEMBERED
        found: bool = await self._pool.fetchval(EXISTS, user_id, _hash(user_id, network), earliest)
        return found


def _hash(user_id: UUID, network: str) -> bytes:
    return hashlib.sha256(user_id.bytes + network.encode()).digest()
