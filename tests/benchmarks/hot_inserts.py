"""What one node inserts for agents to which others write, too, as a separate process and without HTTP.

    python -m tests.benchmarks.hot_inserts DATABASE_URL COUNT OUTPUT

The first line of stdin holds the organizations of the agents by their ids, as JSON. Prints a line when it is
ready, waits for another line, and inserts COUNT high notifications for the agents in turn, WRITERS at a time.
OUTPUT becomes a JSON object: how long that took, and each insert, in seconds, and why some were refused.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import cycle, islice
from pathlib import Path
from uuid import UUID

import uvloop

from storage.errors import StorageError
from storage.postgres.pool import DatabaseSettings, open_pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.factories import new_notification

WRITERS = 64


async def insert(url: str, count: int, organizations: Mapping[UUID, UUID]) -> dict[str, object]:
    """Insert the notifications through the group commit of a node."""
    agents: Iterator[UUID] = islice(cycle(organizations), count)
    took: list[float] = []
    refused: list[str] = []
    async with open_pool(DatabaseSettings(url), node=None) as pool:
        storage = Storage(pool, lambda _: None, sleep=SystemClock().sleep)

        async def write() -> None:
            for agent in agents:
                began = time.perf_counter()
                try:
                    await storage.notifications.insert(new_notification(agent), {organizations[agent]})
                except StorageError as error:
                    refused.append(str(error))
                took.append(time.perf_counter() - began)

        await pool.fetchval("SELECT 1")
        print("ready", flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.readline)
        start = time.perf_counter()
        await asyncio.gather(*(write() for _ in range(WRITERS)))
        return {"seconds": time.perf_counter() - start, "took": took, "refused": refused}


def main() -> None:
    url, count, output = sys.argv[1:]
    organizations = {UUID(agent): UUID(owner) for agent, owner in json.loads(sys.stdin.readline()).items()}
    Path(output).write_text(json.dumps(uvloop.run(insert(url, int(count), organizations))))


if __name__ == "__main__":
    main()
