"""The wake scenarios of docs/invariants.md, one timeline each; times are seconds since the test began.

They stay in one file, in the order of their table.
"""

from collections.abc import Awaitable, Callable

import pytest

from storage.model import Agent, AgentStatus, Outcome, Priority, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunAnswer, RunRequest, StopReply, StopRequest
from supervisors.policy.phases import Phase
from supervisors.tools.arguments import ToolError
from tests.supervisors.world import World, open_world


def test_every_scenario_has_a_timeline() -> None:
    numbers = {name.split("_")[2] for name in globals() if name.startswith("test_scenario_")}
    assert numbers == {f"{number:02}" for number in range(1, 25)}


async def test_scenario_01_message_during_run_is_held_from_arrival(world: World) -> None:
    """Check scenario 1: an SMS during a run that ends uncleared is held from its `activated_at`."""
    agent = await world.agent(debounce_window_seconds=60)
    run = await world.start(agent)
    await world.go_to(10)
    await world.sms(agent)
    await world.go_to(15)
    await run.end()

    assert await world.phase(agent) is Phase.HOLDING
    await world.go_to(200)

    assert await world.wakes(agent) == [(0, "run_requested"), (70, "notification:sms")]


async def test_scenario_02_listing_changes_nothing(world: World) -> None:
    """Check scenario 2: listing a message changes nothing."""
    agent = await world.agent(debounce_window_seconds=60)
    run = await world.start(agent)
    await world.go_to(10)
    message = await world.sms(agent)
    assert await run.lists() == [str(message.id)]
    with pytest.raises(ToolError):
        await run.sleeps()
    await world.go_to(15)
    await run.end()
    await world.go_to(200)

    assert await world.wakes(agent) == [(0, "run_requested"), (70, "notification:sms")]


async def test_scenario_03_stop_ends_a_hold(world: World) -> None:
    """Check scenario 3: a stop ends a hold; the next message starts another."""
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(20)

    assert await world.ask(agent, StopRequest()) is StopReply.STOPPED
    assert await world.phase(agent) is Phase.ASLEEP
    await world.go_to(300)
    assert await world.wakes(agent) == []

    await world.sms(agent)
    await world.go_to(500)
    assert await world.wakes(agent) == [(360, "notification:sms")]


async def test_scenario_04_uncleared_message_is_held_again(world: World) -> None:
    """Check scenario 4: an un-cleared message is held for one window, over a restart too."""
    agent = await world.agent(debounce_window_seconds=60)
    message = await world.sms(agent)
    await world.clear(message)
    await world.go_to(86_400)
    await world.edit(message, cleared=False)
    assert await world.phase(agent) is Phase.HOLDING

    await world.go_to(86_430)
    await world.restart()
    await world.go_to(86_500)

    assert await world.wakes(agent) == [(86_460, "notification:sms")]


@pytest.mark.parametrize("withdrawal", ["cleared", "deleted", "made low", "moved to later"])
async def test_scenario_05_hold_ends_with_its_last_message(world: World, withdrawal: str) -> None:
    """Check scenario 5: a hold ends with the last of its messages."""
    agent = await world.agent(debounce_window_seconds=60)
    first = await world.sms(agent)
    await world.go_to(30)
    second = await world.sms(agent)
    await world.go_to(40)

    async def withdraw() -> None:
        match withdrawal:
            case "cleared":
                await world.clear(second)
            case "deleted":
                await world.storage.notifications.delete(second.id, world.clock.now())
                await world.wait_until_idle()
            case "made low":
                await world.edit(second, priority=Priority.LOW)
            case "moved to later":
                await world.edit(second, scheduled_for=world.at(5000))

    await withdraw()
    debounce = (await world.see(agent)).debounce
    assert debounce is not None
    assert debounce.due_at == world.at(60)  # the remaining message keeps the hold, with its own time

    await world.clear(first)
    assert await world.phase(agent) is Phase.ASLEEP
    await world.go_to(4000)
    assert await world.wakes(agent) == []


async def test_scenario_06_moved_reminder_fires_once(world: World) -> None:
    """Check scenario 6: a reminder moved twice fires once, at its last time."""
    agent = await world.agent()
    reminder = await world.remind(agent, 600)
    await world.edit(reminder, scheduled_for=world.at(4200))
    await world.edit(reminder, scheduled_for=world.at(900))
    await world.go_to(899)
    assert await world.wakes(agent) == []

    await world.go_to(900)
    run = world.puppets[agent.id]
    await run.clears(reminder)
    await run.sleeps()
    await world.go_to(5000)

    assert await world.wakes(agent) == [(900, "reminder")]


async def test_scenario_07_reminded_run_sleeps_as_it_asks(world: World) -> None:
    """Check scenario 7: a run woken by a reminder before its sleep ends sleeps as it asks."""
    agent = await world.agent(max_sleep_hours=1)
    await (await world.start(agent)).sleeps(until=world.at(1000).isoformat())
    reminder = await world.remind(agent, 999)
    await world.go_to(999)

    run = world.puppets[agent.id]
    woken = await world.agent_now(agent.id)
    assert woken.last_wake_reason == "reminder"
    assert woken.last_wake_interrupted_sleep_until == world.at(1000)
    await run.clears(reminder)
    await run.sleeps()

    assert (await world.agent_now(agent.id)).sleep_until == world.at(999 + 3600)


async def test_scenario_08_run_without_sleep_returns_to_interrupted_sleep(world: World) -> None:
    """Check scenario 8: a run without a sleep call returns to the interrupted sleep."""
    agent = await world.agent()
    await (await world.start(agent)).sleeps(until=world.at(1000).isoformat())
    reminder = await world.remind(agent, 500)
    await world.go_to(500)
    run = world.puppets[agent.id]
    await run.clears(reminder)
    await run.end()

    assert (await world.agent_now(agent.id)).sleep_until == world.at(1000)
    await world.go_to(1000)
    assert (await world.wakes(agent))[-1] == (1000, "sleep_elapsed")


async def test_scenario_09_run_request_without_wakeup_ends_a_hold(world: World) -> None:
    """Check scenario 9: a run request without wakeup ends a hold if no sleep is ahead."""
    agent = await world.agent(debounce_window_seconds=60)
    message = await world.sms(agent)
    await world.go_to(10)

    reply = await world.ask(agent, RunRequest(wakeup=False))

    assert reply.status is RunAnswer.STARTED
    [run] = await world.ledger(agent)
    assert (run.wake_reason, run.notifications) == ("run_requested", (message.id,))
    assert (await world.see(agent)).debounce is None


async def test_scenario_10_run_request_without_wakeup_leaves_sleep_alone(world: World) -> None:
    """Check scenario 10: a run request without wakeup leaves a sleep and its hold alone."""
    agent = await world.agent(debounce_window_seconds=60)
    await (await world.start(agent)).sleeps(hours=1)
    await world.go_to(10)
    await world.sms(agent)

    assert (await world.ask(agent, RunRequest(wakeup=False))).status is RunAnswer.SLEEPING
    assert await world.phase(agent) is Phase.HOLDING
    await world.go_to(70)
    assert await world.wakes(agent) == [(0, "run_requested"), (70, "notification:sms")]


@pytest.mark.parametrize("whose", ["agent", "template"])
async def test_scenario_11_shorter_window_applies_to_pending_hold(world: World, whose: str) -> None:
    """Check scenario 11: a shorter window applies to the pending hold at once."""
    shared = await world.template(debounce_window_seconds=60)
    own = 60 if whose == "agent" else None
    agent = await world.agent(template_id=shared.id, debounce_window_seconds=own)
    await world.sms(agent)
    await world.go_to(20)

    if whose == "agent":
        await world.change(agent, debounce_window_seconds=5)
    else:
        await world.change_template(shared, debounce_window_seconds=5)

    assert await world.wakes(agent) == [(20, "notification:sms")]


async def test_scenario_12_reminder_passed_while_archived_wakes_at_restore(world: World) -> None:
    """Check scenario 12: a reminder that passed in the archive wakes at restore."""
    agent = await world.agent()
    await world.remind(agent, 60)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.ARCHIVED))
    await world.go_to(600)
    assert await world.wakes(agent) == []

    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))

    assert await world.wakes(agent) == [(600, "reminder")]


@pytest.mark.parametrize(("source", "wakes_at"), [(Source.EMAIL, 160), (Source.API, 100)])
async def test_scenario_13_notification_raised_to_high_counts_from_then(
    world: World, source: Source, wakes_at: float
) -> None:
    """Check scenario 13: a notification raised to high counts from then."""
    agent = await world.agent(debounce_window_seconds=60)
    notification = await world.notify(agent, source, priority=Priority.LOW)
    await world.go_to(100)
    await world.edit(notification, priority=Priority.HIGH)
    await world.go_to(300)

    assert await world.wakes(agent) == [(wakes_at, f"notification:{source}")]


async def test_scenario_14_api_notification_does_not_wait_for_conversation(world: World) -> None:
    """Check scenario 14: an api notification does not wait for a conversation."""
    agent = await world.agent(debounce_window_seconds=60)
    await world.notify(agent, Source.API)
    await world.go_to(1)
    await world.sms(agent)

    assert await world.phase(agent) is Phase.RUNNING
    assert await world.wakes(agent) == [(0, "notification:api")]


async def test_scenario_15_api_notification_ends_the_hold(world: World) -> None:
    """Check scenario 15: an api notification ends the hold for all."""
    agent = await world.agent(debounce_window_seconds=60)
    messages = [await world.sms(agent), await world.sms(agent)]
    await world.go_to(20)
    urgent = await world.notify(agent, Source.API)

    [run] = await world.ledger(agent)
    assert (run.started_at, run.wake_reason) == (world.at(20), "notification:api")
    assert set(run.notifications) == {*(message.id for message in messages), urgent.id}
    assert set(await world.puppets[agent.id].lists()) == {str(known) for known in run.notifications}


async def test_scenario_16_run_requested_while_stopping_follows(pool: Pool) -> None:
    """Check scenario 16: a run requested while stopping starts when the old run is gone."""
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await world.agent()
        world.puppets_are_stubborn = True
        old = await world.start(agent)
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))
        assert await world.phase(agent) is Phase.STOPPING

        await world.go_to(5)
        reply = await world.ask(agent, RunRequest())
        assert (reply.status, reply.run) == (RunAnswer.QUEUED, None)
        assert await world.phase(agent) is Phase.STOPPING
        await world.go_to(8)
        await old.end()

        assert await world.wakes(agent) == [(0, "run_requested"), (8, "run_requested")]
        assert await world.outcomes(agent) == [Outcome.ENDED, None]


async def test_scenario_17_run_request_at_run_end_is_already_running(world: World) -> None:
    """Check scenario 17: a run request at the end of a run starts another only if something is active."""
    agent = await world.agent()
    run = await world.start(agent)

    reply = await world.ask(agent, RunRequest())
    await run.end()
    await world.go_to(600)

    assert (reply.status, reply.run) == (RunAnswer.ALREADY_RUNNING, run.run.id)
    assert await world.wakes(agent) == [(0, "run_requested")]


async def fail_into_quarantine(world: World) -> Agent:
    """Create an agent whose last five runs failed at once, at 0, 1, 3, 7 and 15 s."""
    agent = await world.agent()
    await world.ask(agent, RunRequest())
    for second in (0, 1, 3, 7, 15):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    return agent


async def test_scenario_18_quarantined_agent_starts_once_a_minute(world: World) -> None:
    """Check scenario 18: an activation starts a quarantined agent once a minute at most."""
    agent = await fail_into_quarantine(world)
    assert await world.phase(agent) is Phase.QUARANTINED

    await world.go_to(20)
    await world.notify(agent)
    await world.go_to(74)
    assert len(await world.wakes(agent)) == 5
    await world.go_to(75)
    assert (await world.wakes(agent))[5:] == [(75, "notification:api")]

    await world.puppets[agent.id].fail()
    await world.go_to(80)
    await world.notify(agent)
    await world.go_to(200)
    assert (await world.wakes(agent))[6:] == [(135, "notification:api")]


async def asleep(world: World) -> Agent:
    agent = await world.agent()
    await (await world.start(agent)).sleeps(until=world.at(1000).isoformat())
    return agent


async def holding(world: World) -> Agent:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(20)
    await world.sms(agent)
    return agent


async def backing_off(world: World) -> Agent:
    agent = await world.agent()
    await world.notify(agent)
    for second in (0, 1, 3, 7):
        await world.go_to(second)
        await world.puppets[agent.id].end()
    return agent


@pytest.mark.parametrize("rest", [asleep, holding, backing_off, fail_into_quarantine])
async def test_scenario_19_restart_keeps_deadlines(
    world: World, rest: Callable[[World], Awaitable[Agent]]
) -> None:
    """Check scenario 19: a restart changes no deadline."""
    agent = await rest(world)
    before, known = await world.see(agent), await world.wakes(agent)
    assert before.next_wake is not None

    await world.advance(2)
    await world.restart()
    after = await world.see(agent)
    assert (after.phase, after.next_wake, after.failures) == (before.phase, before.next_wake, before.failures)

    deadline = (before.next_wake.at - world.began_at).total_seconds()
    await world.go_to(deadline - 0.001)
    assert await world.wakes(agent) == known
    await world.go_to(deadline)
    assert [second for second, _ in await world.wakes(agent)] == [*(second for second, _ in known), deadline]


async def test_scenario_19_overdue_deadline_starts_after_restart(world: World) -> None:
    """Check scenario 19: a deadline that passed while the service was down starts a run at once."""
    sleeper, held = await asleep(world), await holding(world)
    await world.die()
    world.clock.advance(3600)
    await world.begin()
    await world.advance(1)

    assert (await world.wakes(sleeper))[1][1] == "sleep_elapsed"
    assert (await world.wakes(held))[0][1] == "notification:sms"


async def test_scenario_19_restart_keeps_the_slot_queue(pool: Pool) -> None:
    """Check scenario 19: a restart keeps the queue for run slots."""
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        busy, first, second = [await world.agent() for _ in range(3)]
        await world.start(busy)
        for later, agent in enumerate((first, second), start=1):
            await world.go_to(later)
            assert (await world.ask(agent, RunRequest())).status is RunAnswer.QUEUED

        await world.restart()

        assert await world.phase(first) is Phase.RUNNING
        assert await world.phase(second) is Phase.QUEUED
        await world.puppets[first.id].end()
        assert await world.wakes(second) == [(2, "run_requested")]


async def test_scenario_20_crash_loop_ends_in_quarantine(world: World) -> None:
    """Check scenario 20: interrupted runs count as failures and end in quarantine."""
    agent = await world.agent()
    await world.start(agent)
    for deaths in range(1, 6):
        await world.advance(1)
        await world.restart()
        assert (await world.see(agent)).failures.consecutive == deaths
        if deaths < 5:
            await world.advance(2**deaths)  # the backoff plus up to a second of jitter

    assert await world.phase(agent) is Phase.QUARANTINED
    assert await world.outcomes(agent) == [Outcome.INTERRUPTED] * 5
    assert {reason for _, reason in (await world.wakes(agent))[1:]} == {"restart_recovery"}


async def test_scenario_21_stopping_agent_is_stopped_after_restart(pool: Pool) -> None:
    """Check scenario 21: an agent that was stopping is stopped after a restart."""
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await world.agent()
        world.puppets_are_stubborn = True
        await world.start(agent)
        await world.notify(agent)
        await world.go_to(1)
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))
        assert await world.phase(agent) is Phase.STOPPING

        await world.restart()
        await world.go_to(600)

        assert await world.phase(agent) is Phase.ASLEEP
        assert await world.outcomes(agent) == [Outcome.STOPPED]


async def test_scenario_22_agent_deleted_while_running_leaves_nothing(world: World) -> None:
    """Check scenario 22: an agent deleted in its run leaves nothing behind."""
    agent = await world.agent()
    await world.notify(agent)
    run = world.puppets[agent.id]

    await world.delete(agent)
    await run.gone()
    while await world.storage.retention.delete_leftovers(world.clock.now(), 1000):
        pass

    assert world.puppets == {}
    assert await world.registry.status.snapshot(agent.id) is None
    for table in ("agent_state", "notification", "run"):
        assert await world.pool.fetchval(f"SELECT count(*) FROM {table}") == 0  # noqa: S608 -- constants
    trace = await world.storage.traces.get(run.run.id)
    assert trace is not None
    assert (trace.error, trace.ended_at) == ("deleted", world.clock.now())


async def test_scenario_23_reminders_and_messages_are_one_run(world: World) -> None:
    """Check scenario 23: due reminders and messages at once are one run."""
    agent = await world.agent()
    for _ in range(10):
        await world.remind(agent, 60)
    await world.advance(59)
    world.clock.advance(1)
    for _ in range(5):
        await world.sms(agent)
    await world.go_to(300)

    [run] = await world.ledger(agent)
    assert run.started_at == world.at(60)
    assert len(await world.puppets[agent.id].lists()) == 15


async def test_scenario_24_clock_set_back_adds_a_window(world: World) -> None:
    """Check scenario 24: a hold waits one window more, not until the clock catches up."""
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.advance(20)
    world.clock.step(-3600)

    await world.advance(40 + 59.9)
    assert await world.phase(agent) is Phase.HOLDING
    await world.advance(0.1)
    assert await world.phase(agent) is Phase.RUNNING
