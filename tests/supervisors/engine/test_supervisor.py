"""The supervisor: slots, failures, lost answers of the database, and the end of the service."""

import asyncio
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from storage.agent_facts import StateUpdate
from storage.errors import DatabaseUnavailable
from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunAnswer, RunRequest, Signal, StopReply, StopRequest
from supervisors.errors import NoStarts
from supervisors.policy.phases import Phase
from tests.nodes import LoneNode
from tests.storage.factories import new_notification
from tests.supervisors.world import World, open_world


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


async def test_confirmed_node_looks_only_at_starts_that_have_a_slot(pool: Pool) -> None:
    """Thousands that wait for one would keep the node so busy that its next beat is late, too."""
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        run, queued = await world.start(await world.agent()), [await world.agent() for _ in range(3)]
        for agent in queued:
            await world.ask(agent, RunRequest())
        seen = [(await world.see(agent)).recent for agent in queued]
        world.node.is_confirmed = False
        await run.end()
        assert {await world.phase(agent) for agent in queued} == {Phase.QUEUED}

        world.node.is_confirmed = True
        await world.scan.recover()
        await world.wait_until_idle()

        assert await world.phase(queued[0]) is Phase.RUNNING
        assert [(await world.see(agent)).recent for agent in queued[1:]] == seen[1:]


async def test_notification_during_stop_of_queued_agent_is_kept(pool: Pool) -> None:
    """Check I2: the agent still waits for a slot while it is read, just before the notification."""
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        await world.ask(agent, RunRequest())

        async def receive() -> None:
            new = new_notification(agent.id, created_at=world.clock.now())
            await world.storage.notifications.insert(new, {agent.organization_id})

        async def receive_after_next_read() -> None:
            world.states.after_next_read = receive

        world.states.after_next_update = receive_after_next_read
        assert await world.ask(agent, StopRequest()) is StopReply.STOPPED
        await run.end()

        assert await world.wakes(agent) == [(0, "notification:api")]


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


async def test_agent_that_queued_first_in_another_node_starts_first(pool: Pool) -> None:
    async with (
        open_world(pool, max_runs_per_organization=1) as one,
        open_world(pool, max_runs_per_organization=1, node_id=2) as other,
    ):
        for world in (one, other):
            world.node.living_ids = (1, 2)
        other.clock.step((one.clock.now() - other.clock.now()).total_seconds())
        rung: list[UUID] = []
        one.ring = lambda _, __, agent_id: rung.append(agent_id)
        run, first, second = await one.start(await one.agent()), await one.agent(), await one.agent()
        assert (await other.ask(first, RunRequest())).status is RunAnswer.QUEUED
        await one.go_to(5)
        assert (await one.ask(second, RunRequest())).status is RunAnswer.QUEUED

        await one.go_to(9)
        await run.end()
        await one.go_to(11)  # it tries twice a second, and the end may be stored after the first time
        assert set(one.puppets) == {first.id}  # the slot is here
        assert first.id in rung

        await one.puppets[first.id].end()
        await one.go_to(13)
        assert set(one.puppets) == {second.id}


async def test_lone_node_counts_the_runs_of_one_that_just_joined(pool: Pool) -> None:
    async with (
        open_world(pool, max_runs_per_organization=1) as one,
        open_world(pool, max_runs_per_organization=1, node_id=2) as other,
    ):
        other.node.living_ids = (1, 2)
        organization_id = await one.organization()
        await other.start(await one.agent(organization_id))

        assert (await one.ask(await one.agent(organization_id), RunRequest())).status is RunAnswer.QUEUED


async def test_free_slots_are_given_to_all_that_queued_first_in_another_node(pool: Pool) -> None:
    async with (
        open_world(pool, max_runs_per_organization=20, runs={"max_concurrent": 1}) as one,
        open_world(pool, max_runs_per_organization=20, runs={"max_concurrent": 10}, node_id=2) as other,
    ):
        for world in (one, other):
            world.node.living_ids = (1, 2)
            world.ring = lambda *_: None
        organization_id = await one.organization()
        other.clock.step((one.clock.now() - other.clock.now()).total_seconds())
        await one.start(await one.agent(organization_id))
        for world, agents in ((one, 20), (other, 10)):
            for _ in range(agents):
                await world.ask(await one.agent(organization_id), RunRequest())

        await other.advance(2)  # it tries twice a second
        assert len(other.puppets) == 10


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


async def test_abandon_ends_runs_and_stores_nothing(world: World) -> None:
    agent = await world.agent()
    run = (await world.start(agent)).run
    world.states.is_cut_off = True

    world.registry.abandon()
    await world.registry.drain(60)
    await world.end()

    assert run.settled.is_set()
    assert world.puppets == {}
    assert await world.outcomes(agent) == [None]


async def test_interrupted_run_of_a_leaving_node_goes_on_elsewhere_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[tuple[int, Signal, UUID]] = []
    monkeypatch.setattr(world.registry._context, "ring", lambda *ring: rung.append(ring))
    run = await world.start(await world.agent())
    agent_id = run.run.agent_id
    world.node.starts_runs = False  # it leaves
    monkeypatch.setattr(world.node, "responsible_for", lambda _: 2)
    run.run.drain()
    await run.reach_a_turn_boundary()
    await world.wait_until_idle()

    assert rung == [(2, Signal.RELOAD, agent_id)]
    assert world.registry.status.numbers().runs.running == 0


async def test_leaving_node_is_not_kept_busy_by_one_that_does_not_know_it_yet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[int] = []

    def ring_and_be_rung(node_id: int, signal: Signal, agent_id: UUID) -> None:
        rung.append(node_id)
        if len(rung) < 5:
            world.registry.hear(signal, [agent_id])

    monkeypatch.setattr(world.registry._context, "ring", ring_and_be_rung)
    agent = await world.agent()
    run = await world.start(agent)
    world.node.starts_runs = False  # it leaves
    monkeypatch.setattr(world.node, "responsible_for", lambda _: 2)
    await run.end(Outcome.FAILED)
    assert rung == [2]

    await world.notify(agent)
    assert rung == [2, 2]


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


async def test_overdue_agent_of_leaving_node_is_told_to_another(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[tuple[object, ...]] = []
    monkeypatch.setattr("tests.supervisors.world.ring_nobody", lambda *ring: rung.append(ring))
    async with open_world(pool) as world:
        agent = await world.agent()
        run = await world.start(agent)
        await run.call("sleep", until=world.at(5).isoformat())
        await world.go_to(6)
        monkeypatch.setattr(LoneNode, "starts_runs", False)
        monkeypatch.setattr(LoneNode, "responsible_for", lambda *_: 7)

        await run.end(Outcome.SLEPT)

        assert len(await world.ledger(agent)) == 1
        assert rung == [(7, Signal.RELOAD, agent.id)]


async def test_leaving_node_lets_go_of_an_agent_whose_last_run_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.registry._context, "ring", lambda *_: None)
    agent = await world.agent()
    run = await world.start(agent)
    run.run.may_linger = True
    await run.call("sleep", until=world.at(60).isoformat())
    assert (await world.state(agent)).lingers
    world.node.starts_runs = False  # it leaves
    monkeypatch.setattr(world.node, "responsible_for", lambda _: 2)

    await run.end(Outcome.SLEPT)

    state = await world.state(agent)
    assert (state.node_id, state.lingers) == (None, False)


async def test_leaving_node_ends_a_run_of_its_own_that_it_has_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.registry._context, "ring", lambda *_: None)
    agent = await world.agent()
    world.states.lost_update_answer = DatabaseUnavailable("no answer")
    with pytest.raises(DatabaseUnavailable):
        await world.ask(agent, RunRequest())
    world.node.starts_runs = False  # it leaves
    monkeypatch.setattr(world.node, "responsible_for", lambda _: 2)

    await world.go_to(2)

    assert await world.outcomes(agent) == [Outcome.INTERRUPTED]
