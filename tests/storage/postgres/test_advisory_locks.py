"""Advisory locks: no two of them collide, and PostgreSQL takes them."""

from storage.postgres.advisory_locks import LEADER, MEMBER, MIGRATION, PARENTS
from storage.postgres.connections import connect

# Until the transaction's end: a session's locks outlive the closing of its connection for a moment.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock($1, $2)"


async def test_locks_are_independent_of_each_other(empty_database_url: str) -> None:
    locks = (LEADER, MIGRATION, PARENTS, (MEMBER, LEADER[1]))
    async with connect(empty_database_url) as holder:
        for held in locks:
            await holder.execute("SELECT pg_advisory_lock($1, $2)", *held)
            async with connect(empty_database_url) as other:
                free = [lock for lock in locks if await other.fetchval(TRY_LOCK, *lock)]
            assert free == [lock for lock in locks if lock != held]
            await holder.execute("SELECT pg_advisory_unlock_all()")
