"""The registry: supervisors made on demand, supervised, bounded, and open to inspection."""

import asyncio

import asyncpg
import pytest

from storage.errors import DatabaseUnavailable, LeadershipLost, StorageError
from storage.model import Outcome, Source, StateUpdate
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFields, RunAnswer, RunRequest, Signal, StopRequest
from supervisors.engine.snapshot import Spread
from supervisors.errors import MailboxFull
from supervisors.maintenance.agent_counter import AgentCounter
from supervisors.maintenance.loop_lag import LoopLagProbe
from supervisors.maintenance.stuck_agent_watch import StuckAgentWatch
from supervisors.policy.phases import Phase
from tests.storage.factories import new_notification
from tests.supervisors.world import World, open_world

QUARANTINE = """
UPDATE agent_state SET failures = 5, retry_at = $2, retry_reason = 'retry_after_failure' WHERE agent_id = $1
"""


async def test_a_thousand_messages_during_a_hold_are_one_run(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(30)
    await asyncio.gather(
        *(
            world.storage.notifications.insert(
                new_notification(agent.id, source=Source.SMS, created_at=world.clock.now()),
                {agent.organization_id},
            )
            for _ in range(1000)
        )
    )
    await world.quiet()
    await world.go_to(1000)

    [run] = await world.ledger(agent)
    assert (run.started_at, len(run.notifications)) == (world.at(90), 1001)


async def test_constant_conversation_wakes_at_the_cap(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    for second in range(0, 400, 50):
        await world.go_to(second)
        await world.sms(agent)

    assert await world.wakes(agent) == [(300, "notification:sms")]


async def test_each_message_resets_the_window_and_writes_nothing(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    before = await world.state(agent)
    await world.go_to(50)
    await world.sms(agent)

    debounce = (await world.see(agent)).debounce
    assert debounce is not None
    assert (debounce.first_at, debounce.last_at, debounce.due_at) == (
        world.at(0),
        world.at(50),
        world.at(110),
    )
    assert (await world.state(agent)).next_due_at == before.next_due_at == world.at(60)


async def test_a_slow_database_does_not_stretch_a_hold(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    world.states.during_next_look = lambda: world.clock.advance(5)
    await world.sms(agent)
    await world.go_to(90)

    assert await world.wakes(agent) == [(60, "notification:sms")]


async def test_a_reminder_behind_a_long_hold_is_in_time(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=3600)
    await world.remind(agent, 301)
    await world.sms(agent)
    await world.go_to(400)

    assert await world.wakes(agent) == [(301, "reminder")]


async def test_questions_are_bounded_and_looks_are_not(pool: Pool) -> None:
    async with open_world(pool, supervisors={"mailbox_limit": 2}) as world:
        agent = await world.agent()
        for _ in range(1000):
            world.registry.tell(agent.id, Signal.NOTIFIED)

        replies = await asyncio.gather(
            *(world.registry.ask(agent.id, RunRequest()) for _ in range(5)), return_exceptions=True
        )
        await world.quiet()

        answered = [reply.status for reply in replies if not isinstance(reply, BaseException)]
        assert answered == [RunAnswer.STARTED, RunAnswer.ALREADY_RUNNING]
        assert [type(reply) for reply in replies[2:]] == [MailboxFull] * 3
        assert len(await world.ledger(agent)) == 1


async def test_a_supervisor_that_fails_is_tried_again_and_counted(world: World) -> None:
    agent, other = await world.agent(), await world.agent()
    world.states.faults_of_looks.append(RuntimeError("a defect"))
    await world.notify(agent)

    seen = await world.see(agent)
    assert (seen.failures.consecutive, seen.failures.last_error) == (1, "RuntimeError in the supervisor")
    assert world.registry.status.overview().supervisors.restarts == 1
    await world.notify(other)
    assert await world.phase(other) is Phase.RUNNING

    await world.go_to(1)
    assert await world.phase(agent) is Phase.RUNNING


async def test_a_supervisor_that_always_fails_backs_off_and_ends_in_quarantine(world: World) -> None:
    agent = await world.agent()
    world.registry.tell(agent.id, Signal.RELOAD)
    for failures, second in enumerate((0, 1, 3, 7, 15), start=1):
        world.states.faults_of_looks.append(RuntimeError("a defect"))
        await world.go_to(second)
        await world.quiet()
        assert (await world.see(agent)).failures.consecutive == failures

    seen = await world.see(agent)
    assert (seen.phase, seen.failures.retry_at) == (Phase.QUARANTINED, world.at(15 + 900))
    assert "5 failures in a row, the last one: RuntimeError in the supervisor." in seen.why
    assert [told.title for told in await world.queue(agent)] == [
        "Quarantined after too many failures in a row"
    ]
    assert await world.wakes(agent) == []
    await world.restart()
    assert (await world.see(agent)).next_wake == seen.next_wake


async def test_a_supervisor_that_failed_is_not_troubled_before_its_backoff_is_over(world: World) -> None:
    agent = await world.agent()
    world.states.faults_of_looks.append(RuntimeError("a defect"))
    await world.notify(agent)
    await world.go_to(0.9)
    for _ in range(3):
        await world.scan.run_once()
        await world.quiet()
    assert await world.wakes(agent) == []
    await world.go_to(1)

    assert [second for second, _ in await world.wakes(agent)] == [1]


async def test_what_comes_while_a_failed_supervisor_rests_is_looked_at_within_a_minute(world: World) -> None:
    agent = await world.agent()
    world.registry.tell(agent.id, Signal.RELOAD)
    for second in (0, 1, 3, 7, 15):
        world.states.faults_of_looks.append(RuntimeError("a defect"))
        await world.go_to(second)
        await world.quiet()
    await world.remind(agent, 20)
    await world.notify(agent)
    await world.go_to(30)
    assert await world.wakes(agent) == []

    await world.go_to(31)
    [run] = await world.ledger(agent)
    assert (run.started_at, len(run.notifications)) == (world.at(31), 2)


async def test_an_agent_whose_state_no_rule_can_read_backs_off_like_any_other(world: World) -> None:
    agent, other = await world.agent(), await world.agent()
    await world.pool.execute("UPDATE agent_state SET sleep_until = 'infinity' WHERE agent_id = $1", agent.id)
    await world.notify(agent)
    await world.go_to(100)
    failures = (await world.state(agent)).failures
    await world.go_to(200)

    assert failures >= 5
    assert (await world.state(agent)).failures <= failures + 2  # once a minute at most
    await world.notify(other)
    assert await world.phase(other) is Phase.RUNNING


async def test_a_defect_in_an_answer_reaches_the_one_who_asked(world: World) -> None:
    agent = await world.agent()
    world.states.faults_of_looks.append(RuntimeError("a defect"))

    with pytest.raises(RuntimeError, match="a defect"):
        await world.ask(agent, RunRequest())

    assert (await world.ask(agent, RunRequest())).status is RunAnswer.STARTED


@pytest.mark.parametrize("fault", [DatabaseUnavailable("away"), LeadershipLost("another instance leads")])
async def test_a_database_out_of_reach_is_nobodys_failure(world: World, fault: StorageError) -> None:
    agent = await world.agent()
    world.states.faults_of_looks += [fault] * 3
    await world.notify(agent)
    await world.go_to(2)
    assert await world.wakes(agent) == []
    await world.go_to(3)

    assert await world.wakes(agent) == [(3, "notification:api")]
    assert (await world.see(agent)).failures.consecutive == 0


async def test_an_end_that_could_not_be_stored_is_stored_soon_even_if_the_clock_is_set_back(
    world: World,
) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    world.states.faults_of_looks.append(DatabaseUnavailable("away"))
    await run.end()
    assert await world.outcomes(agent) == [None]

    world.clock.step(-3600)
    await world.advance(1)

    assert await world.outcomes(agent) == [Outcome.ENDED]


async def test_a_start_that_was_given_up_is_not_made_later(world: World) -> None:
    agent = await world.agent()
    given_up: list[StateUpdate] = []

    async def give_up(update: StateUpdate) -> None:
        given_up.append(update)
        raise DatabaseUnavailable("no answer in time")

    world.states.before_next_move = give_up
    with pytest.raises(DatabaseUnavailable):
        await world.ask(agent, RunRequest())
    await world.advance(1)

    assert not await world.states.update(given_up[0]), "a server that was slow gets to it after all"
    assert await world.phase(agent) is Phase.ASLEEP
    assert (await world.ask(agent, RunRequest())).status is RunAnswer.STARTED


async def test_a_supervisor_at_rest_is_dropped_and_its_agent_still_wakes(world: World) -> None:
    sleeper, held, runner = (
        await world.agent(),
        await world.agent(debounce_window_seconds=600),
        (await world.agent()),
    )
    await world.remind(sleeper, 100)
    await world.sms(held)
    await world.start(runner)
    await world.go_to(59)
    assert world.registry.drop_idle() == 0
    await world.go_to(61)
    assert world.registry.drop_idle() == 1
    assert world.registry.status.overview().supervisors.active == 2

    await world.go_to(100)
    assert await world.wakes(sleeper) == [(100, "reminder")]


async def test_the_supervisor_of_a_deleted_agent_is_dropped_at_once(world: World) -> None:
    idle, runner = await world.agent(), await world.agent()
    await world.notify(idle)
    await world.puppets[idle.id].end()
    run = await world.start(runner)
    assert world.registry.status.overview().supervisors.by_phase == {"backing_off": 1, "running": 1}

    await world.delete(idle)
    assert world.registry.status.overview().supervisors.by_phase == {"running": 1}
    await world.delete(runner)
    await run.gone()

    overview = world.registry.status.overview()
    assert (overview.supervisors.by_phase, overview.runs.running) == ({}, 0)


async def test_a_row_that_another_program_writes_wakes_the_agent_at_the_next_scan(
    world: World, database_url: str
) -> None:
    agent = await world.agent()
    psql = await asyncpg.connect(database_url)
    await psql.execute(
        "INSERT INTO notification (agent_id, title, priority) VALUES ($1, 'Psst', 'high')", agent.id
    )
    await psql.close()

    await world.scan.run_once()
    await world.quiet()

    assert await world.phase(agent) is Phase.RUNNING


async def test_a_lost_signal_is_repaired_by_the_scan(world: World) -> None:
    agents = [await world.agent() for _ in range(3)]
    new = [new_notification(agent.id, created_at=world.clock.now()) for agent in agents]
    world.registry.tell_all = lambda *_: None  # type: ignore[method-assign]  # the signal is lost
    for notification, agent in zip(new, agents, strict=True):
        await world.storage.notifications.insert(notification, {agent.organization_id})
    del world.registry.tell_all
    await world.quiet()
    assert world.puppets == {}

    await world.scan.run_once()
    await world.quiet()

    assert set(world.puppets) == {agent.id for agent in agents}


async def test_a_paused_organization_starts_nothing_until_the_pause_ends(world: World) -> None:
    paused, other = await world.agent(), await world.agent(await world.organization())
    await world.pause(paused.organization_id, True)
    for agent in (paused, other):
        await world.remind(agent, 60)
    await world.go_to(100)
    assert (await world.ask(paused, RunRequest())).status is RunAnswer.PAUSED
    assert await world.phase(paused) is Phase.PAUSED
    assert await world.wakes(other) == [(60, "reminder")]

    await world.pause(paused.organization_id, False)
    assert await world.wakes(paused) == [(100, "reminder")]


async def test_a_snapshot_tells_the_whole_story(world: World) -> None:
    agent = await world.agent(max_sleep_hours=8)
    message = await world.notify(agent)
    await world.go_to(5)

    seen = await world.see(agent)

    assert (seen.agent, seen.name, seen.organization) == (agent.id, "Scout", agent.organization_id)
    assert (seen.phase, seen.status, seen.since) == (Phase.RUNNING, "running", world.at(0))
    assert seen.why == ("Running since 2126-11-21 09:00 UTC, woken by a high-priority notification from api.")
    assert seen.run is not None
    assert (seen.run.id, seen.run.trace) == (world.puppets[agent.id].run.id,) * 2
    assert (seen.run.started_at, seen.run.max_sleep_until) == (world.at(0), world.at(8 * 3600))
    assert (seen.next_wake, seen.debounce, seen.blockers) == (None, None, (message.id,))
    assert [(line.message, line.outcome) for line in seen.recent] == [
        ("notified", "started: notification:api")
    ]


async def test_the_last_32_messages_are_remembered(world: World) -> None:
    agent = await world.agent()
    for second in range(40):
        await world.go_to(second)
        world.registry.tell(agent.id, Signal.RELOAD)
        await world.quiet()

    recent = (await world.see(agent)).recent
    assert [line.at for line in recent] == [world.at(second) for second in range(8, 40)]


async def test_an_agent_without_a_supervisor_is_shown_from_the_database(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(600))

    seen = await world.see(agent)

    assert world.registry.status.overview().supervisors.active == 0
    assert seen.next_wake is not None
    assert (seen.next_wake.at, seen.next_wake.because) == (world.at(600), "The sleep it was given ends.")
    assert (seen.recent, seen.mailbox.depth, seen.mailbox.limit) == ((), 0, 256)


async def test_snapshots_are_of_one_phase_or_organization(world: World) -> None:
    ours, theirs = await world.organization(), await world.organization()
    agents = [await world.agent(ours), await world.agent(ours), await world.agent(theirs)]
    await world.start(agents[1])

    async def shown(phase: Phase | None, organization: bool, limit: int = 10) -> list[int]:
        found = await world.registry.status.snapshots(phase, ours if organization else None, limit)
        return [[agent.id for agent in agents].index(snapshot.agent) for snapshot in found]

    assert await shown(None, False) == [0, 1, 2]
    assert await shown(None, True) == [0, 1]
    assert await shown(Phase.ASLEEP, False) == [0, 2]
    assert await shown(Phase.RUNNING, True) == [1]
    assert await shown(None, False, limit=1) == [0]


async def test_an_agent_that_nothing_starts_is_a_reason_for_the_operator_after_a_minute(
    world: World,
) -> None:
    agent = await world.agent()
    world.registry.allow_starts(False)  # for the rules it is due, and nobody starts it
    await world.notify(agent)
    stuck_agents = StuckAgentWatch(world.states, world.clock)
    await stuck_agents.run_once()
    await world.go_to(59)
    await stuck_agents.run_once()
    assert stuck_agents.reasons() == ()
    await world.go_to(61)
    await stuck_agents.run_once()
    [reason] = stuck_agents.reasons()
    assert str(agent.id) in reason

    world.registry.allow_starts(True)
    await world.scan.run_once()
    await world.quiet()
    await stuck_agents.run_once()
    assert stuck_agents.reasons() == ()


async def test_the_lateness_of_the_loop_is_shown(world: World) -> None:
    measuring = asyncio.create_task(LoopLagProbe(world.registry.statistics, world.clock).run_once())
    await asyncio.sleep(0)
    world.clock.advance(0.085)
    await measuring

    assert world.registry.status.overview().loop_lag_ms == Spread(35.0, 35.0, 35.0)


async def test_counts_go_on_with_what_happens_until_they_are_taken_again(world: World) -> None:
    agent, _ = [await world.agent() for _ in range(2)]
    await AgentCounter(world.states, world.registry.statistics, world.clock).run_once()
    await world.start(agent)

    agents = world.registry.status.overview().agents

    assert (agents.running, agents.sleeping) == (1, 1)


async def test_an_agent_is_counted_as_quarantined_for_as_long_as_it_is(world: World) -> None:
    stopped, deleted = await world.agent(), await world.agent()
    counting = AgentCounter(world.states, world.registry.statistics, world.clock)

    async def quarantined() -> int:
        return world.registry.status.overview().supervisors.quarantined

    for agent in (stopped, deleted):
        await world.pool.execute(QUARANTINE, agent.id, world.at(900))
    await counting.run_once()
    assert await quarantined() == 2, "without a supervisor, by the last count"

    await world.ask(stopped, StopRequest())
    assert await quarantined() == 1, "without waiting for the next count"
    world.registry.tell(deleted.id, Signal.RELOAD)
    await world.quiet()
    assert await quarantined() == 1, "not twice, with a supervisor"
    await world.delete(deleted)
    assert await quarantined() == 0


async def test_the_overview_counts_everything(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        running, queued, held, archived = (
            await world.agent(),
            await world.agent(),
            await world.agent(debounce_window_seconds=60),
            await world.agent(),
        )
        await world.start(running)
        await world.ask(queued, RunRequest())
        await world.sms(held)
        await world.ask(archived, OwnedFields(status=archived.status.ARCHIVED))
        await world.go_to(10)
        await AgentCounter(world.states, world.registry.statistics, world.clock).run_once()

        overview = world.registry.status.overview()

        assert overview.supervisors.by_phase == {"running": 1, "queued": 1, "holding": 1, "archived": 1}
        assert (overview.agents.running, overview.agents.sleeping, overview.agents.archived) == (1, 2, 1)
        assert (overview.runs.running, overview.runs.queued, overview.runs.limit) == (1, 1, 1)
        assert (overview.timers.pending, overview.timers.next_due_at) == (1, world.at(60))
        assert overview.oldest_uncleared_high_seconds == 10
