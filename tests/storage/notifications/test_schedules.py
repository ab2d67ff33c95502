"""Schedules in the database: each occurrence happens once, with its notification, event and record."""

import asyncio
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest

from storage.errors import DatabaseUnavailable, LimitReached, NotUnique, ReferenceMissing
from storage.model import Agent, AgentStatus, Priority
from storage.notifications import schedules
from storage.notifications.schedules import (
    KEPT_OCCURRENCES,
    MAX_PER_AGENT,
    DueSchedule,
    IfUncleared,
    OccurrenceOutcome,
    OnlyIf,
    PausedReason,
    Schedule,
    occurrence_id,
)
from storage.organization_limits import OrganizationLimits, StorageLimits
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.maintenance.schedules import ScheduleRunner
from supervisors.policy.schedules import fall_due, run_now, soonest
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND, new_notification, schedule, stored_agent
from tests.supervisors.held_clock import HeldClock

DAY = 24 * HOUR
DUE = NOW + DAY
EVENTS = "SELECT type FROM event WHERE type LIKE 'schedule.%' ORDER BY id"
QUEUE = (
    "SELECT id, title, body, source, source_id, cleared, activated_at FROM notification ORDER BY created_at"
)


@pytest.fixture
def told() -> list[UUID]:
    return []


@pytest.fixture
def storage(pool: Pool, told: list[UUID]) -> Storage:
    return Storage(pool, on_commit=told.extend, sleep=SystemClock().sleep)


@pytest.fixture
async def agent(pool: Pool) -> Agent:
    return await stored_agent(pool, timezone="Europe/Vienna")


async def due(storage: Storage, now: datetime = DUE) -> list[DueSchedule]:
    return await storage.schedules.list_due(now, [], 100)


async def fire(storage: Storage, now: datetime) -> list[OccurrenceOutcome]:
    """Fire what is due, as a node does, and return the outcomes."""
    steps = [fall_due(each, now) for each in await due(storage, now)]
    return [occurrence.outcome for occurrence in await storage.schedules.fire(steps, now)]


async def stored(storage: Storage, agent: Agent, **fields: object) -> Schedule:
    made = schedule(agent, **{"cron": "0 9 * * *", "timezone": "UTC", **fields})
    await storage.schedules.insert(made)
    return made


async def test_occurrence_inserts_its_notification_and_moves_on(
    storage: Storage, pool: Pool, agent: Agent, told: list[UUID]
) -> None:
    daily = await stored(storage, agent)
    assert await fire(storage, DUE + SECOND) == [OccurrenceOutcome.FIRED]
    [row] = await pool.fetch(QUEUE)
    assert (row["id"], row["title"], row["source"], row["source_id"]) == (
        occurrence_id(daily.id, DUE),
        "Morning figures",
        "system",
        str(daily.id),
    )
    assert row["activated_at"] == DUE + SECOND
    assert told == [agent.id]
    after = await storage.schedules.get(daily.id)
    assert after is not None
    assert (after.next_at, after.due_at, after.last_at, after.last_outcome) == (
        DUE + DAY,
        DUE + DAY,
        DUE,
        "fired",
    )
    assert [row["type"] for row in await pool.fetch(EVENTS)] == ["schedule.created", "schedule.occurred"]
    [occurrence] = await storage.schedules.list_occurrences(daily.id, None, None)
    assert (occurrence.outcome, occurrence.notification_id) == (OccurrenceOutcome.FIRED, row["id"])


async def test_two_nodes_fire_an_occurrence_once(storage: Storage, pool: Pool, agent: Agent) -> None:
    await stored(storage, agent)
    steps = [fall_due(each, DUE) for each in await due(storage)]
    results = await asyncio.gather(*(storage.schedules.fire(steps, DUE) for _ in range(4)))
    assert sorted(map(len, results)) == [0, 0, 0, 1]
    assert len(await pool.fetch(QUEUE)) == 1


async def test_change_in_the_second_it_is_due_neither_loses_nor_repeats(
    storage: Storage, pool: Pool, agent: Agent
) -> None:
    daily = await stored(storage, agent)
    steps = [fall_due(each, DUE) for each in await due(storage)]

    async def rename(before: Schedule | None) -> Schedule:
        return replace(before or daily, title="Evening figures")

    await storage.schedules.save(agent.id, daily.id, rename, DUE)
    assert await storage.schedules.fire(steps, DUE) == []  # decided before the change
    assert await fire(storage, DUE) == [OccurrenceOutcome.FIRED]

    async def again(before: Schedule | None) -> Schedule:
        return replace(before or daily, next_at=DUE, due_at=DUE)  # as if the clock had been set back

    await storage.schedules.save(agent.id, daily.id, again, DUE)
    assert await fire(storage, DUE + SECOND) == []
    assert [row["title"] for row in await pool.fetch(QUEUE)] == ["Evening figures"]
    after = await storage.schedules.get(daily.id)
    assert after is not None
    assert (after.next_at, after.notified_count) == (DUE + DAY, 1)


@pytest.mark.parametrize(
    "statement", ["lock_states", "_update", "_record", "insert_together", "update_locked"]
)
async def test_crash_after_any_statement_leaves_all_or_nothing(
    storage: Storage, pool: Pool, agent: Agent, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    daily = await stored(storage, agent)
    await stored(storage, agent, name="other", next_at=DUE + DAY, due_at=DUE + DAY)
    assert await fire(storage, DUE) == [OccurrenceOutcome.FIRED]
    before = await storage.schedules.get(daily.id)
    complete = getattr(schedules, statement)

    async def crash(*args: object) -> None:
        await complete(*args)
        raise ConnectionError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(schedules, statement, crash)
        with pytest.raises(DatabaseUnavailable):
            await fire(storage, DUE + DAY)
    assert await storage.schedules.get(daily.id) == before
    assert len(await pool.fetch(QUEUE)) == 1
    outcomes = await fire(storage, DUE + DAY)
    assert sorted(outcomes) == [OccurrenceOutcome.FIRED, OccurrenceOutcome.MERGED]
    assert len(await pool.fetch(QUEUE)) == 2


async def test_week_of_standstill_ends_in_one_notification(
    storage: Storage, pool: Pool, agent: Agent
) -> None:
    hourly = await stored(storage, agent, cron=None, every_seconds=3600, created_at=NOW)
    limited = await stored(storage, agent, name="limited", late_seconds=600)
    runner = ScheduleRunner(storage.schedules, HeldClock(NOW + 8 * DAY + 30 * MINUTE))
    await runner.fire_due()
    [row] = await pool.fetch(QUEUE)
    assert row["body"].startswith("It was due at 2126-11-29 9:00 UTC, 30 minutes ago. 168 earlier times")
    [late] = await storage.schedules.list_occurrences(limited.id, None, None)
    assert (late.outcome, late.missed_count) == (OccurrenceOutcome.LATE, 7)
    [fired] = await storage.schedules.list_occurrences(hourly.id, None, None)
    assert (fired.outcome, fired.occurs_at) == (OccurrenceOutcome.FIRED, NOW + 8 * DAY)


async def test_organizations_take_turns_while_many_schedules_are_due(
    storage: Storage, pool: Pool, agent: Agent
) -> None:
    for number in range(20):
        await stored(storage, agent, name=str(number))
    other = await stored(storage, await stored_agent(pool), next_at=DUE + SECOND, due_at=DUE + SECOND)
    page = await storage.schedules.list_due(DUE + SECOND, [], 2)
    assert {each.organization_id for each in page} == {agent.organization_id, other.organization_id}


async def test_due_checks_leave_out_organizations_that_have_enough(
    storage: Storage, pool: Pool, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = schedules.LIST_DUE_CHECKS.replace(str(schedules.MAX_IN_TURN), "20")
    monkeypatch.setattr(schedules, "LIST_DUE_CHECKS", sql)
    watch = {"tool": "look", "arguments": {}, "wake_if": "changed"}
    for number in range(20):
        await stored(storage, agent, name=str(number), watch=watch)
    other = await stored_agent(pool)
    due_later = {"next_at": DUE + SECOND, "due_at": DUE + SECOND}
    await stored(storage, other, watch=watch, **due_later)
    found = await storage.schedules.list_due_checks(DUE + SECOND, [], [agent.organization_id], 20)
    assert [each.agent_id for each in found] == [other.id]
    assert await due(storage) == []


async def test_postponed_notification_waits_although_it_is_updated(
    storage: Storage, pool: Pool, agent: Agent
) -> None:
    daily = await stored(storage, agent)
    await fire(storage, DUE)
    until = DUE + 7 * DAY
    await storage.notifications.update(occurrence_id(daily.id, DUE), {"scheduled_for": until}, DUE)
    assert await fire(storage, DUE + DAY) == [OccurrenceOutcome.MERGED]
    [row] = await pool.fetch(QUEUE)
    assert row["activated_at"] == until


async def test_waiting_notification_is_updated_and_counts_as_new(
    storage: Storage, pool: Pool, agent: Agent, told: list[UUID]
) -> None:
    daily = await stored(storage, agent)
    await fire(storage, DUE)
    before = await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", agent.id)
    told.clear()
    assert await fire(storage, DUE + DAY + SECOND) == [OccurrenceOutcome.MERGED]
    assert await fire(storage, DUE + 2 * DAY) == [OccurrenceOutcome.MERGED]
    [row] = await pool.fetch(QUEUE)
    assert row["body"].startswith("3 times due without being cleared, the last at 2126-11-24 9:00 UTC.")
    assert row["activated_at"] == DUE + 2 * DAY
    after = await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", agent.id)
    assert (after, told) == (before + 2, [agent.id, agent.id])
    await storage.notifications.clear(agent.id, row["id"], DUE + 2 * DAY + SECOND)
    assert await fire(storage, DUE + 3 * DAY) == [OccurrenceOutcome.FIRED]
    assert (await pool.fetch(QUEUE))[1]["body"] == "Look at the figures."
    renewed = await storage.schedules.get(daily.id)
    assert renewed is not None
    assert (renewed.merged_count, renewed.notified_count) == (1, 4)


async def test_waiting_notification_gets_title_and_priority_of_the_schedule(
    storage: Storage, pool: Pool, agent: Agent
) -> None:
    note = await stored(storage, agent, priority=Priority.LOW)
    await fire(storage, DUE)

    async def raised(before: Schedule | None) -> Schedule:
        return replace(before or note, title="Urgent figures", priority=Priority.HIGH)

    await storage.schedules.save(agent.id, note.id, raised, DUE)
    assert await fire(storage, DUE + DAY) == [OccurrenceOutcome.MERGED]
    [row] = await pool.fetch(QUEUE)
    assert (row["title"], row["activated_at"]) == ("Urgent figures", DUE + DAY)


async def test_adding_schedule_merges_while_the_limit_is_reached(pool: Pool, agent: Agent) -> None:
    limits = OrganizationLimits(pool, StorageLimits(waiting_notifications=2))
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep, limits=limits)
    await stored(storage, agent, if_uncleared=IfUncleared.ADD)
    outcomes = [(await fire(storage, DUE + days * DAY))[0] for days in range(3)]
    assert outcomes == [OccurrenceOutcome.FIRED, OccurrenceOutcome.FIRED, OccurrenceOutcome.MERGED]
    assert len(await pool.fetch(QUEUE)) == 2


async def test_condition_counts_other_notifications_only(storage: Storage, agent: Agent) -> None:
    digest = await stored(storage, agent, only_if=OnlyIf.WAITING)
    assert await fire(storage, DUE) == [OccurrenceOutcome.NOTHING_WAITING]
    low = new_notification(agent.id, created_at=DUE, priority="low")
    await storage.notifications.insert(low, {agent.organization_id})
    assert await fire(storage, DUE + DAY) == [OccurrenceOutcome.FIRED]
    await storage.notifications.clear(agent.id, low.id, DUE + DAY)
    assert await fire(storage, DUE + 2 * DAY) == [OccurrenceOutcome.NOTHING_WAITING]
    recorded = await storage.schedules.list_occurrences(
        digest.id, OccurrenceOutcome.NOTHING_WAITING, DUE + DAY
    )
    assert [occurrence.occurs_at for occurrence in recorded] == [DUE + 2 * DAY]


async def test_archived_agent_pauses_until_it_is_restored(storage: Storage, pool: Pool, agent: Agent) -> None:
    daily = await stored(storage, agent)
    status = "UPDATE agent_state SET status = $2 WHERE agent_id = $1"
    await pool.execute(status, agent.id, AgentStatus.ARCHIVED)
    shown = await storage.schedules.get(daily.id)
    assert shown is not None
    assert shown.shown_reason is PausedReason.AGENT_ARCHIVED
    assert await fire(storage, DUE) == [OccurrenceOutcome.PAUSED]
    await pool.execute(status, agent.id, AgentStatus.SLEEPING)
    assert await fire(storage, DUE + DAY) == [OccurrenceOutcome.FIRED]


async def test_new_zone_of_agent_moves_schedules_that_follow_it(storage: Storage, agent: Agent) -> None:
    following = await stored(storage, agent, timezone=None, next_at=DUE - HOUR, due_at=DUE - HOUR)
    pinned = await stored(storage, agent, name="pinned")
    await storage.agents.update(agent.id, {"timezone": "America/New_York"}, NOW)
    assert (await storage.due.get_next())["schedules"] == datetime.fromisoformat("1970-01-01T00:00Z")
    assert await fire(storage, NOW + SECOND) == []
    after = [await storage.schedules.get(each.id) for each in (following, pinned)]
    assert [each and each.next_at for each in after] == [NOW + 5 * HOUR, DUE]


async def test_deleted_agent_leaves_nothing_due(storage: Storage, pool: Pool, agent: Agent) -> None:
    await stored(storage, agent)
    await storage.agents.delete(agent.id, NOW)
    assert (await storage.due.get_next())["schedules"] is None
    assert await due(storage) == []
    assert await storage.retention.delete_leftovers(NOW + DAY, 100) == 1
    assert await pool.fetchval("SELECT count(*) FROM schedule") == 0


async def test_request_notifies_also_while_paused(storage: Storage, pool: Pool, agent: Agent) -> None:
    paused = await stored(storage, agent, paused_reason=PausedReason.MANUAL)
    [occurrence] = await storage.schedules.fire([run_now(paused, NOW)], NOW, actor="user:" + str(UUID(int=1)))
    assert occurrence.outcome is OccurrenceOutcome.MANUAL
    assert [row["body"] for row in await pool.fetch(QUEUE)] == ["Look at the figures."]
    after = await storage.schedules.get(paused.id)
    assert after is not None
    assert (after.next_at, after.notified_count, after.paused_reason) == (DUE, 0, PausedReason.MANUAL)


async def test_record_keeps_the_last_occurrences(storage: Storage, agent: Agent) -> None:
    often = await stored(storage, agent, cron="* * * * *", next_at=NOW, due_at=NOW)
    for minute in range(KEPT_OCCURRENCES + 5):
        await fire(storage, NOW + minute * MINUTE)
    recorded = await storage.schedules.list_occurrences(often.id, None, None)
    assert [recorded[0].occurs_at, recorded[-1].occurs_at] == [
        NOW + (KEPT_OCCURRENCES + 4) * MINUTE,
        NOW + 5 * MINUTE,
    ]


async def test_save_by_name_stores_once_and_changes_nothing_when_repeated(
    storage: Storage, pool: Pool, agent: Agent
) -> None:
    made = schedule(agent, agent_name=agent.name)

    async def same(before: Schedule | None) -> Schedule:
        return before or made

    saves = [storage.schedules.save(agent.id, made.name, same, NOW) for _ in range(3)]
    assert [each.id for each in await asyncio.gather(*saves)] == [made.id] * 3
    assert [row["type"] for row in await pool.fetch(EVENTS)] == ["schedule.created"]


async def test_names_of_an_agent_are_unique(storage: Storage, agent: Agent) -> None:
    await stored(storage, agent)
    with pytest.raises(NotUnique):
        await stored(storage, agent)
    with pytest.raises(ReferenceMissing):
        await storage.schedules.insert(schedule(agent, agent_id=UUID(int=1)))


async def test_number_of_schedules_of_an_agent_is_limited(storage: Storage, agent: Agent) -> None:
    for number in range(MAX_PER_AGENT):
        await stored(storage, agent, name=str(number))
    with pytest.raises(LimitReached, match="The agent has 100 schedules"):
        await stored(storage, agent)


async def test_list_shows_what_its_filters_ask_for(storage: Storage, pool: Pool, agent: Agent) -> None:
    paused = await stored(storage, agent, paused_reason=PausedReason.MANUAL)
    tagged = await stored_agent(pool, agent.organization_id, tags=("night",))
    other = await stored(storage, tagged)
    owners = (agent.organization_id,)

    async def listed(**filters: object) -> list[UUID]:
        page = await storage.schedules.list_page(owners, Page(None, 10), **filters)  # type: ignore[arg-type]
        return [each.id for each in page]

    assert await listed() == [other.id, paused.id]
    assert await listed(agent=agent.id) == await listed(paused=True) == [paused.id]
    assert await listed(paused=False) == await listed(tag="night") == [other.id]
    assert [each.id for each in await storage.schedules.list_of_agent(agent.id)] == [paused.id]


async def test_coming_schedules_are_those_that_wake(storage: Storage, pool: Pool, agent: Agent) -> None:
    daily = await stored(storage, agent)
    await stored(storage, agent, name="low", priority="low")
    await stored(storage, agent, name="paused", paused_reason=PausedReason.MANUAL)
    coming = await storage.schedules.list_coming([agent.organization_id], DUE, 10)
    assert [(each.id, each.next_at, each.agent_name) for each in coming] == [(daily.id, DUE, agent.name)]
    assert await storage.schedules.list_coming([agent.organization_id], DUE - SECOND, 10) == []
    assert soonest(await storage.schedules.list_of_agent(agent.id)) == coming[0]
    for paused in ("UPDATE agent_state SET paused = $1", "UPDATE organization SET paused = $1"):
        await pool.execute(paused, True)
        assert await storage.schedules.list_coming([agent.organization_id], DUE, 10) == []
        await pool.execute(paused, False)
    assert await storage.schedules.list_coming([agent.organization_id], DUE, 10) == coming


async def test_schedule_without_a_zone_needs_a_person(storage: Storage, agent: Agent) -> None:
    lost = await stored(storage, agent, timezone="Europe/Atlantis")
    assert await fire(storage, DUE) == [OccurrenceOutcome.FIRED]
    [found] = await storage.overviews.list_schedules_without_zone([agent.organization_id], 10)
    assert (found.id, found.agent_id, found.lost_timezone, found.since) == (
        lost.id,
        agent.id,
        "Europe/Atlantis",
        DUE,
    )
