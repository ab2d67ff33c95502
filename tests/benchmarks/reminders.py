"""The delay of reminders: from their due time to the start of a run, while many more lie ahead.

The delay is a time, not a ratio, so it is shown and not judged: a busy machine makes everybody late.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from storage.postgres.connections import SERVER_SETTINGS
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Result, times

AGENTS = 10_000
REMINDERS = 2_000
REMINDERS_WITHIN = timedelta(seconds=10)
UNTIL_THE_FIRST = timedelta(seconds=20)
PENDING = 1_000_000
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.1

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


async def measure(bench: Bench) -> Result:
    """Measure many reminders within a few seconds, while many more lie ahead."""
    async with bench.service({"runs": {"max_concurrent": 500}}) as service:
        ids, now = [UUID(agent) for agent in await service.create_agents(AGENTS)], datetime.now(UTC)
        # Changes made over this connection count as the service's own.
        database = await asyncpg.connect(service.database_url, server_settings=SERVER_SETTINGS)
        tomorrow, second = now + timedelta(days=1), timedelta(seconds=1)
        await database.execute(ADD_REMINDERS, ids, now, tomorrow, PENDING, second, timeout=300)
        await database.execute("ANALYZE")
        first = datetime.now(UTC) + UNTIL_THE_FIRST
        await database.execute(ADD_REMINDERS, ids, now, first, REMINDERS, REMINDERS_WITHIN / REMINDERS)
        await database.execute(BRING_UP_TO_DATE, timeout=300)
        await asyncio.sleep((first + REMINDERS_WITHIN - datetime.now(UTC)).total_seconds())
        await until_cleared(database, PATIENCE_SECONDS)
        rows = await database.fetch(STARTED)
        await database.close()
    late = [(row["started_at"] - row["scheduled_for"]).total_seconds() * 1000 for row in rows]
    title = f"{len(late):,} reminders within {REMINDERS_WITHIN.seconds} s, {PENDING:,} more ahead"
    return Result("reminders", title, times("reminder to the start of a run", late))


async def until_cleared(database: "asyncpg.Connection[Any]", within: float) -> None:
    """Wait until no notification that is due is left, but at most this many seconds."""
    until = datetime.now(UTC) + timedelta(seconds=within)
    while (now := datetime.now(UTC)) < until:
        if not await database.fetchval(UNCLEARED, now):
            return
        await asyncio.sleep(POLL_SECONDS)
