"""Snapshots and the numbers: what they show, and since when."""

import asyncio
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from storage.model import AgentStatus
from storage.postgres.pool import Pool
from supervisors.engine.inspection import (
    CODES,
    LITERAL,
    MAX_BYTES,
    MAX_MESSAGES,
    MAX_TEXT_BYTES,
    append_message,
    read_messages,
)
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest, Signal, SleepGranted, StopRequest
from supervisors.engine.snapshot import SnapshotFilters, Spread
from supervisors.maintenance.watches import AgentCounter, LoopLagProbe
from supervisors.policy.phases import Phase
from tests.storage.factories import NOW, SECOND
from tests.supervisors.agent_facts import seconds
from tests.supervisors.engine.situations import (
    asleep_before_a_reminder,
    asleep_to_its_cap_before_any_run,
    holding_a_message_from_a_run,
)
from tests.supervisors.world import World, open_world

QUARANTINE = """
UPDATE agent_state SET failures = 5, retry_at = $2, retry_reason = 'retry_after_failure' WHERE agent_id = $1
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


async def test_snapshots_are_filtered_by_phase_and_organization(world: World) -> None:
    ours, theirs = await world.organization(), await world.organization()
    agents = [await world.agent(ours), await world.agent(ours), await world.agent(theirs)]
    await world.start(agents[1])

    async def list_indexes(phase: Phase | None, organization: bool, limit: int = 10) -> list[int]:
        filters = SnapshotFilters(phase, organization_id=ours if organization else None)
        snapshots = await world.registry.status.snapshots(filters, limit)
        return [[agent.id for agent in agents].index(snapshot.agent) for snapshot in snapshots]

    assert await list_indexes(None, False) == [0, 1, 2]
    assert await list_indexes(None, True) == [0, 1]
    assert await list_indexes(Phase.ASLEEP, False) == [0, 2]
    assert await list_indexes(Phase.RUNNING, True) == [1]
    assert await list_indexes(None, False, limit=1) == [0]


async def test_overview_shows_the_loop_lag(world: World) -> None:
    measuring = asyncio.create_task(LoopLagProbe(world.registry.statistics, world.clock).run_once())
    await asyncio.sleep(0)
    world.clock.advance(0.085)
    await measuring

    assert world.registry.status.numbers().loop_lag_ms == Spread(35.0, 35.0, 35.0)


async def test_overview_corrects_the_last_counts(world: World) -> None:
    agent, _ = [await world.agent() for _ in range(2)]
    await AgentCounter(world.states, world.registry.statistics, world.clock).run_once()
    await world.start(agent)

    agents = world.registry.status.numbers().agents

    assert (agents.running, agents.sleeping) == (1, 1)


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
    assert world.registry.status.numbers().quarantines == 1


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


async def test_hold_since_is_the_end_of_the_run(world: World) -> None:
    agent = await holding_a_message_from_a_run(world)
    await world.go_to(20)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.HOLDING, world.at(15))
    assert seen.why.startswith("Holding since 2126-11-21 09:00:15 UTC ")


async def test_hold_since_is_the_end_of_the_pause(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.pause(agent.organization_id, True)
    await world.sms(agent)
    await world.go_to(30)
    await world.pause(agent.organization_id, False)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.HOLDING, world.at(30))
    assert seen.why.startswith("Holding since 2126-11-21 09:00 UTC "), "as if there had been no pause"


async def test_stopping_since_is_the_begin_of_the_pause(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    await world.start(agent)
    await world.go_to(3)
    await world.pause(agent.organization_id, True)
    await world.go_to(4)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.STOPPING, world.at(3))


async def test_asleep_since_is_the_restore(world: World) -> None:
    agent = await world.agent()
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.ARCHIVED))
    await world.restart()
    await world.go_to(100)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))
    await world.go_to(200)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.ASLEEP, world.at(100))


async def test_asleep_since_is_when_leftovers_were_cleared(world: World) -> None:
    agent = await world.agent()
    message = await world.notify(agent)
    await world.puppets[agent.id].end()
    await world.go_to(0.5)
    await world.clear(message)

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.ASLEEP, world.at(0.5))


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
        "Due since 2126-11-21 09:00:10 UTC, but no run may start: the service is regaining its lead, or is "
        "shutting down. The sleep it was given ends."
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
            "the service is regaining its lead, or is shutting down."
        )


Line = tuple[datetime, str, str]
known = st.sampled_from(sorted(CODES))
arbitrary = st.text()
lines = st.tuples(st.datetimes(timezones=st.just(UTC)), known | arbitrary, known | arbitrary)


def write_log(*messages: Line) -> bytes:
    log = b""
    for at, message, outcome in messages:
        log = append_message(log, at, message, outcome)
    return log


def test_every_word_has_a_one_byte_code() -> None:
    assert len(CODES) <= LITERAL


@given(st.lists(lines, max_size=50))
def test_log_keeps_the_latest_messages_within_its_size(messages: list[Line]) -> None:
    log = write_log(*messages)
    entries = list(read_messages(log))

    assert len(log) <= MAX_BYTES
    assert len(entries) <= MAX_MESSAGES
    assert bool(entries) == bool(messages)
    for message, entry in zip(messages[::-1], entries[::-1], strict=False):
        assert entry[0] == message[0]
        assert message[1].startswith(entry[1])
        assert message[2].startswith(entry[2])


def test_log_keeps_thirty_two_usual_messages_whole() -> None:
    granted = str(SleepGranted(NOW, clamped=False))
    cycle = [("notified", "started: notification:sms"), ("sleep request", granted), ("run over", "asleep")]
    messages = [(NOW + n * SECOND, *cycle[n % 3]) for n in range(40)]

    assert list(read_messages(write_log(*messages))) == messages[-32:]


def test_long_text_is_cut_and_displaces_older_entries() -> None:
    long = "stop request: " + "ü" * 1000
    entries = list(read_messages(write_log(*((NOW + seconds(n), long, "stopped") for n in range(32)))))

    assert {message for _, message, _ in entries} == {long.encode()[:MAX_TEXT_BYTES].decode()}
    assert entries[-1][0] == NOW + seconds(31)
    assert 5 < len(entries) < 32
