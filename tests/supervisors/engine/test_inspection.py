"""What is said of an agent is true, in every phase: its next wake is derived a second time, in plain SQL."""

import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from storage.model import Agent, AgentStatus, Outcome, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFields, RunRequest, StopRequest
from supervisors.engine.snapshot import Snapshot
from supervisors.policy.explanations import when
from supervisors.policy.phases import Phase
from tests.supervisors.world import World, open_world

# The decisions, read once more and told to PostgreSQL. Nothing here looks at next_due_at.
NEXT_WAKE = """
WITH one AS (
    SELECT s.*, o.paused, coalesce(a.debounce_window_seconds, t.debounce_window_seconds, 0) AS window_seconds,
           a.organization_id, o.max_cost_usd_per_day AS organization_cap,
           coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS agent_cap,
           CASE WHEN s.failures >= 5 AND s.retry_at IS NOT NULL
                THEN s.last_started_at + interval '60 seconds' ELSE '-infinity' END AS opens_at
    FROM agent_state s JOIN agent a ON a.id = s.agent_id JOIN organization o ON o.id = a.organization_id
    LEFT JOIN template t ON t.id = a.template_id
    WHERE s.agent_id = $1
), high AS (
    SELECT n.*, coalesce(n.scheduled_for > n.created_at, false) AS is_reminder,
           n.activated_at > coalesce(one.last_started_at, '-infinity') AS is_later_than_start
    FROM notification n JOIN one USING (agent_id)
    WHERE n.priority = 'high' AND NOT n.cleared
      AND (n.scheduled_for > $2 OR n.activated_at > coalesce(one.stopped_at, '-infinity'))
), held AS (
    SELECT activated_at FROM high JOIN one USING (agent_id)
    WHERE is_later_than_start AND NOT is_reminder AND window_seconds > 0
      AND source IN ('email', 'sms', 'mms', 'sms_provider_a', 'sms_provider_b')
), left_over AS (
    SELECT 1 FROM high JOIN one USING (agent_id)
    WHERE activated_at <= last_started_at
       OR (source = 'agent' AND NOT is_reminder AND activated_at <= last_ended_at)
), proposed (at) AS (
    SELECT run_requested_at FROM one
    UNION ALL
    SELECT greatest(activated_at, opens_at) FROM high JOIN one USING (agent_id)
    WHERE is_later_than_start AND activated_at NOT IN (SELECT activated_at FROM held)
      AND (is_reminder OR source <> 'agent' OR activated_at > coalesce(last_ended_at, '-infinity'))
    UNION ALL
    SELECT greatest(opens_at, least(
        max(activated_at) + make_interval(secs => window_seconds),
        min(activated_at)
            + make_interval(secs => greatest(2 * window_seconds, least(10 * window_seconds, 300)))
    ))
    FROM held, one GROUP BY opens_at, window_seconds
    UNION ALL
    SELECT retry_at FROM one
    WHERE retry_reason <> 'uncleared_notifications' OR EXISTS (SELECT FROM left_over)
    UNION ALL
    SELECT greatest(sleep_until, last_started_at + interval '1 second') FROM one
    WHERE sleep_until IS NOT NULL AND retry_at IS NULL
), today AS (
    SELECT coalesce(sum(u.cost_usd) FILTER (WHERE u.agent_id = one.agent_id), 0) AS of_agent,
           coalesce(sum(u.cost_usd), 0) AS of_organization
    FROM one LEFT JOIN usage_record u
        ON u.organization_id = one.organization_id AND u.occurred_at >= date_trunc('day', $2, 'UTC')
), budget (opens_at) AS (
    SELECT CASE WHEN least(agent_cap, organization_cap) = 0 THEN 'infinity'
                WHEN of_agent >= agent_cap OR of_organization >= organization_cap
                THEN date_trunc('day', $2, 'UTC') + interval '24 hours' END
    FROM today, one
)
SELECT nullif(min(greatest(at, budget.opens_at)), 'infinity') FROM proposed, one, budget
WHERE at IS NOT NULL AND status = 'sleeping' AND NOT paused AND queued_at IS NULL
"""

FACTS = """
SELECT s.last_started_at, s.last_ended_at, s.stopped_at, s.queued_at, s.retry_at, s.sleep_until,
       min(n.activated_at) AS first_activated_at
FROM agent_state s LEFT JOIN notification n ON n.agent_id = s.agent_id AND n.activated_at IS NOT NULL
WHERE s.agent_id = $1 GROUP BY s.agent_id
"""

Situation = Callable[[World], Awaitable[Agent]]


async def never_run(world: World) -> Agent:
    return await world.agent()


async def asleep(world: World) -> Agent:
    agent = await world.agent()
    await (await world.start(agent)).sleeps(until=world.at(5000).isoformat())
    return agent


async def asleep_to_its_cap(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=2)
    await (await world.start(agent)).sleeps()
    return agent


async def asleep_to_its_cap_before_any_run(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=1)
    await world.ask(agent, OwnedFields(sleep_until=world.at(5 * 3600)))
    return agent


async def asleep_before_a_reminder(world: World) -> Agent:
    agent = await asleep(world)
    await world.remind(agent, 4000)
    return agent


async def asleep_after_a_stop(world: World) -> Agent:
    agent = await world.agent()
    await world.notify(agent)
    await world.go_to(5)
    await world.ask(agent, StopRequest())
    await world.ask(agent, OwnedFields(sleep_until=world.at(700)))
    return agent


async def just_woken_by_a_sleep_of_no_length(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=0)
    await (await world.start(agent)).sleeps()
    return agent


async def holding(world: World) -> Agent:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(50)
    await world.sms(agent)
    return agent


async def holding_by_its_template(world: World) -> Agent:
    shared = await world.template(debounce_window_seconds=90)
    agent = await world.agent(template_id=shared.id)
    await world.notify(agent, Source.EMAIL)
    return agent


async def holding_at_the_cap(world: World) -> Agent:
    agent = await world.agent(debounce_window_seconds=60)
    for second in range(0, 300, 50):
        await world.go_to(second)
        await world.sms(agent)
    return agent


async def holding_before_a_reminder(world: World) -> Agent:
    agent = await holding(world)
    await world.remind(agent, 70)
    return agent


async def holding_what_came_during_a_run(world: World) -> Agent:
    agent = await world.agent(debounce_window_seconds=60)
    run = await world.start(agent)
    await world.go_to(10)
    await world.sms(agent)
    await world.go_to(15)
    await run.end()
    return agent


async def holding_after_the_clock_was_set_back(world: World) -> Agent:
    agent = await holding(world)
    world.clock.step(-3600)
    return agent


async def backing_off(world: World) -> Agent:
    agent = await world.agent()
    await world.notify(agent)
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].end()
    return agent


async def backing_off_after_failures(world: World) -> Agent:
    agent = await world.agent(max_sleep_hours=0)
    await world.ask(agent, RunRequest())
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    return agent


async def backing_off_for_what_it_told_itself(world: World) -> Agent:
    agent = await world.agent()
    run = await world.start(agent)
    await world.go_to(2)
    await run.call("create_notification", title="Think", priority="high")
    await world.go_to(3)
    await run.end()
    return agent


async def backing_off_with_an_earlier_reminder(world: World) -> Agent:
    agent = await backing_off(world)
    await world.remind(agent, 4)
    return agent


async def backing_off_after_the_service_died(world: World) -> Agent:
    agent = await world.agent()
    await world.start(agent)
    await world.restart()
    return agent


async def quarantined(world: World) -> Agent:
    agent = await world.agent()
    await world.ask(agent, RunRequest())
    for second in (0, 1, 3, 7, 15):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    return agent


async def quarantined_with_a_message(world: World) -> Agent:
    agent = await quarantined(world)
    await world.go_to(20)
    await world.notify(agent)
    return agent


async def quarantined_with_an_earlier_reminder(world: World) -> Agent:
    agent = await quarantined(world)
    await world.remind(agent, 100)
    return agent


async def quarantined_with_a_hold(world: World) -> Agent:
    agent = await quarantined(world)
    await world.change(agent, debounce_window_seconds=100)
    await world.sms(agent)
    return agent


def begin_at_ten_to_midnight(world: World) -> None:
    world.clock.step(14 * 3600 + 50 * 60)
    world.began_at = world.clock.now()


async def over_its_budget(world: World) -> Agent:
    begin_at_ten_to_midnight(world)
    agent = await world.agent(max_cost_usd_per_day=Decimal(5))
    await world.spend(agent, "5.01")
    return agent


async def over_its_budget_with_a_message(world: World) -> Agent:
    agent = await over_its_budget(world)
    await world.change(agent, debounce_window_seconds=60)
    await world.sms(agent)
    return agent


async def over_its_budget_until_long_after_midnight(world: World) -> Agent:
    agent = await over_its_budget(world)
    await world.ask(agent, OwnedFields(sleep_until=world.clock.now() + timedelta(hours=1)))
    return agent


async def over_the_budget_of_its_organization(world: World) -> Agent:
    agent, other = await world.agent(max_cost_usd_per_day=Decimal(9)), await over_its_budget(world)
    await world.change_organization(other.organization_id, max_cost_usd_per_day=Decimal(2))
    await world.notify(agent)
    return agent


async def over_a_budget_of_nothing(world: World) -> Agent:
    shared = await world.template(max_cost_usd_per_day=Decimal(0))
    agent = await world.agent(template_id=shared.id)
    await world.notify(agent)
    return agent


async def ended_by_its_budget(world: World) -> Agent:
    agent = await over_its_budget(world)
    await world.change(agent, max_cost_usd_per_day=None)
    await world.notify(agent)
    await world.change(agent, max_cost_usd_per_day=Decimal(5))
    await world.puppets[agent.id].end(Outcome.BUDGET)
    return agent


async def quarantined_and_over_its_budget(world: World) -> Agent:
    begin_at_ten_to_midnight(world)
    agent = await quarantined(world)
    await world.change(agent, max_cost_usd_per_day=Decimal(5))
    await world.spend(agent, "5")
    await world.notify(agent)
    return agent


async def queued(world: World) -> Agent:
    await world.start(await world.agent())
    agent = await world.agent(debounce_window_seconds=5)
    await world.sms(agent)
    await world.go_to(10)
    return agent


async def running(world: World) -> Agent:
    agent = await world.agent()
    await world.start(agent)
    await world.go_to(30)
    await world.notify(agent)
    await world.remind(agent, 100)
    return agent


async def stopping(world: World) -> Agent:
    world.puppets_are_stubborn = True
    agent = await running(world)
    await world.ask(agent, OwnedFields(status=AgentStatus.SLEEPING))
    return agent


async def paused(world: World) -> Agent:
    agent = await asleep_before_a_reminder(world)
    await world.pause(agent.organization_id, True)
    return agent


async def archived(world: World) -> Agent:
    agent = await asleep_before_a_reminder(world)
    await world.ask(agent, OwnedFields(status=AgentStatus.ARCHIVED))
    return agent


SITUATIONS: dict[Situation, Phase] = {
    never_run: Phase.ASLEEP,
    asleep: Phase.ASLEEP,
    asleep_to_its_cap: Phase.ASLEEP,
    asleep_to_its_cap_before_any_run: Phase.ASLEEP,
    asleep_before_a_reminder: Phase.ASLEEP,
    asleep_after_a_stop: Phase.ASLEEP,
    just_woken_by_a_sleep_of_no_length: Phase.ASLEEP,
    holding: Phase.HOLDING,
    holding_by_its_template: Phase.HOLDING,
    holding_at_the_cap: Phase.HOLDING,
    holding_before_a_reminder: Phase.HOLDING,
    holding_what_came_during_a_run: Phase.HOLDING,
    holding_after_the_clock_was_set_back: Phase.HOLDING,
    backing_off: Phase.BACKING_OFF,
    backing_off_after_failures: Phase.BACKING_OFF,
    backing_off_with_an_earlier_reminder: Phase.BACKING_OFF,
    backing_off_for_what_it_told_itself: Phase.BACKING_OFF,
    backing_off_after_the_service_died: Phase.BACKING_OFF,
    quarantined: Phase.QUARANTINED,
    quarantined_with_a_message: Phase.QUARANTINED,
    quarantined_with_an_earlier_reminder: Phase.QUARANTINED,
    quarantined_with_a_hold: Phase.QUARANTINED,
    over_its_budget: Phase.ASLEEP,
    over_its_budget_with_a_message: Phase.ASLEEP,
    over_its_budget_until_long_after_midnight: Phase.ASLEEP,
    over_the_budget_of_its_organization: Phase.ASLEEP,
    over_a_budget_of_nothing: Phase.ASLEEP,
    ended_by_its_budget: Phase.ASLEEP,
    quarantined_and_over_its_budget: Phase.QUARANTINED,
    queued: Phase.QUEUED,
    running: Phase.RUNNING,
    stopping: Phase.STOPPING,
    paused: Phase.PAUSED,
    archived: Phase.ARCHIVED,
}


def test_there_is_a_situation_for_every_phase() -> None:
    assert set(SITUATIONS.values()) == set(Phase)


async def known_moments(world: World, agent: Agent, seen: Snapshot) -> set[str]:
    """Every moment that may be named in a sentence about the agent."""
    [facts] = await world.pool.fetch(FACTS, agent.id)
    today = world.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    derived = (
        seen.next_wake.at if seen.next_wake else None,
        seen.debounce.due_at if seen.debounce else None,
        today + timedelta(days=1) if "budget" in seen.why else None,
    )
    return {when(moment) for moment in (*facts, *derived) if moment is not None}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
async def test_what_is_said_of_an_agent_is_true(pool: Pool, situation: Situation) -> None:
    settings = {"max_concurrent": 1, "stop_grace_seconds": 3600}
    async with open_world(pool, runs=settings) as world:
        agent = await situation(world)
        seen, now = await world.see(agent), world.clock.now()

        assert seen.phase is SITUATIONS[situation]
        assert seen.status == (await world.state(agent)).status
        set_back = timedelta(hours=situation is holding_after_the_clock_was_set_back)
        derived: datetime | None = await pool.fetchval(NEXT_WAKE, agent.id, now)
        assert (seen.next_wake.at if seen.next_wake else None) == (derived and derived - set_back)
        named = set(re.findall(r"\d{4}-\d\d-\d\d [\d:]+ UTC", seen.why))
        assert named <= await known_moments(world, agent, seen)
        assert seen.next_wake is None or when(seen.next_wake.at) in named
        assert seen.recent or situation in {never_run, backing_off_after_the_service_died, over_its_budget}

        known = await world.wakes(agent)
        if seen.next_wake is None:
            await world.advance(2000)
            assert await world.wakes(agent) == known
        else:
            await world.advance((seen.next_wake.at - now).total_seconds() - 0.001)
            assert await world.wakes(agent) == known
            await world.advance(0.001)
            assert len(await world.wakes(agent)) == len(known) + 1


async def test_a_pause_has_lasted_since_it_was_seen_to_begin(world: World) -> None:
    agent = await asleep_before_a_reminder(world)
    await world.go_to(100)
    await world.pause(agent.organization_id, True)
    await world.go_to(200)
    assert (await world.see(agent)).since == world.at(100)

    await world.pause(agent.organization_id, False)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.ASLEEP, world.at(200))


async def test_a_pause_that_began_unseen_has_lasted_since_nobody_knows_when(world: World) -> None:
    agent = await asleep_before_a_reminder(world)
    await world.pause(agent.organization_id, True)
    await world.restart()
    await world.notify(agent)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.PAUSED, None)


async def test_a_hold_over_what_came_during_a_run_has_lasted_since_the_end_of_that(world: World) -> None:
    agent = await holding_what_came_during_a_run(world)
    await world.go_to(20)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.HOLDING, world.at(15))
    assert seen.why.startswith("Holding since 2126-11-21 09:00:15 UTC ")


async def test_a_hold_over_what_came_during_a_pause_has_lasted_since_the_end_of_that(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.pause(agent.organization_id, True)
    await world.sms(agent)
    await world.go_to(30)
    await world.pause(agent.organization_id, False)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.HOLDING, world.at(30))
    assert seen.why.startswith("Holding since 2126-11-21 09:00:30 UTC ")


async def test_a_run_that_a_pause_stops_is_stopping_since_the_pause(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    await world.start(agent)
    await world.go_to(3)
    await world.pause(agent.organization_id, True)
    await world.go_to(4)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.STOPPING, world.at(3))


async def test_a_restored_agent_has_slept_since_its_restore(world: World) -> None:
    agent = await world.agent()
    await world.ask(agent, OwnedFields(status=AgentStatus.ARCHIVED))
    await world.restart()
    await world.go_to(100)
    await world.ask(agent, OwnedFields(status=AgentStatus.SLEEPING))
    await world.go_to(200)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.ASLEEP, world.at(100))


async def test_an_agent_sleeps_since_what_its_last_run_left_was_cleared(world: World) -> None:
    agent = await world.agent()
    message = await world.notify(agent)
    await world.puppets[agent.id].end()
    await world.go_to(0.5)
    await world.clear(message)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.ASLEEP, world.at(0.5))


async def test_the_last_messages_are_told_with_what_came_of_them(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    message = await world.sms(agent)
    await world.go_to(60)
    run = world.puppets[agent.id]
    await run.clears(message)
    await run.sleeps(until=world.at(4000).isoformat())
    await world.ask(agent, OwnedFields(sleep_until=world.at(3000)))
    await world.ask(agent, RunRequest(wakeup=False))

    seconds = [(told.at - world.began_at).total_seconds() for told in (await world.see(agent)).recent]
    assert seconds == sorted(seconds)
    assert [(told.message, told.outcome) for told in (await world.see(agent)).recent] == [
        ("notified", "holding"),
        ("due", "started: notification:sms"),
        ("cleared", "running"),
        ("sleep request", "granted until 2126-11-21 10:06:40"),
        ("run over", "asleep"),
        ("write of sleep_until", "done"),
        ("run request without wakeup", "sleeping"),
    ]


async def test_a_schedule_that_was_cut_is_not_said_to_be_as_was_asked(world: World) -> None:
    agent = await asleep_to_its_cap_before_any_run(world)
    assert (await world.see(agent)).why == (
        "Asleep until 2126-11-21 10:00 UTC, the longest it may sleep; "
        "any high-priority notification wakes it earlier."
    )

    await world.ask(agent, OwnedFields(sleep_until=world.at(1800)))

    assert (await world.see(agent)).why.startswith("Asleep until 2126-11-21 09:30 UTC, as was asked;")


async def test_a_wake_reason_that_a_client_writes_is_not_what_woke_the_agent(world: World) -> None:
    agent = await world.agent()
    await world.start(agent)
    await world.ask(agent, OwnedFields(last_wake_reason="a full moon"))

    assert (await world.see(agent)).why == "Running since 2126-11-21 09:00 UTC, woken by a run request."


async def test_what_is_due_and_may_not_start_is_said_to_be_due(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10))
    world.registry.allow_starts(False)
    await world.go_to(20)

    seen = await world.see(agent)

    assert seen.why == (
        "Due since 2126-11-21 09:00:10 UTC, but no run may start: the service is regaining its lead, or is "
        "shutting down. The sleep it was given ends."
    )


async def test_what_waits_in_line_while_no_run_may_start_is_not_said_to_lack_a_slot(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        first, second = await world.agent(), await world.agent()
        run = await world.start(first)
        await world.ask(second, RunRequest())
        world.registry.allow_starts(False)
        await run.end()

        assert (await world.see(second)).why == (
            "Waiting for a run slot since 2126-11-21 09:00 UTC; at present no run may start: "
            "the service is regaining its lead, or is shutting down."
        )
