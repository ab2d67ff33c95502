"""The contract of every store: the PostgreSQL one, and the one in memory that the simulation uses."""

import asyncio
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from storage.agent_facts import (
    ActivationPeriod,
    AgentFacts,
    AgentState,
    Budget,
    PendingGroup,
    SystemNotice,
    WakeLimits,
)
from storage.errors import Forbidden, ReferenceMissing, RowLocked
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Outcome, Priority, Source
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    new_notification,
    template,
    usage_record,
)
from tests.storage.stores import Store, end, guarded, in_flight, start


async def test_facts_of_a_new_agent_show_it_asleep(store: Store) -> None:
    scout = await store.agent(max_sleep_hours=8, debounce_window_seconds=0)

    assert await store.get_facts(scout) == AgentFacts(
        organization_id=scout.organization_id,
        state=AgentState(scout.id),
        created_at=NOW,
        name="Scout",
        organization_paused=False,
        max_sleep_hours=8,
        agent_window_seconds=0,
        template_window_seconds=None,
        model="builtin/inbox",
    )


async def test_agent_inserted_asleep_has_its_due_time(store: Store) -> None:
    sleeper = await store.agent(sleep_until=NOW + HOUR)
    archived = await store.agent(status=AgentStatus.ARCHIVED)

    assert (await store.state(sleeper)).next_due_at == NOW + HOUR
    assert (await store.state(archived)).next_due_at is None


async def test_facts_contain_template_window_and_pause_of_organization(store: Store) -> None:
    owner = await store.new_organization()
    shared = template(owner.id, debounce_window_seconds=60)
    await store.storage.templates.insert(shared)
    scout = await store.agent(owner.id, template_id=shared.id)
    await store.storage.templates.update(shared.id, {"debounce_window_seconds": 5}, NOW)
    await store.storage.agents.update(scout.id, {"debounce_window_seconds": 7, "max_sleep_hours": 2}, NOW)
    await store.storage.organizations.update(owner.id, {"paused": True}, NOW)

    seen = await store.get_facts(scout)

    assert (seen.agent_window_seconds, seen.template_window_seconds, seen.max_sleep_hours) == (7, 5, 2)
    assert seen.organization_paused
    assert await store.storage.organizations.list_paused() == [owner.id]


async def test_facts_contain_budgets_with_cap_and_spending(store: Store) -> None:
    owner = await store.new_organization()
    shared = template(owner.id, max_cost_usd_per_day=Decimal(2))
    await store.storage.templates.insert(shared)
    heir, own, free = [
        await store.agent(owner.id, template_id=template_id, max_cost_usd_per_day=cap)
        for template_id, cap in ((shared.id, None), (shared.id, Decimal(3)), (None, None))
    ]
    await store.storage.usage.insert(usage_record(heir, cost_usd=Decimal("1.5")))
    await store.storage.usage.insert(usage_record(heir, cost_usd=Decimal(7), occurred_at=NOW - 10 * HOUR))

    async def budgets(of: Agent, now: datetime = NOW) -> tuple[Budget, ...]:
        seen = (await store.get_facts(of, now)).budgets
        assert await store.storage.spending.list_budgets(of.id, now) == seen
        return seen

    of_heir, of_own = Budget(False, Decimal(2), Decimal("1.5")), Budget(False, Decimal(3), Decimal(0))
    assert [await budgets(one) for one in (heir, own, free)] == [(of_heir,), (of_own,), ()]
    await store.storage.organizations.update(owner.id, {"max_cost_usd_per_day": Decimal(9)}, NOW)
    of_all = Budget(True, Decimal(9), Decimal("1.5"))
    assert [await budgets(one) for one in (heir, free)] == [(of_heir, of_all), (of_all,)]
    assert await budgets(free, NOW + 15 * HOUR) == (Budget(True, Decimal(9), Decimal(0)),)


async def test_facts_contain_limits_with_the_starts_that_fill_them(store: Store) -> None:
    owner = await store.new_organization()
    shared = template(owner.id, max_wakes_per_hour=2, max_wakes_per_day=3, quiet_hours="22:00-07:00")
    await store.storage.templates.insert(shared)
    heir, own, free = [
        await store.agent(owner.id, template_id=template_id, timezone="Europe/Vienna", **fields)
        for template_id, fields in ((shared.id, {}), (shared.id, {"quiet_hours": ""}), (None, {}))
    ]
    starts = [NOW - 50 * HOUR, NOW - 40 * HOUR, NOW - 30 * MINUTE, NOW + SECOND, NOW + 2 * SECOND]
    for at in starts:
        await store.started(heir, at)

    async def limits(of: Agent, now: datetime = NOW) -> WakeLimits:
        return (await store.get_facts(of, now)).limits

    inherited = WakeLimits(2, 3, "22:00-07:00", "Europe/Vienna", starts[2], starts[1])
    assert await limits(heir) == inherited
    assert await limits(heir, NOW + 31 * MINUTE) == replace(
        inherited, fills_hour_at=starts[3], fills_day_at=starts[2]
    )
    assert await limits(heir, NOW + 2 * HOUR) == replace(
        inherited, fills_hour_at=None, fills_day_at=starts[2]
    )
    assert await limits(own) == WakeLimits(2, 3, "", "Europe/Vienna")
    assert await limits(free) == WakeLimits()


async def test_facts_group_pending_notifications_by_kind(store: Store) -> None:
    scout = await store.agent()
    await store.insert(scout)
    for later in (1, 3, 5):
        await store.insert(scout, source=Source.SMS, created_at=NOW + later * SECOND)
    urgent = await store.insert(scout, urgent=True)
    assert urgent.activated_at is not None
    await store.insert(scout, priority=Priority.LOW)
    cleared = await store.insert(scout, source=Source.EMAIL)
    assert await store.storage.notifications.clear(scout.id, cleared.id, NOW)

    assert set((await store.get_facts(scout, NOW + MINUTE)).pending) == {
        PendingGroup(Source.SMS, False, ActivationPeriod.SINCE, 3, NOW + SECOND, NOW + 5 * SECOND),
        PendingGroup(Source.API, False, ActivationPeriod.SINCE, 1, NOW, NOW),
        PendingGroup(
            Source.API, False, ActivationPeriod.SINCE, 1, urgent.activated_at, urgent.activated_at, True
        ),
    }


@pytest.mark.parametrize(
    ("arrived_at", "period"),
    [
        (-30, ActivationPeriod.STOPPED),
        (-20, ActivationPeriod.STOPPED),
        (-5, ActivationPeriod.BEFORE),
        (0, ActivationPeriod.BEFORE),
        (30, ActivationPeriod.DURING),
        (60, ActivationPeriod.DURING),
        (61, ActivationPeriod.SINCE),
    ],
)
async def test_notification_belongs_to_an_activation_period(
    store: Store, arrived_at: int, period: ActivationPeriod
) -> None:
    """The agent was stopped at -20 s and ran from 0 to 60 s."""
    scout = await store.agent()
    await store.insert(scout, created_at=NOW + arrived_at * SECOND)
    assert await store.storage.agent_states.update(end(await store.started(scout)))
    await store.put(scout, stopped_at=NOW - 20 * SECOND)

    [group] = (await store.get_facts(scout, NOW + HOUR)).pending

    assert group.period is period


async def test_activations_are_stored_in_order_after_clock_step(store: Store) -> None:
    scout = await store.agent()
    await store.insert(scout, created_at=NOW + HOUR)
    assert await store.storage.agent_states.update(end(await store.started(scout, NOW + HOUR)))
    first = await store.insert(scout, source=Source.SMS, created_at=NOW)
    reminder = await store.insert(scout, scheduled_for=NOW + SECOND)
    second = await store.insert(scout, source=Source.SMS, created_at=NOW + SECOND)
    cleared = await store.storage.notifications.update(first.id, {"cleared": True}, NOW)
    again = await store.storage.notifications.update(first.id, {"cleared": False}, NOW)

    assert cleared is not None
    assert again is not None
    assert (second.created_at, reminder.activated_at) == (NOW + SECOND, NOW + SECOND)
    ended_at = (await store.state(scout)).last_ended_at
    assert ended_at is not None
    assert first.activated_at is not None
    assert second.activated_at is not None
    assert again.activated_at is not None
    assert ended_at < first.activated_at < second.activated_at < again.activated_at
    periods = {group.period for group in (await store.get_facts(scout, NOW)).pending if not group.reminder}
    assert periods == {ActivationPeriod.BEFORE, ActivationPeriod.SINCE}


async def test_notification_of_the_own_run_keeps_its_time(store: Store) -> None:
    scout = await store.agent()
    await store.started(scout, NOW + HOUR)

    own = await store.insert(scout, source=Source.AGENT, created_at=NOW)

    assert own.activated_at == NOW


async def test_only_a_reminder_is_ahead_until_it_is_due(store: Store) -> None:
    scout = await store.agent()
    await store.insert(scout, scheduled_for=NOW + MINUTE)
    await store.insert(scout, source=Source.EMAIL, scheduled_for=NOW - MINUTE)

    async def periods(now: datetime) -> dict[bool, ActivationPeriod]:
        return {group.reminder: group.period for group in (await store.get_facts(scout, now)).pending}

    assert await periods(NOW - HOUR) == {True: ActivationPeriod.AHEAD, False: ActivationPeriod.SINCE}
    assert await periods(NOW + MINUTE - SECOND) == {
        True: ActivationPeriod.AHEAD,
        False: ActivationPeriod.SINCE,
    }
    assert await periods(NOW + MINUTE) == {True: ActivationPeriod.SINCE, False: ActivationPeriod.SINCE}


async def test_start_and_end_are_recorded_in_the_run(store: Store) -> None:
    scout = await store.agent()
    earlier = await store.insert(scout, created_at=NOW - 2 * SECOND)
    later = await store.insert(scout, created_at=NOW - SECOND)
    await store.insert(scout, scheduled_for=NOW + HOUR)
    running = await store.started(scout)
    assert running.run_id is not None
    begun = await store.storage.runs.get(running.run_id)
    seen = await store.get_facts(scout)

    assert await store.storage.agent_states.update(end(running))

    over = await store.storage.runs.get(running.run_id)
    assert begun is not None
    assert over is not None
    assert begun.notifications == (earlier.id, later.id)
    assert (seen.pending_at_start, seen.wake_reason, begun.outcome) == (2, "run_requested", None)
    assert over == replace(begun, ended_at=NOW + MINUTE, outcome=Outcome.SLEPT, turns=3)


async def test_update_may_insert_a_system_notice(store: Store) -> None:
    scout = await store.agent()
    notice = SystemNotice(new_id(), "Quarantined", "Five runs have failed.", NOW)
    seen = await store.state(scout)

    assert await store.storage.agent_states.update(replace(guarded(seen, failures=5), notice=notice))
    assert not await store.storage.agent_states.update(
        replace(guarded(seen, failures=6), notice=replace(notice, id=new_id()))
    )

    seen = await store.state(scout)
    assert await store.storage.agent_states.update(
        replace(guarded(seen), notice=replace(notice, body="Again."))
    )

    [left] = await store.storage.notifications.list_for_agent(
        scout.id, include_cleared=True, limit=9, now=NOW
    )
    assert (left.id, left.title, left.body) == (notice.id, notice.title, notice.body)
    assert (left.source, left.priority, left.activated_at) == (Source.SYSTEM, Priority.LOW, None)


async def test_only_one_of_several_starts_wins(store: Store) -> None:
    scout = await store.agent()
    seen = await store.state(scout)

    won = await asyncio.gather(*(store.storage.agent_states.update(start(seen)) for _ in range(3)))

    assert sorted(won) == [False, False, True]


async def test_archived_agent_is_not_started(store: Store) -> None:
    scout = await store.agent()
    seen = await store.state(scout)
    await store.put(scout, status=AgentStatus.ARCHIVED)

    assert not await store.storage.agent_states.update(start(seen))
    assert (await store.state(scout)).run_id is None


async def test_second_end_of_a_run_has_no_effect(store: Store) -> None:
    scout = await store.agent()
    first = await store.started(scout)
    assert await store.storage.agent_states.update(end(first))
    second = await store.started(scout, NOW + 2 * MINUTE)

    assert not await store.storage.agent_states.update(end(first, NOW + HOUR))

    assert await store.state(scout) == second


async def test_late_update_has_no_effect(store: Store) -> None:
    """The answer was lost, and the agent has since returned to the state the update starts from."""
    scout = await store.agent()
    seen = await store.state(scout)
    assert await store.storage.agent_states.update(end(await store.started(scout)))
    scheduled = await store.put(scout, sleep_until=NOW + HOUR)

    for late in (start(seen), guarded(seen, next_due_at=None)):
        assert not await store.storage.agent_states.update(late)
        async with in_flight(store, scout) as locked:
            assert not await locked.update(late)

    assert await store.state(scout) == scheduled


async def test_guarded_update_fails_after_a_notification_became_active(store: Store) -> None:
    scout = await store.agent()
    running = await store.started(scout)
    await store.insert(scout)

    assert not await store.storage.agent_states.update(end(running))

    async with in_flight(store, scout) as locked:
        assert await locked.update(end(locked.facts.state))
    state = await store.state(scout)
    assert (state.status, state.wake_seq) == (AgentStatus.SLEEPING, 1)


@pytest.mark.parametrize("priority", Priority)
async def test_sleep_never_misses_a_concurrent_notification(store: Store, priority: Priority) -> None:
    """Whichever commits first, an active notification that sleep did not see comes after it."""
    scout = await store.agent()
    running = await store.started(scout)

    slept, _ = await asyncio.gather(
        store.storage.agent_states.update(end(running)), store.insert(scout, priority=priority)
    )

    bumped = (await store.state(scout)).wake_seq > running.wake_seq
    assert bumped is (priority is Priority.HIGH)
    if priority is Priority.LOW:
        assert slept


async def test_locked_agent_gets_nothing_active_and_shows_no_change(store: Store) -> None:
    scout = await store.agent()
    reminder = await store.insert(scout, scheduled_for=NOW + HOUR)
    async with in_flight(store, scout) as locked:
        before = locked.facts.state
        assert await locked.update(guarded(before, sleep_until=NOW + HOUR))
        insertion = asyncio.create_task(store.insert(scout))
        edit = asyncio.create_task(store.change(reminder, NOW, scheduled_for=NOW + MINUTE))
        for _ in range(3):
            assert await store.state(scout) == before
        assert not insertion.done()
        assert not edit.done()
    await asyncio.gather(insertion, edit)

    after = await store.state(scout)
    assert (after.sleep_until, after.wake_seq) == (NOW + HOUR, before.wake_seq + 2)


async def test_failure_under_lock_rolls_back_and_unlocks(store: Store) -> None:
    scout = await store.agent()
    before = await store.state(scout)

    async def fail() -> None:
        async with in_flight(store, scout) as locked:
            assert await locked.update(guarded(before, sleep_until=NOW + HOUR))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert await store.state(scout) == before
    assert await store.put(scout, sleep_until=NOW + MINUTE)


async def test_waiting_for_a_locked_agent_ends_with_row_locked(store: Store) -> None:
    scout = await store.agent()
    before = await store.state(scout)
    async with in_flight(store, scout):
        refused = await asyncio.gather(
            store.storage.agent_states.update(guarded(before, sleep_until=NOW)),
            store.insert(scout),
            return_exceptions=True,
        )

    assert [type(error) for error in refused] == [RowLocked, RowLocked]
    assert await store.state(scout) == before
    assert (await store.get_facts(scout)).pending == ()


async def test_notification_updates_its_agent_only_if_high(store: Store) -> None:
    scout = await store.agent()
    await store.insert(scout, priority=Priority.LOW, scheduled_for=NOW + SECOND)
    assert (await store.state(scout), store.take_reported()) == (AgentState(scout.id), [])

    await store.insert(scout, scheduled_for=NOW + HOUR)
    await store.insert(scout, scheduled_for=NOW + 2 * HOUR)
    await store.insert(scout)

    state = await store.state(scout)
    assert (state.wake_seq, state.next_due_at) == (3, NOW + HOUR)
    assert store.take_reported() == [scout.id] * 3


@pytest.mark.parametrize(
    "state", [{"status": AgentStatus.ARCHIVED}, {"status": AgentStatus.RUNNING}, {"queued_at": NOW}]
)
async def test_notification_gives_no_due_time_unless_agent_sleeps(
    store: Store, state: dict[str, Any]
) -> None:
    scout = await store.agent()
    await store.put(scout, **state)

    reminder = await store.insert(scout, scheduled_for=NOW + HOUR)
    await store.change(reminder, NOW, scheduled_for=NOW + MINUTE)

    after = await store.state(scout)
    assert (after.wake_seq, after.next_due_at) == (2, None)


async def test_notification_for_unknown_or_foreign_agent_is_refused(store: Store) -> None:
    scout, gone = await store.agent(), await store.agent()
    assert await store.storage.agents.delete(gone.id, NOW)

    for agent_id in (gone.id, new_id()):
        with pytest.raises(ReferenceMissing):
            await store.storage.notifications.insert(new_notification(agent_id), {gone.organization_id})
    with pytest.raises(Forbidden):
        await store.storage.notifications.insert(new_notification(scout.id), {gone.organization_id})

    assert store.take_reported() == []
    assert (await store.get_facts(scout)).pending == ()


async def test_change_reactivates_only_what_becomes_active(store: Store) -> None:
    scout = await store.agent()
    low = await store.insert(scout, priority=Priority.LOW)
    raised = await store.change(low, NOW + SECOND, priority=Priority.HIGH)
    assert raised.activated_at == NOW + SECOND
    titled = await store.change(raised, NOW + MINUTE, title="Look there")
    assert titled.activated_at == NOW + SECOND
    assert (await store.state(scout)).wake_seq == 1
    assert store.take_reported() == [scout.id]

    cleared = await store.change(low, NOW + MINUTE, cleared=True)
    assert (cleared.activated_at, cleared.cleared_at) == (None, NOW + MINUTE)
    assert (await store.state(scout)).wake_seq == 1
    back = await store.change(low, NOW + HOUR, cleared=False)
    assert (back.activated_at, back.cleared_at) == (NOW + HOUR, None)
    assert (await store.state(scout)).wake_seq == 2
    lowered = await store.change(low, NOW + HOUR, priority=Priority.LOW)
    assert lowered.activated_at is None
    assert store.take_reported() == [scout.id] * 3


async def test_rescheduled_reminder_falls_due_at_its_new_time(store: Store) -> None:
    scout = await store.agent()
    reminder = await store.insert(scout, scheduled_for=NOW + HOUR)

    moved = await store.change(reminder, NOW, scheduled_for=NOW + MINUTE)
    assert moved.activated_at == NOW + MINUTE
    assert (await store.state(scout)).next_due_at == NOW + MINUTE
    now_then = await store.change(reminder, NOW + SECOND, scheduled_for=None)

    assert now_then.activated_at == NOW + SECOND
    assert (await store.state(scout)).wake_seq == 3
    assert store.take_reported() == [scout.id] * 5, "a change tells of what was and of what is"


async def test_concurrent_changes_of_one_notification_are_all_kept(store: Store) -> None:
    scout = await store.agent()
    low = await store.insert(scout, priority=Priority.LOW)

    await asyncio.gather(
        store.change(low, NOW, title="A"),
        store.change(low, NOW, body="B"),
        store.change(low, NOW, priority=Priority.HIGH),
    )

    after = await store.storage.notifications.get(low.id)
    assert after is not None
    assert (after.title, after.body, after.priority, after.activated_at) == ("A", "B", Priority.HIGH, NOW)


async def test_clearing_and_deleting_report_only_high_notifications(store: Store) -> None:
    scout, other = await store.agent(), await store.agent()
    high, low = await store.insert(scout), await store.insert(scout, priority=Priority.LOW)
    more = await store.insert(scout)
    store.take_reported()

    assert not await store.storage.notifications.clear(other.id, high.id, NOW)
    assert await store.storage.notifications.clear(scout.id, low.id, NOW)
    assert store.take_reported() == []
    assert await store.storage.notifications.clear(scout.id, high.id, NOW)
    assert await store.storage.notifications.clear(scout.id, high.id, NOW + HOUR)
    assert await store.storage.notifications.delete(more.id, NOW)
    assert not await store.storage.notifications.delete(more.id, NOW)

    after = await store.storage.notifications.get(high.id)
    assert after is not None
    assert (after.cleared_at, after.activated_at) == (NOW, None)
    assert store.take_reported() == [scout.id] * 3
    assert (await store.get_facts(scout)).pending == ()


async def test_queue_lists_high_first_then_oldest_without_future_ones(store: Store) -> None:
    scout = await store.agent()
    low = await store.insert(scout, priority=Priority.LOW, created_at=NOW - HOUR)
    second = await store.insert(scout, created_at=NOW - SECOND)
    first = await store.insert(scout, created_at=NOW - MINUTE)
    await store.insert(scout, scheduled_for=NOW + SECOND)
    done = await store.insert(scout, created_at=NOW - 2 * MINUTE)
    await store.storage.notifications.clear(scout.id, done.id, NOW)

    async def seen(*, include_cleared: bool, limit: int = 50) -> list[UUID]:
        found = await store.storage.notifications.list_for_agent(
            scout.id, include_cleared=include_cleared, limit=limit, now=NOW
        )
        return [one.id for one in found]

    assert await seen(include_cleared=False) == [first.id, second.id, low.id]
    assert await seen(include_cleared=True) == [done.id, first.id, second.id, low.id]
    assert await seen(include_cleared=False, limit=1) == [first.id]


async def test_deleted_agent_is_gone_with_its_rows(store: Store) -> None:
    scout = await store.agent()
    pending = await store.insert(scout)
    running = await store.started(scout)
    assert running.run_id is not None
    store.take_reported()

    assert await store.storage.agents.delete(scout.id, NOW + MINUTE)
    assert not await store.storage.agents.delete(scout.id, NOW + MINUTE)

    assert await store.storage.runs.get(running.run_id) is None
    assert await store.storage.agents.get(scout.id) is None
    assert await store.storage.agent_states.get_facts(scout.id, NOW) is None
    assert not await store.storage.agent_states.update(end(running))
    async with store.storage.agent_states.locked(scout.id, NOW) as locked:
        assert locked.facts is None
    assert await store.storage.notifications.get(pending.id) is None
    assert await store.storage.notifications.update(pending.id, {"title": "A"}, NOW) is None
    assert not await store.storage.notifications.clear(scout.id, pending.id, NOW)
    assert not await store.storage.notifications.delete(pending.id, NOW)


async def test_deletion_waits_for_a_start_in_flight(store: Store) -> None:
    scout = await store.agent()
    async with in_flight(store, scout) as locked:
        deletion = asyncio.create_task(store.storage.agents.delete(scout.id, NOW + MINUTE))
        claim = start(locked.facts.state)
        assert await locked.update(claim)
        assert not deletion.done()
    assert await deletion

    assert await store.storage.agent_states.list_orphans([], []) == []
