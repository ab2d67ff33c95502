"""An instance in a process of its own, for tests: it leads, says so, and writes until it is killed."""

import asyncio
import sys

from storage.postgres.leadership import lead
from storage.postgres.pool import DatabaseSettings, open_pool
from supervisors.clock import SystemClock

# Still running on the server long after the process was killed.
SLOW_WRITE = """
    INSERT INTO organization (id, name, created_at)
    SELECT gen_random_uuid(), 'late', now() FROM pg_sleep(10)
"""


async def main(url: str) -> None:
    async with (
        lead(url, SystemClock().sleep) as leadership,
        open_pool(DatabaseSettings(url=url), epoch=leadership.epoch) as pool,
    ):
        print("writing", flush=True)  # noqa: T201 - read by the test
        await pool.execute(SLOW_WRITE)


asyncio.run(main(sys.argv[1]))
