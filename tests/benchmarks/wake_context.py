"""The wake context of an agent with a long history: the time of the event loop, and the time in all."""

import time
from statistics import median
from uuid import UUID

from storage.model import Agent, Source
from storage.postgres.migrations import migrate
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.settings import RunSettings
from supervisors.wake_context import WakeContexts, first_message, system_message
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Figure, Result, Unit, percentile
from tests.storage.factories import new_notification, stored_agent

MESSAGES, DOCUMENTS, RUNS, CONTACTS, TEXTS = 10_000, 1_000, 1_000, 50, 3
TIMES = 500
LOOP_MS_MOST = 1.0
ALL_MS_MOST = 2.0

INSERT_CONTACTS = """
INSERT INTO contact (id, organization_id, agent_id, name, phone, created_at)
SELECT gen_random_uuid(), $1, $2, 'Contact ' || i, '+49301234' || i, now()
FROM generate_series(1, $3::integer) i
RETURNING id
"""
INSERT_MESSAGES = """
INSERT INTO message (
    id, organization_id, agent_id, contact_id, channel, direction, body, status, created_at)
SELECT gen_random_uuid(), $1, $2, ($3::uuid[])[1 + i % cardinality($3::uuid[])], 'sms',
       CASE i / cardinality($3::uuid[]) % 2 WHEN 0 THEN 'inbound' ELSE 'outbound' END,
       repeat('The parcel has not come. ', 1 + i % 9), 'sent', now() - i * interval '1 minute'
FROM generate_series(1, $4::integer) i
"""
INSERT_DOCUMENTS = """
INSERT INTO document (id, organization_id, agent_id, title, content, path, created_at, updated_at)
SELECT gen_random_uuid(), $1, $2, 'Document ' || i, repeat(i || ' likes tea. ', 100),
       CASE i WHEN 1 THEN '/memories/core.md' ELSE '/memories/' || i END, now(), now()
FROM generate_series(1, $3::integer) i
"""
INSERT_RUNS = """
INSERT INTO run (
    id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome, turns, journal)
SELECT gen_random_uuid(), $2, $1, 'notification:sms', now() - i * interval '1 hour', now(), 'slept', 3,
       $4::json
FROM generate_series(1, $3::integer) i
"""
JOURNAL = {
    "woken_by": ["New sms from Contact 7"],
    "cleared": ["New sms from Contact 7"],
    "cleared_count": 1,
    "sent": [{"name": "Contact 7", "channel": "sms", "status": "sent"}],
    "sent_count": 1,
    "tools": [{"name": "send_message", "calls": 1, "errors": 0, "last_error": ""}],
    "cost_usd": 0.01,
}


async def measure(bench: Bench) -> Result:
    """Build the context of one agent again and again, in this process."""
    clock = SystemClock()
    async with bench.database() as database:
        await migrate(database.url)
        async with open_pool(DatabaseSettings(url=database.url), node=None) as pool:
            storage = Storage(pool, lambda _: None, sleep=clock.sleep)
            agent = await _agent_with_history(pool, storage)
            contexts = WakeContexts(storage, clock, RunSettings(), {})
            loop, whole, size = [], [], 0
            for _ in range(TIMES):
                began, busy = time.perf_counter(), time.thread_time()
                size = len((await _messages(contexts, agent.id))[1].encode())
                loop.append(1000 * (time.thread_time() - busy))
                whole.append(1000 * (time.perf_counter() - began))
    figures = [
        Figure("on the event loop", median(loop), Unit.MS, at_most=LOOP_MS_MOST),
        Figure("in all", median(whole), Unit.MS, at_most=ALL_MS_MOST),
        Figure("in all, p99", percentile(0.99, whole), Unit.MS),
        Figure("tokens, about", size // 3, Unit.COUNT),
    ]
    title = f"Wake context of {MESSAGES:,} messages, {DOCUMENTS:,} documents and {RUNS:,} runs"
    return Result("context", title, figures)


async def _messages(contexts: WakeContexts, agent_id: UUID) -> tuple[str, str]:
    context = await contexts.get(agent_id)
    if context is None:
        raise RuntimeError("the agent is gone")
    return system_message(context.facts), first_message(context)


async def _agent_with_history(pool: Pool, storage: Storage) -> Agent:
    agent = await stored_agent(pool, system_prompt="You are {{agent.name}}, and you answer customers.")
    owner = agent.organization_id, agent.id
    contacts = [row["id"] for row in await pool.fetch(INSERT_CONTACTS, *owner, CONTACTS)]
    await pool.execute(INSERT_MESSAGES, *owner, contacts, MESSAGES)
    await pool.execute(INSERT_DOCUMENTS, *owner, DOCUMENTS)
    await pool.execute(INSERT_RUNS, *owner, RUNS, JOURNAL)
    for contact in contacts[:TEXTS]:
        text = new_notification(agent.id, source=Source.SMS, source_id=str(contact), body="Hello?" * 10)
        await storage.notifications.insert(text, {agent.organization_id})
    await pool.execute("UPDATE agent_state SET last_ended_at = now() - interval '5 minutes'")
    await pool.execute("VACUUM ANALYZE")
    return agent
