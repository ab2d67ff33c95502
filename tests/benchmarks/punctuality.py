"""The delay of wakes: after a notification to a sleeping agent, and after the due time of a reminder.

These are times, not ratios, so they are shown and not judged: a busy machine makes everybody late.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg

from storage.postgres.connections import SERVER_SETTINGS
from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.process import Sections, serving
from tests.benchmarks.targets import service_target

AGENTS = 10_000
CONNECTIONS = 64
POSTS_A_SECOND = 1_000
WARM_UP = 2_000
REMINDERS = 2_000
REMINDERS_WITHIN = timedelta(seconds=10)
UNTIL_THE_FIRST = timedelta(seconds=20)
PENDING = 1_000_000
PATIENCE_SECONDS = 120.0

UNCLEARED = "SELECT count(*) FROM notification WHERE activated_at <= $1"

# When a run that a notification started first looked at it; none for those that found the agent running.
STARTED = """
SELECT n.id, min(r.started_at) AS started_at, n.scheduled_for
FROM run r JOIN notification n ON n.id = ANY (r.notifications)
GROUP BY n.id
"""

# Stored as the service would; the next due times of all agents are brought up to date at the end.
ADD_REMINDERS = """
INSERT INTO notification (
    id, organization_id, agent_id, title, priority, created_at, scheduled_for, activated_at)
SELECT gen_random_uuid(), a.organization_id, a.id, 'Reminder', 'high', $2, due.at, due.at
FROM generate_series(0, $4::integer - 1) AS n
JOIN agent a ON a.id = ($1::uuid[])[1 + n % cardinality($1::uuid[])]
CROSS JOIN LATERAL (SELECT $3::timestamptz + n * $5::interval AS at) AS due
"""

BRING_UP_TO_DATE = """
UPDATE agent_state s SET next_due_at = first.at
FROM (SELECT agent_id, min(activated_at) AS at FROM notification GROUP BY agent_id) AS first
WHERE first.agent_id = s.agent_id
"""


@dataclass(frozen=True, slots=True)
class Times:
    """Durations in milliseconds."""

    name: str
    values: Sequence[float]

    def __str__(self) -> str:
        ordered = sorted(self.values)
        median, p99 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
        return f"  {self.name:<28} p50 {median:7.1f} ms   p99 {p99:7.1f} ms   worst {ordered[-1]:7.1f} ms"


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements under one name."""

    name: str
    times: Sequence[Times]
    met = True

    def __str__(self) -> str:
        return "\n".join([self.name, *map(str, self.times)])


async def measure_wakes(directory: Path, database_url: str) -> Row:
    """Measure wakes with an open loop: this many notifications per second, however fast the answers are."""
    async with _service(directory, database_url) as (client, agents, database):
        for some in (agents[:WARM_UP], agents):
            target = service_target(client.url, client, some, "high")
            answered = await target.each_at_its_time(POSTS_A_SECOND)
            await _all_cleared(database)
        started = {row["id"]: row["started_at"].timestamp() for row in await database.fetch(STARTED)}
    posts = [took * 1000 for *_, took in answered]
    waits = [(started[UUID(sent)] - at) * 1000 for sent, at, _ in answered if UUID(sent) in started]
    return Row(
        f"{POSTS_A_SECOND:,} high notifications a second to sleeping agents ({len(waits):,} started a run)",
        [Times("POST to 201", posts), Times("201 to the start of a run", waits)],
    )


async def measure_reminders(directory: Path, database_url: str) -> Row:
    """Measure many reminders within a few seconds, while many more lie ahead."""
    async with _service(directory, database_url) as (_, agents, database):
        ids, now = [UUID(agent) for agent in agents], datetime.now(UTC)
        tomorrow, second = now + timedelta(days=1), timedelta(seconds=1)
        await database.execute(ADD_REMINDERS, ids, now, tomorrow, PENDING, second, timeout=300)
        await database.execute("ANALYZE")
        first = datetime.now(UTC) + UNTIL_THE_FIRST
        await database.execute(ADD_REMINDERS, ids, now, first, REMINDERS, REMINDERS_WITHIN / REMINDERS)
        await database.execute(BRING_UP_TO_DATE, timeout=300)
        await asyncio.sleep((first + REMINDERS_WITHIN - datetime.now(UTC)).total_seconds())
        await _all_cleared(database)
        rows = await database.fetch(STARTED)
    late = [(row["started_at"] - row["scheduled_for"]).total_seconds() * 1000 for row in rows]
    return Row(
        f"{len(late):,} reminders within {REMINDERS_WITHIN.seconds} s, {PENDING:,} more ahead",
        [Times("reminder to the start of a run", late)],
    )


@asynccontextmanager
async def _service(
    directory: Path, database_url: str
) -> AsyncIterator[tuple[Client, list[str], "asyncpg.Connection[Any]"]]:
    """Start a service with agents, and open a connection that counts as the service's own."""
    sections: Sections = {
        "server": {"port": 0},
        "database": {"url": database_url},
        "runs": {"max_concurrent": 500},
    }
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with (
        serving(directory, "punctual", sections) as process,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        client = await sign_up(session, process.url)
        agents = await asyncio.gather(*(client.create_agent(name=f"Agent {n}") for n in range(AGENTS)))
        database = await asyncpg.connect(database_url, server_settings=SERVER_SETTINGS)
        try:
            yield client, agents, database
        finally:
            await database.close()


async def _all_cleared(database: "asyncpg.Connection[Any]") -> None:
    async def look() -> bool | None:
        return await database.fetchval(UNCLEARED, datetime.now(UTC)) == 0 or None

    await eventually(look, "all that is due to be cleared", within=PATIENCE_SECONDS)
