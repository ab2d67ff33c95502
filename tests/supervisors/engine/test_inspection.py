"""Snapshots and the numbers: what they show, and since when."""

from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest, Signal, StopRequest
from supervisors.maintenance.watches import AgentCounter
from supervisors.policy.phases import Phase
from tests.supervisors.engine.situations import (
    asleep_before_a_reminder,
    asleep_to_its_cap_before_any_run,
)
from tests.supervisors.world import World, open_world

QUARANTINE = """
UPDATE agent_state SET failures = 5, retry_at = $2, retry_reason = 'retry_after_failure' WHERE agent_id = $1
"""


WHY_DIGEST = "SELECT why_digest FROM agent_state WHERE agent_id = $1"
STOP_ELSEWHERE = """
UPDATE agent_state SET status = 'running', run_id = $2, run_started_at = $3, last_started_at = $3,
    phase = 'stopping', node_id = 7 WHERE agent_id = $1
"""


async def test_snapshot_of_a_running_agent_is_complete(world: World) -> None:
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
    assert [(entry.message, entry.outcome) for entry in seen.recent] == [
        ("notified", "started: notification:api")
    ]


async def test_snapshot_shows_the_last_32_messages(world: World) -> None:
    agent = await world.agent()
    for second in range(40):
        await world.go_to(second)
        world.registry.tell(agent.id, Signal.RELOAD)
        await world.wait_until_idle()

    recent = (await world.see(agent)).recent
    assert [entry.at for entry in recent] == [world.at(second) for second in range(8, 40)]


async def test_snapshot_without_a_supervisor_comes_from_the_database(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(600))

    seen = await world.see(agent)

    assert world.registry.status.numbers().supervisors.active == 0
    assert seen.next_wake is not None
    assert (seen.next_wake.at, seen.next_wake.because) == (world.at(600), "The sleep it was given ends.")
    assert (seen.recent, seen.mailbox.depth, seen.mailbox.limit) == ((), 0, 256)


async def test_overview_counts_quarantined_agents(world: World) -> None:
    stopped, deleted = await world.agent(), await world.agent()
    counting = AgentCounter(world.states, world.registry.statistics, world.clock)

    async def quarantined() -> int:
        return world.registry.status.numbers().supervisors.quarantined

    for agent in (stopped, deleted):
        await world.pool.execute(QUARANTINE, agent.id, world.at(900))
    await counting.run_once()
    assert await quarantined() == 2, "without a supervisor, from the last count"

    await world.ask(stopped, StopRequest())
    assert await quarantined() == 1, "before the next count"
    world.registry.tell(deleted.id, Signal.RELOAD)
    await world.wait_until_idle()
    assert await quarantined() == 1, "not counted twice, with a supervisor"
    await world.delete(deleted)
    assert await quarantined() == 0


async def test_overview_lists_quarantined_agents_with_their_errors(world: World) -> None:
    first, second = await world.agent(), await world.agent()
    counting = AgentCounter(world.states, world.registry.statistics, world.clock)
    for agent in (first, second):
        await world.pool.execute(QUARANTINE, agent.id, world.at(900))
        await world.pool.execute("UPDATE agent_state SET last_error = $1", "no\nmodel " * 100)
    await counting.run_once()

    listed = world.registry.status.numbers().quarantined
    assert [(each.agent, each.name, each.organization) for each in listed] == [
        (agent.id, agent.name, agent.organization_id) for agent in (first, second)
    ]
    assert {(each.failures, each.until) for each in listed} == {(5, world.at(900))}
    assert all(each.last_error.startswith("no model no model") for each in listed)
    assert all(len(each.last_error) == 201 for each in listed)

    await world.ask(first, StopRequest())
    assert [each.agent for each in world.registry.status.numbers().quarantined] == [second.id]


async def test_quarantines_are_counted_when_they_begin(world: World) -> None:
    agent = await world.agent()
    await world.pool.execute("UPDATE agent_state SET failures = 4")
    run = await world.start(agent)
    await run.fail("There is no model.")
    assert world.registry.statistics.quarantines == 1


async def test_overview_counts_everything(pool: Pool) -> None:
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
        await world.ask(archived, OwnedFieldsRequest(status=archived.status.ARCHIVED))
        await world.go_to(10)
        await AgentCounter(world.states, world.registry.statistics, world.clock).run_once()

        numbers = world.registry.status.numbers()

        assert numbers.supervisors.by_phase == {"running": 1, "queued": 1, "holding": 1, "archived": 1}
        assert (numbers.agents.running, numbers.agents.sleeping, numbers.agents.archived) == (1, 2, 1)
        assert (numbers.runs.running, numbers.runs.queued, numbers.runs.limit) == (1, 1, 1)
        assert (numbers.timers.pending, numbers.timers.next_due_at) == (1, world.at(60))
        assert numbers.oldest_uncleared_high_seconds == 10


async def test_pause_since_is_when_its_begin_was_seen(world: World) -> None:
    agent = await asleep_before_a_reminder(world)
    await world.go_to(100)
    await world.pause(agent.organization_id, True)
    await world.go_to(200)
    assert (await world.see(agent)).since == world.at(100)

    await world.pause(agent.organization_id, False)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.ASLEEP, world.at(200))


async def test_pause_since_is_unknown_if_begin_was_unseen(world: World) -> None:
    agent = await asleep_before_a_reminder(world)
    await world.pause(agent.organization_id, True)
    await world.restart()
    await world.notify(agent)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.PAUSED, None)


async def test_recent_messages_have_their_outcomes(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    message = await world.sms(agent)
    await world.go_to(60)
    run = world.puppets[agent.id]
    await run.clears(message)
    await run.sleeps(until=world.at(4000).isoformat())
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(3000)))
    await world.ask(agent, RunRequest(wakeup=False))

    seconds = [(entry.at - world.began_at).total_seconds() for entry in (await world.see(agent)).recent]
    assert seconds == sorted(seconds)
    assert [(entry.message, entry.outcome) for entry in (await world.see(agent)).recent] == [
        ("notified", "holding"),
        ("due", "started: notification:sms"),
        ("cleared", "running"),
        ("sleep request", "granted until 2126-11-21 10:06:40"),
        ("run over", "asleep"),
        ("write of sleep_until", "done"),
        ("run request without wakeup", "sleeping"),
    ]


async def test_clamped_schedule_is_not_explained_as_requested(world: World) -> None:
    agent = await asleep_to_its_cap_before_any_run(world)
    assert (await world.see(agent)).why == (
        "Asleep until 2126-11-21 10:00 UTC, the longest it may sleep; "
        "any high-priority notification wakes it earlier."
    )

    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(1800)))

    assert (await world.see(agent)).why.startswith("Asleep until 2126-11-21 09:30 UTC, as requested;")


async def test_due_agent_is_explained_while_no_run_may_start(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10))
    world.registry.allow_starts(False)
    await world.go_to(20)

    seen = await world.see(agent)

    assert seen.why == (
        "Due since 2126-11-21 09:00:10 UTC, but no run may start: the database does not confirm this node, "
        "it is shutting down, or no node starts runs. The sleep it was given ends."
    )


async def test_queued_agent_is_explained_while_no_run_may_start(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        first, second = await world.agent(), await world.agent()
        run = await world.start(first)
        await world.ask(second, RunRequest())
        world.registry.allow_starts(False)
        await run.end()

        assert (await world.see(second)).why == (
            "Waiting for a run slot since 2126-11-21 09:00 UTC; at present no run may start: "
            "the database does not confirm this node, it is shutting down, or no node starts runs."
        )


async def test_node_is_named_while_it_attends_and_in_why_if_there_are_several(world: World) -> None:
    agent = await world.agent()
    assert (await world.see(agent)).node is None
    await world.start(agent)
    seen = await world.see(agent)
    assert (seen.node, seen.why) == ("web/1", "Running since 2126-11-21 09:00 UTC, woken by a run request.")
    recorded = await world.pool.fetchval(WHY_DIGEST, agent.id)

    world.node.living_ids = (1, 2)
    assert (await world.see(agent)).why == (
        "Running since 2126-11-21 09:00 UTC on node web/1, woken by a run request."
    )
    world.registry.tell(agent.id, Signal.RELOAD)
    await world.wait_until_idle()
    assert await world.pool.fetchval(WHY_DIGEST, agent.id) == recorded
    [summary] = (await world.registry.status.summaries([agent.id])).values()
    assert summary.node == "web/1"


async def test_run_that_stops_in_another_node_is_shown_by_its_row(world: World) -> None:
    agent = await world.agent()
    await world.pool.execute(STOP_ELSEWHERE, agent.id, agent.id, world.at(0))
    seen = await world.see(agent)
    assert (seen.phase, seen.node, seen.mailbox.depth) == (Phase.STOPPING, "web/7", 0)
    assert seen.run is not None
    assert seen.run.turn == 0
