"""The supervisor: slots, failures, lost answers of the database, and the end of the service."""

import asyncio
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from storage.agent_facts import StateUpdate
from storage.errors import DatabaseUnavailable
from storage.model import Agent, AgentStatus, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunAnswer, RunRequest
from supervisors.errors import NoStarts
from supervisors.policy.phases import Phase
from tests.supervisors.world import World, open_world


async def test_organizations_take_turns_at_one_slot(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        busy, calm = await world.organization(), await world.organization()
        agents = {name: await world.agent(busy, name=name) for name in ("busy 1", "busy 2", "busy 3")}
        agents |= {name: await world.agent(calm, name=name) for name in ("calm 1", "calm 2")}
        for second, agent in enumerate(agents.values()):
            await world.go_to(second)
            await world.notify(agent)

        order = []
        while world.puppets:
            [(agent_id, run)] = world.puppets.items()
            order.append((await world.agent_now(agent_id)).name)
            await world.advance(1)
            await run.call("clear_notification", notification_id=(await run.lists())[0])
            await run.sleeps()

        assert order == ["busy 1", "busy 2", "calm 1", "busy 3", "calm 2"]


async def test_start_without_a_free_slot_is_queued(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        await world.go_to(5)
        reply = await world.ask(agent, RunRequest())

        assert (reply.status, reply.run) == (RunAnswer.QUEUED, None)
        seen, state = await world.see(agent), await world.state(agent)
        assert (seen.phase, seen.since, seen.next_wake) == (Phase.QUEUED, world.at(5), None)
        assert (state.queued_at, state.next_due_at) == (world.at(5), None)
        assert world.registry.status.numbers().runs.queued == 1

        await world.go_to(9)
        await run.end()
        assert await world.wakes(agent) == [(9, "run_requested")]


async def test_organization_at_its_run_limit_queues_truthfully(pool: Pool) -> None:
    async with open_world(pool, max_runs_per_organization=1) as world:
        capped, calm = await world.organization(), await world.organization()
        run, waiting = await world.start(await world.agent(capped)), await world.agent(capped)
        await world.go_to(5)
        assert (await world.ask(waiting, RunRequest())).status is RunAnswer.QUEUED
        assert (await world.see(waiting)).why.endswith(
            "; its organization has as many concurrent runs as it may have: 1."
        )
        assert (await world.ask(await world.agent(calm), RunRequest())).status is RunAnswer.STARTED
        assert (world.registry.count_runs(capped), world.registry.count_runs(calm)) == (1, 1)

        await world.go_to(9)
        await run.end()
        assert await world.wakes(waiting) == [(9, "run_requested")]


async def test_run_limit_of_organization_outlives_a_restart(pool: Pool) -> None:
    async with open_world(pool, max_runs_per_organization=2) as world:
        organization_id = await world.organization()
        agents = [await world.agent(organization_id) for _ in range(5)]
        for agent in agents:
            await world.notify(agent)
        await world.restart()
        started = set()
        for _ in range(len(agents)):
            await world.advance(5)
            assert world.registry.count_runs(organization_id) == len(world.puppets) <= 2
            for agent_id, run in list(world.puppets.items()):
                started.add(agent_id)
                await run.call("clear_notification", notification_id=(await run.lists())[0])
                await run.sleeps()
        assert started == {agent.id for agent in agents}


async def test_queued_agent_leaves_when_its_message_is_cleared(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        message = await world.notify(agent)
        assert await world.phase(agent) is Phase.QUEUED

        await world.clear(message)
        assert await world.phase(agent) is Phase.ASLEEP
        await run.end()
        assert await world.wakes(agent) == []
        assert (await world.ask(await world.agent(), RunRequest())).status is RunAnswer.STARTED


async def test_runs_never_exceed_the_slots(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 3}) as world:
        agents = [await world.agent() for _ in range(20)]
        await asyncio.gather(*(world.registry.ask(agent.id, RunRequest()) for agent in agents))
        await world.wait_until_idle()
        most = 0
        while world.puppets:
            most = max(most, len(world.puppets))
            for run in list(world.puppets.values()):
                await run.end()

        assert most == 3
        assert [len(await world.ledger(agent)) for agent in agents] == [1] * 20


async def test_only_one_of_two_processes_starts_an_agent(pool: Pool) -> None:
    """Check I1."""
    async with open_world(pool) as one, open_world(pool) as other:
        agent = await one.agent()

        replies = await asyncio.gather(
            *(process.registry.ask(agent.id, RunRequest()) for process in (one, other))
        )

        assert sorted(reply.status for reply in replies) == ["already_running", "started"]
        assert len({reply.run for reply in replies}) == 1
        assert len(await one.ledger(agent)) == 1


async def test_lost_claim_releases_the_slot(pool: Pool) -> None:
    async with open_world(pool) as one, open_world(pool, runs={"max_concurrent": 1}) as other:
        agent = await one.agent()

        async def one_is_faster(_: StateUpdate) -> None:
            await one.ask(agent, RunRequest())

        other.states.before_next_update = one_is_faster
        reply = await other.ask(agent, RunRequest())

        assert (reply.status, reply.run) == (RunAnswer.ALREADY_RUNNING, one.puppets[agent.id].run.id)
        assert (await other.ask(await other.agent(), RunRequest())).status is RunAnswer.STARTED


async def test_uncleared_notification_is_retried_until_quarantine(world: World) -> None:
    agent = await world.agent()
    await world.notify(agent)
    for _ in range(7):
        await world.puppets[agent.id].end()
        next_wake = (await world.see(agent)).next_wake
        assert next_wake is not None
        await world.go_to((next_wake.at - world.began_at).total_seconds())

    seconds = [second for second, _ in await world.wakes(agent)]
    assert [later - earlier for earlier, later in pairwise(seconds)] == [
        *(1, 2, 4, 8),
        *(900, 1800, 3600),
    ]
    assert {reason for _, reason in (await world.wakes(agent))[1:]} == {"uncleared_notifications"}


async def test_progress_resets_the_backoff(world: World) -> None:
    agent = await world.agent()
    await world.pause(agent.organization_id, True)
    messages = [await world.notify(agent) for _ in range(2)]
    await world.pause(agent.organization_id, False)
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].end()
    await world.go_to(7)
    run = world.puppets[agent.id]
    await run.clears(messages[0])
    await run.end()

    await world.go_to(8)
    assert [second for second, _ in await world.wakes(agent)] == [0, 1, 3, 7, 8]


async def test_backoff_ends_when_leftovers_are_cleared(world: World) -> None:
    agent = await world.agent()
    message = await world.notify(agent)
    await world.puppets[agent.id].end()
    await world.clear(message)

    assert await world.phase(agent) is Phase.ASLEEP
    await world.go_to(600)
    assert len(await world.wakes(agent)) == 1


async def test_run_that_loses_the_database_fails_for_that_reason(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)

    with capture_logs() as logged:
        await run.fail(DatabaseUnavailable("connection refused by 10.0.0.7:5432"))

    [entry] = await world.ledger(agent)
    assert (entry.outcome, entry.error) == (
        Outcome.FAILED,
        "the database was unavailable",
    )
    assert [line for line in logged if line["log_level"] == "error"] == []


async def test_failed_run_is_retried_with_nothing_active(world: World) -> None:
    agent = await world.agent()
    await (await world.start(agent)).fail("The model is away.")

    seen = await world.see(agent)
    assert seen.phase is Phase.BACKING_OFF
    assert (seen.failures.consecutive, seen.failures.last_error) == (1, "The model is away.")
    assert seen.why.endswith("after a failure: The model is away.")
    await world.go_to(1)
    await world.puppets[agent.id].sleeps()

    assert await world.wakes(agent) == [(0, "run_requested"), (1, "retry_after_failure")]
    assert await world.outcomes(agent) == [Outcome.FAILED, Outcome.SLEPT]
    assert (await world.see(agent)).failures.consecutive == 0


async def test_new_message_starts_an_agent_that_backs_off(world: World) -> None:
    agent = await world.agent()
    await (await world.start(agent)).fail()
    await world.go_to(0.5)
    await world.notify(agent)

    assert (await world.wakes(agent))[1:] == [(0.5, "notification:api")]


async def test_run_request_ends_backoff_and_quarantine(world: World) -> None:
    agent = await world.agent()
    for _ in range(6):
        reply = await world.ask(agent, RunRequest(wakeup=False))
        assert reply.status is RunAnswer.STARTED
        await world.puppets[agent.id].fail()

    seen = await world.see(agent)
    assert (seen.phase, seen.failures.consecutive) == (Phase.QUARANTINED, 6)
    assert seen.failures.retry_at == world.at(1800)


async def test_elapsed_sleep_does_not_wake_again(world: World) -> None:
    agent = await world.agent()
    await (await world.start(agent)).sleeps(until=world.at(20).isoformat())
    await world.ask(agent, RunRequest())
    for second in (0, 1, 3, 7, 15):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    assert (await world.ask(agent, RunRequest(wakeup=False))).status is RunAnswer.SLEEPING

    await world.go_to(30)
    assert await world.phase(agent) is Phase.QUARANTINED
    assert (await world.ask(agent, RunRequest(wakeup=False))).status is RunAnswer.STARTED


async def test_run_over_its_time_limit_times_out(pool: Pool) -> None:
    async with open_world(pool, runs={"max_seconds": 0.1}) as world:
        agent = await world.agent()
        await (await world.start(agent)).gone()

        [run] = await world.ledger(agent)
        assert (run.outcome, run.error) == (Outcome.TIMED_OUT, "timed out after 0.1 s")
        assert (await world.see(agent)).failures.consecutive == 1


async def test_start_that_failed_in_the_database_is_retried(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        agent = await world.agent()

        async def is_away(_: StateUpdate) -> None:
            raise DatabaseUnavailable("away")

        world.states.before_next_update = is_away
        await world.notify(agent)
        assert world.puppets == {}
        await world.go_to(1)

        assert await world.wakes(agent) == [(1, "notification:api")]
        assert (await world.see(agent)).failures.consecutive == 0


async def test_start_that_cannot_be_prepared_takes_no_slot(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        broken, other = await world.agent(), await world.agent()
        # A time that Python cannot represent; the service itself never stores one.
        await pool.execute("UPDATE agent_state SET sleep_until = 'infinity' WHERE agent_id = $1", broken.id)
        with pytest.raises(TypeError):
            await world.registry.ask(broken.id, RunRequest())

        assert world.registry.status.numbers().runs.running == 0
        assert (await world.ask(other, RunRequest())).status is RunAnswer.STARTED


async def test_run_request_with_lost_answer_is_recovered(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        agent = await world.agent()
        world.states.lost_update_answer = DatabaseUnavailable("away")
        with pytest.raises(DatabaseUnavailable):
            await world.ask(agent, RunRequest())
        assert (await world.agent_now(agent.id)).status is AgentStatus.RUNNING
        assert world.puppets == {}

        await world.go_to(5)  # without a message to the agent

        assert await world.outcomes(agent) == [Outcome.INTERRUPTED, None]
        assert (await world.wakes(agent))[1][1] == "restart_recovery"
        assert set(world.puppets) == {agent.id}


async def test_start_with_lost_answer_is_recovered(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        agent = await world.agent()
        world.states.lost_update_answer = DatabaseUnavailable("away")
        await world.notify(agent)
        await world.go_to(5)

        assert await world.outcomes(agent) == [Outcome.INTERRUPTED, None]
        assert (await world.wakes(agent))[1][1] == "restart_recovery"
        error = (await world.ledger(agent))[0].error
        assert error == "interrupted: the service ended, or never learned of the run"
        assert world.registry.status.numbers().runs.running == 1


async def test_sleep_with_lost_answer_was_granted(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    world.states.lost_update_answer = DatabaseUnavailable("away")
    with pytest.raises(DatabaseUnavailable):
        await run.call("sleep", hours=1)
    await run.fail("The database is away.")

    assert await world.outcomes(agent) == [Outcome.SLEPT]
    assert (await world.agent_now(agent.id)).sleep_until == world.at(3600)


async def test_run_end_is_stored_when_the_database_is_back(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    world.states.read_errors.append(DatabaseUnavailable("away"))
    await run.fail("The model is away.")
    assert await world.outcomes(agent) == [None]
    await world.go_to(1)

    assert await world.outcomes(agent) == [Outcome.FAILED]
    assert await world.phase(agent) is Phase.BACKING_OFF


async def interrupted_once(world: World, agent: Agent) -> None:
    """Assert that the run was interrupted without a failure, and starts again with the service."""
    assert await world.outcomes(agent) == [Outcome.INTERRUPTED]
    await world.begin()
    assert (await world.see(agent)).failures.consecutive == 0
    assert [reason for _, reason in await world.wakes(agent)] == ["run_requested", "restart_recovery"]


async def test_drain_lets_runs_reach_a_turn_boundary(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)

    drain = asyncio.create_task(world.registry.drain(10))
    await asyncio.sleep(0)
    assert run.run.is_draining
    with pytest.raises(NoStarts):
        await world.registry.ask((await world.agent()).id, RunRequest())
    await run.reach_a_turn_boundary()
    await drain
    await world.end()

    await interrupted_once(world, agent)


async def test_drain_interrupts_runs_that_do_not_end_in_time(world: World) -> None:
    agent = await world.agent()
    await world.start(agent)

    await world.registry.drain(0)
    await world.end()

    await interrupted_once(world, agent)


async def test_abandon_ends_runs_and_stores_nothing(world: World) -> None:
    agent = await world.agent()
    run = (await world.start(agent)).run
    world.states.is_cut_off = True

    world.registry.abandon()
    async with asyncio.timeout(20):
        await world.registry.drain(60)
        await world.end()

    assert run.settled.is_set()
    assert world.puppets == {}
    assert await world.outcomes(agent) == [None]


async def test_no_run_starts_while_another_instance_may_lead(world: World) -> None:
    held, due = await world.agent(debounce_window_seconds=60), await world.agent()
    await world.sms(held)
    world.registry.allow_starts(False)
    await world.notify(due)
    await world.go_to(100)
    with pytest.raises(NoStarts):
        await world.ask(due, RunRequest())
    assert world.puppets == {}

    world.registry.allow_starts(True)
    await world.scan.recover()
    await world.wait_until_idle()

    assert await world.wakes(held) == [(100, "notification:sms")]
    assert await world.wakes(due) == [(100, "notification:api")]
