"""A node in a process of its own, for tests: it joins, says so, and writes until it is killed."""

import asyncio
import sys

from storage.postgres.membership import join
from storage.postgres.pool import DatabaseSettings, open_pool
from supervisors.clock import SystemClock

# Still running on the server long after the process was killed.
SLOW_WRITE = """
    INSERT INTO organization (id, name, created_at)
    SELECT gen_random_uuid(), 'late', now() FROM pg_sleep(30)
"""


async def main(url: str) -> None:
    async with (
        join(url, SystemClock().sleep, name="other", version="1", roles=["runs"]) as node,
        open_pool(DatabaseSettings(url=url), node=node) as pool,
    ):
        print(f"number {node.node_id}", flush=True)  # noqa: T201 - read by the test
        await pool.execute(SLOW_WRITE)


asyncio.run(main(sys.argv[1]))
