"""What is kept, for how long, and what goes then."""

import asyncio
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from storage.agents.agents import Agents
from storage.history.traces import Traces
from storage.history.usage import Usage
from storage.ids import new_id
from storage.model import Agent, Trace
from storage.notifications.notifications import Notifications
from storage.postgres.pool import Pool
from storage.retention import LATE_WRITES, Retention
from supervisors.clock import SystemClock
from supervisors.maintenance.retention_cleaner import RetentionCleaner, RetentionSettings
from tests.storage.factories import NOW, SECOND, new_notification, new_span, stored_agent, usage_record

DAY = timedelta(days=1)
RUN = """
WITH run AS (
    INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at, ended_at, outcome)
    VALUES ($1, $2, $3, 'run_requested', $4, $5, CASE WHEN $5::timestamptz IS NOT NULL THEN 'slept' END)
)
INSERT INTO trace (id, agent_id, organization_id, name, started_at, ended_at)
VALUES ($1, $2, $3, 'invoke_agent Scout', $4, $5)
"""
WEBHOOK = """
INSERT INTO webhook_delivery (
    id, organization_id, agent_id, template_id, url, payload, created_at, delivered_at, failed_at,
    next_attempt_at)
VALUES (gen_random_uuid(), $1, $2, $2, 'https://a.example/', '{}', $3, $4, $5, $6)
"""
TABLES = ("agent", "notification", "run", "trace", "span", "span_metadata", "usage_record")


class ClockAt(SystemClock):
    """Says that it is then, whenever it is asked."""

    def __init__(self, then: datetime) -> None:
        self._then = then

    def now(self) -> datetime:
        return self._then


class House:
    """A database to which things are added, and from which retention removes them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.traces = Traces(pool)
        self.usage = Usage(pool)
        self.notifications = Notifications(pool, lambda _: None, sleep=asyncio.sleep)

    async def run_of(self, agent: Agent, started_at: datetime, *, ended: bool = True, spans: int = 1) -> UUID:
        """A run with its trace and spans."""
        run_id = new_id()
        ended_at = started_at + SECOND if ended else None
        await self.pool.execute(RUN, run_id, agent.id, agent.organization_id, started_at, ended_at)
        await self.traces.insert_spans([new_span(run_id, {"some": "metadata"}) for _ in range(spans)])
        return run_id

    async def cleared(self, agent: Agent, at: datetime) -> None:
        """A notification of long ago that was cleared at this moment."""
        note = new_notification(agent.id, created_at=NOW - 1000 * DAY)
        await self.notifications.insert(note, {agent.organization_id})
        await self.notifications.clear(agent.id, note.id, at)

    async def used(self, agent: Agent, at: datetime) -> None:
        record = usage_record(agent, cost_usd=Decimal(0), occurred_at=at)
        await self.usage.insert(record)

    async def retention(self, now: datetime = NOW, **days: int) -> dict[str, int]:
        """One pass, with everything kept for good but what is given; what went."""
        settings = RetentionSettings(
            **{"traces": 0, "notifications": 0, "webhooks": 0, "deleted_agents": 0, **days}
        )
        return dict(await RetentionCleaner(Retention(self.pool), settings, ClockAt(now)).run_once())

    async def left(self, *tables: str) -> list[int]:
        """How many rows the tables have."""
        return [
            await self.pool.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 -- constants
            for table in tables
        ]


@pytest.fixture
def house(pool: Pool) -> House:
    return House(pool)


async def test_a_trace_goes_with_its_spans_and_run_when_its_days_are_over(house: House) -> None:
    scout, other = await stored_agent(house.pool), await stored_agent(house.pool)
    old = [await house.run_of(each, NOW - 90 * DAY - SECOND, spans=3) for each in (scout, other, scout)]
    kept = await house.run_of(scout, NOW - 90 * DAY)

    gone = await house.retention(traces=90)

    assert gone["traces and spans"] == 3 + 9
    assert [await house.traces.get(each) for each in old] == [None] * 3
    assert isinstance(await house.traces.get(kept), Trace)
    assert await house.left("run", "trace", "span", "span_metadata") == [1, 1, 1, 1]


async def test_the_trace_of_a_run_that_goes_on_stays(house: House) -> None:
    scout = await stored_agent(house.pool)
    live = await house.run_of(scout, NOW - 3 * DAY, ended=False)
    await house.run_of(scout, NOW - 2 * DAY)

    await house.retention(traces=1)

    assert await house.traces.get(live) is not None
    assert await house.left("run", "trace", "span") == [1, 1, 1]


async def test_a_trace_with_very_many_spans_goes_in_batches(house: House) -> None:
    scout = await stored_agent(house.pool)
    await house.run_of(scout, NOW - 2 * DAY, spans=25)
    expired = Retention(house.pool)
    assert [await expired.delete_traces(NOW - DAY, 10) for _ in range(4)] == [10, 10, 6, 0]


async def test_notifications_go_by_when_they_were_cleared_and_uncleared_ones_stay(house: House) -> None:
    scout = await stored_agent(house.pool)
    await house.cleared(scout, NOW - 90 * DAY - SECOND)
    await house.cleared(scout, NOW - 90 * DAY)
    uncleared = new_notification(scout.id, created_at=NOW - 1000 * DAY)
    await house.notifications.insert(uncleared, {scout.organization_id})

    gone = await house.retention(notifications=90)

    assert gone["cleared notifications"] == 1
    assert await house.left("notification") == [2]


async def test_usage_stays_for_good_unless_a_time_is_set(house: House) -> None:
    scout = await stored_agent(house.pool)
    await house.used(scout, NOW - 1000 * DAY)
    await house.used(scout, NOW - DAY)
    assert "usage records" not in await house.retention(usage=RetentionSettings().usage)
    assert (await house.retention(usage=2))["usage records"] == 1
    assert await house.left("usage_record") == [1]


async def test_webhooks_go_by_when_they_ended_and_pending_ones_stay(house: House) -> None:
    scout = await stored_agent(house.pool)
    old = NOW - 31 * DAY
    for moments in ((old, None, None), (None, old, None), (NOW - 30 * DAY, None, None), (None, None, old)):
        await house.pool.execute(WEBHOOK, scout.organization_id, scout.id, old, *moments)

    gone = await house.retention(webhooks=30)

    assert gone["webhook deliveries"] == 2
    assert await house.left("webhook_delivery") == [2]


async def test_sums_of_a_day_go_when_nobody_asks_for_it_any_more(house: House) -> None:
    scout = await stored_agent(house.pool)
    for days in (0, 2, 3):
        await house.usage.insert(usage_record(scout, occurred_at=NOW - days * DAY))

    await house.retention()

    left = await house.pool.fetch("SELECT DISTINCT day FROM spending ORDER BY day")
    assert [row["day"] for row in left] == [(NOW - 2 * DAY).date(), NOW.date()]
    assert await house.left("usage_record") == [3]


async def test_of_a_deleted_agent_traces_and_usage_stay_for_a_time_and_then_nothing(house: House) -> None:
    gone, kept = await stored_agent(house.pool), await stored_agent(house.pool)
    for agent in (gone, kept):
        await house.run_of(agent, NOW, spans=3)
        await house.cleared(agent, NOW)
        await house.used(agent, NOW)
    deleted_at = NOW + DAY
    await Agents(house.pool).delete(gone.id, deleted_at)

    first = await house.retention(deleted_at + LATE_WRITES + SECOND, deleted_agents=30)

    assert first["rows left by deleted agents"] == 2
    assert await house.left(*TABLES) == [2, 1, 1, 2, 6, 6, 2]

    await house.retention(deleted_at + 30 * DAY, deleted_agents=30)
    assert await house.left(*TABLES) == [2, 1, 1, 2, 6, 6, 2]
    await house.retention(deleted_at + 30 * DAY + SECOND, deleted_agents=30)
    assert await house.left(*TABLES) == [1, 1, 1, 1, 3, 3, 1]


async def test_what_was_written_while_an_agent_was_deleted_goes_as_well(house: House) -> None:
    gone = await stored_agent(house.pool)
    await Agents(house.pool).delete(gone.id, NOW)
    await house.retention(NOW)
    await house.pool.execute(
        "INSERT INTO notification (agent_id, organization_id, title) VALUES ($1, $2, 'late')",
        gone.id,
        gone.organization_id,
    )
    assert (await house.retention(NOW + LATE_WRITES / 2))["rows left by deleted agents"] == 1
    assert await house.left("notification") == [0]


async def test_zero_days_keep_everything(house: House) -> None:
    scout = await stored_agent(house.pool)
    await house.run_of(scout, NOW - 10_000 * DAY)
    await house.cleared(scout, NOW - 999 * DAY)
    await house.used(scout, NOW - 10_000 * DAY)
    assert await house.retention(usage=0) == {"rows left by deleted agents": 0}
    assert await house.left(*TABLES) == [1] * len(TABLES)
