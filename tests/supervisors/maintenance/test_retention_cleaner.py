"""The retention cleaner: which rows expire, and when."""

import asyncio
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from storage.agents.agents import Agents
from storage.agents.templates import Templates
from storage.delivery.hooks import Hooks
from storage.delivery.receipts import Receipts
from storage.events.audit_chain import verify
from storage.events.audit_log import AuditLog
from storage.events.events import Events
from storage.history.spans import SharedContents
from storage.history.trace_model import SpanContent
from storage.history.traces import Traces
from storage.history.usage import Usage
from storage.identity.throttle import ThrottleBuckets
from storage.ids import new_id
from storage.model import Agent
from storage.notifications.notifications import Notifications
from storage.parked_calls import SHOWN_ONLY, CallState
from storage.postgres.pool import Pool
from storage.postgres.statement import fields_of, insert_into
from storage.retention import LATE_WRITES, Retention
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import (
    BATCH,
    ReceiptCleaner,
    RetentionCleaner,
    RetentionSettings,
)
from tests.storage.events.log import OWNER, write
from tests.storage.factories import (
    HOUR,
    NOW,
    SECOND,
    hook,
    new_notification,
    new_span,
    parked_call,
    stored_agent,
    template,
    usage_record,
)
from tests.supervisors.held_clock import HeldClock

DAY = timedelta(days=1)
RUN = """
WITH run AS (
    INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome)
    VALUES ($1, $2, $3, 'run_requested', $4, $5, CASE WHEN $5::timestamptz IS NOT NULL THEN 'slept' END)
)
INSERT INTO trace (id, agent_id, organization_id, name, started_at, ended_at)
VALUES ($1, $2, $3, 'invoke_agent Scout', $4, $5)
"""
INSERT_TURN = """
INSERT INTO transcript_turn (id, agent_id, run_id, kind, messages, tokens, carried, created_at)
VALUES (gen_random_uuid(), $1, $1, 'turn', '[]', 1, $2, $3)
"""
WEBHOOK = """
INSERT INTO webhook_delivery (
    id, organization_id, agent_id, template_id, url, payload, created_at, delivered_at, failed_at,
    next_attempt_at)
VALUES (gen_random_uuid(), $1, $2, $2, 'https://a.example/', '{}', $3, $4, $5, $6)
"""
TABLES = ("agent", "notification", "run", "trace", "span", "span_metadata", "usage_record")


class ClockAt(SystemClock):
    """A wall clock that always shows the same time."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now


class Database:
    """A database with helpers to add rows, to run the retention cleaner, and to count rows."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.traces = Traces(pool)
        self.usage = Usage(pool)
        self.notifications = Notifications(pool, lambda _: None, sleep=asyncio.sleep)

    async def insert_run(
        self, agent: Agent, started_at: datetime, *, ended: bool = True, spans: int = 1
    ) -> UUID:
        """Insert a run with its trace and spans; return its id."""
        run_id = new_id()
        ended_at = started_at + SECOND if ended else None
        await self.pool.execute(RUN, run_id, agent.id, agent.organization_id, started_at, ended_at)
        await self.traces.insert_spans([new_span(run_id, {"some": "metadata"}) for _ in range(spans)])
        return run_id

    async def insert_cleared(self, agent: Agent, at: datetime) -> None:
        """Insert an old notification that was cleared at this moment."""
        notification = new_notification(agent.id, created_at=NOW - 1000 * DAY)
        await self.notifications.insert(notification, {agent.organization_id})
        await self.notifications.clear(agent.id, notification.id, at)

    async def insert_usage(self, agent: Agent, at: datetime) -> None:
        record = usage_record(agent, cost_usd=Decimal(0), occurred_at=at)
        await self.usage.insert(record)

    async def clean(self, now: datetime = NOW, **days: int) -> dict[str, int]:
        """Run the cleaner once and return what it deleted; kinds without `days` are kept for ever."""
        settings = RetentionSettings(
            **{
                "traces": 0,
                "notifications": 0,
                "webhooks": 0,
                "events": 0,
                "audit": 0,
                "deleted_agents": 0,
                "deleted_documents": 0,
                "tracing_content_days": 0,
                **days,
            }
        )
        return dict(await RetentionCleaner(Retention(self.pool), settings, ClockAt(now)).run_once())

    async def count(self, *tables: str) -> list[int]:
        """Count the rows of each table."""
        return [
            await self.pool.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 -- constants
            for table in tables
        ]


@pytest.fixture
def database(pool: Pool) -> Database:
    return Database(pool)


async def test_cleared_notifications_expire_and_uncleared_ones_stay(database: Database) -> None:
    agent = await stored_agent(database.pool)
    await database.insert_cleared(agent, NOW - 90 * DAY - SECOND)
    await database.insert_cleared(agent, NOW - 90 * DAY)
    uncleared = new_notification(agent.id, created_at=NOW - 1000 * DAY)
    await database.notifications.insert(uncleared, {agent.organization_id})

    deleted = await database.clean(notifications=90)

    assert deleted["cleared notifications"] == 1
    assert await database.count("notification") == [2]


async def test_parked_calls_that_have_ended_expire_with_traces(database: Database) -> None:
    agent, waiting = await stored_agent(database.pool), CallState.PENDING
    for number, ended_at in enumerate((None, NOW - DAY, NOW - 3 * DAY)):
        state = waiting if ended_at is None else CallState.DONE
        call = parked_call(agent, arguments=str(number), state=state, ended_at=ended_at)
        await database.pool.execute(*insert_into("parked_call", fields_of(call, without=SHOWN_ONLY)))

    assert (await database.clean(traces=2))["parked calls that have ended"] == 1
    await Agents(database.pool).delete(agent.id, NOW)
    assert (await database.clean())["rows left by deleted agents"] == 2


async def test_hooks_of_deleted_agents_are_deleted(database: Database) -> None:
    gone, kept = await stored_agent(database.pool), await stored_agent(database.pool)
    for agent in (gone, kept):
        await Hooks(database.pool).insert(hook(agent.organization_id, agent_id=agent.id))
    await Agents(database.pool).delete(gone.id, NOW)
    assert (await database.clean())["rows left by deleted agents"] == 1
    assert await database.pool.fetchval("SELECT agent_id FROM hook") == kept.id


async def test_usage_is_kept_for_ever_unless_days_are_set(database: Database) -> None:
    agent = await stored_agent(database.pool)
    await database.insert_usage(agent, NOW - 1000 * DAY)
    await database.insert_usage(agent, NOW - DAY)
    assert "usage records" not in await database.clean(usage=RetentionSettings().usage)
    assert (await database.clean(usage=2))["usage records"] == 1
    assert await database.count("usage_record") == [1]


async def test_turns_carried_no_longer_expire_with_recorded_content(database: Database) -> None:
    agent = await stored_agent(database.pool)
    for carried, days in ((True, 1000), (False, 3), (False, 1)):
        await database.pool.execute(INSERT_TURN, agent.id, carried, NOW - days * DAY)

    deleted = await database.clean(tracing_content_days=2)

    assert deleted["turns no longer carried"] == 1
    assert await database.count("transcript_turn") == [2]
    assert (await database.clean(tracing_content_days=0, traces=1))["turns no longer carried"] == 0


async def test_transcripts_of_deleted_agents_are_deleted(database: Database) -> None:
    gone, kept = await stored_agent(database.pool), await stored_agent(database.pool)
    for agent in (gone, kept):
        await database.pool.execute(INSERT_TURN, agent.id, True, NOW)
    await Agents(database.pool).delete(gone.id, NOW)
    assert (await database.clean())["rows left by deleted agents"] == 1
    assert await database.pool.fetchval("SELECT agent_id FROM transcript_turn") == kept.id


async def test_finished_webhooks_expire_and_pending_ones_stay(database: Database) -> None:
    agent = await stored_agent(database.pool)
    old = NOW - 31 * DAY
    for moments in ((old, None, None), (None, old, None), (NOW - 30 * DAY, None, None), (None, None, old)):
        await database.pool.execute(WEBHOOK, agent.organization_id, agent.id, old, *moments)

    deleted = await database.clean(webhooks=30)

    assert deleted["webhook deliveries"] == 2
    assert await database.count("webhook_delivery") == [2]


async def test_events_expire_after_their_days(database: Database) -> None:
    for days in (32, 31, 30):
        await write(database.pool, at=NOW - days * DAY)
    assert "events" not in await database.clean()
    await AuditLog(database.pool).chain(await Events(database.pool).get_last_id())
    assert (await database.clean(events=30))["events"] == 2
    assert await database.count("event") == [1]


async def test_audit_entries_expire_but_the_last_one(database: Database) -> None:
    log, now = AuditLog(database.pool), SystemClock().now()
    for days in (401, 399, 398):
        await write(database.pool, "audit", at=now - days * DAY, data='{"resource": "a", "action": "b"}')
    await log.chain(await Events(database.pool).get_last_id())
    kind = "entries of the audit log"
    assert (await database.clean(now, audit=400))[kind] == 1
    head = await log.get_head(OWNER)
    lines = b"".join([piece async for piece in log.export(OWNER)])
    assert verify(lines.decode().splitlines())[:2] == (2, 3)
    assert (await database.clean(now + 999 * DAY, audit=400))[kind] == 1
    assert await log.get_head(OWNER) == head


async def test_audit_entries_of_today_stay_whatever_the_clock_says(database: Database) -> None:
    now = SystemClock().now()
    for at in (now - 2 * DAY, now - HOUR, now):
        await write(database.pool, "audit", at=at, data='{"resource": "a", "action": "b"}')
    await AuditLog(database.pool).chain(await Events(database.pool).get_last_id())
    assert (await database.clean(now + 999 * DAY, audit=1))["entries of the audit log"] == 1


async def test_events_stay_until_the_audit_log_has_them(database: Database) -> None:
    await write(database.pool, "audit", at=NOW - 99 * DAY, data='{"resource": "a", "action": "b"}')
    assert (await database.clean(events=30))["events"] == 0
    await AuditLog(database.pool).chain(await Events(database.pool).get_last_id())
    assert (await database.clean(events=30))["events"] == 1


async def test_traces_and_usage_of_a_deleted_agent_expire_later(database: Database) -> None:
    gone, kept = await stored_agent(database.pool), await stored_agent(database.pool)
    for agent in (gone, kept):
        await database.insert_run(agent, NOW, spans=3)
        await database.insert_cleared(agent, NOW)
        await database.insert_usage(agent, NOW)
    deleted_at = NOW + DAY
    await Agents(database.pool).delete(gone.id, deleted_at)

    first = await database.clean(deleted_at + LATE_WRITES + SECOND, deleted_agents=30)

    assert first["rows left by deleted agents"] == 2
    assert await database.count(*TABLES) == [2, 1, 1, 2, 6, 6, 2]

    await database.clean(deleted_at + 30 * DAY, deleted_agents=30)
    assert await database.count(*TABLES) == [2, 1, 1, 2, 6, 6, 2]
    await database.clean(deleted_at + 30 * DAY + SECOND, deleted_agents=30)
    assert await database.count(*TABLES) == [1, 1, 1, 1, 3, 3, 1]


@pytest.mark.parametrize(
    ("of_configuration", "of_template", "is_kept"),
    [(30, None, False), (0, None, True), (60, None, True), (30, 0, True), (30, 45, True), (60, 30, False)],
)
async def test_content_expires_by_template_or_configuration(
    database: Database, of_configuration: int, of_template: int | None, is_kept: bool
) -> None:
    agent = await stored_agent(database.pool)
    shared = template(agent.organization_id, content_days=of_template)
    await Templates(database.pool).insert(shared)
    texts = SharedContents(database.pool)
    prompt = await texts.store(agent.organization_id, b'"Be kind."', NOW - 40 * DAY)
    recent = await texts.store(agent.organization_id, b'"Be brief."', NOW - 20 * DAY)
    for age, digest in ((40 * DAY, prompt), (20 * DAY, recent)):
        run_id = await database.insert_run(agent, NOW - age, spans=0)
        content = SpanContent('{"told": "Hello!"}', shared.id, digest)
        new = new_span(run_id, {"some": "metadata"}, content, started_at=NOW - age)
        await database.traces.insert_spans([new])

    deleted = await database.clean(tracing_content_days=of_configuration)

    kept = await database.pool.fetch("SELECT metadata, content, instructions FROM span_metadata")
    assert sorted(row["content"] is not None for row in kept) == [is_kept, True]
    assert all(row["metadata"] == {"some": "metadata"} for row in kept)
    digests = {row["digest"] for row in await database.pool.fetch("SELECT digest FROM shared_content")}
    # The content of other agents, without the template, may refer to the prompt for 60 days.
    assert digests == ({prompt, recent} if is_kept or of_configuration == 60 else {recent})
    assert is_kept == (deleted["contents of spans"] == 0)
    assert (await database.clean(tracing_content_days=of_configuration))["contents of spans"] == 0


async def test_content_of_a_running_run_is_kept(database: Database) -> None:
    agent = await stored_agent(database.pool)
    for ended in (True, False):
        run_id = await database.insert_run(agent, NOW - 9 * DAY, ended=ended, spans=0)
        new = new_span(run_id, content=SpanContent("{}"), started_at=NOW - 9 * DAY)
        await database.traces.insert_spans([new])

    await database.clean(tracing_content_days=1)

    assert await database.pool.fetchval("SELECT count(content) FROM span_metadata") == 1


async def test_content_of_many_spans_is_removed_in_batches(database: Database) -> None:
    agent = await stored_agent(database.pool)
    run_id = await database.insert_run(agent, NOW - 2 * DAY, spans=0)
    spans = [new_span(run_id, content=SpanContent("{}"), started_at=NOW - 2 * DAY) for _ in range(25)]
    await database.traces.insert_spans(spans)
    retention = Retention(database.pool)

    assert [await retention.delete_content(NOW, 10, days=1) for _ in range(4)] == [10, 10, 6, 0]


async def test_content_of_deleted_template_expires_by_the_configuration(database: Database) -> None:
    agent = await stored_agent(database.pool)
    run_id = await database.insert_run(agent, NOW - 9 * DAY, spans=0)
    content = SpanContent("{}", template_id=new_id())
    await database.traces.insert_spans([new_span(run_id, content=content, started_at=NOW - 9 * DAY)])

    assert (await database.clean(tracing_content_days=10))["contents of spans"] == 0
    assert (await database.clean(tracing_content_days=1))["contents of spans"] == 2


async def test_zero_days_keep_everything(database: Database) -> None:
    agent = await stored_agent(database.pool)
    await database.insert_run(agent, NOW - 10_000 * DAY)
    await database.insert_cleared(agent, NOW - 999 * DAY)
    await database.insert_usage(agent, NOW - 10_000 * DAY)
    assert await database.clean(usage=0) == {
        "rows left by deleted agents": 0,
        "contents of spans": 0,
    }
    assert await database.count(*TABLES) == [1] * len(TABLES)


class ExpiredReceipts(Receipts):
    """A store with this number of expired receipts."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0

    async def delete_expired(self, until: datetime, limit: int) -> int:
        assert until == NOW - 24 * HOUR
        deleted = min(self.number, limit)
        self.number -= deleted
        self.calls += 1
        return deleted


class FullBuckets(ThrottleBuckets):
    """A store with this number of full buckets."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def delete_full(self, now: datetime, limit: int) -> int:
        assert now == NOW
        deleted = min(self.number, limit)
        self.number -= deleted
        return deleted


async def test_receipt_cleaner_deletes_all_expired_rows_in_batches() -> None:
    receipts, throttle = ExpiredReceipts(2 * BATCH + 1), FullBuckets(BATCH + 1)

    assert await ReceiptCleaner(receipts, throttle, HeldClock()).run_once() == 3 * BATCH + 2

    assert (receipts.number, receipts.calls) == (0, 4)
    assert throttle.number == 0
