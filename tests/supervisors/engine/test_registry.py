"""The registry: supervisors made on demand, retried after a crash, bounded, and dropped when idle."""

import asyncio
from uuid import UUID

import asyncpg
import pytest

from storage.agent_facts import StateUpdate
from storage.errors import DatabaseUnavailable, NodeEnded, StorageError
from storage.model import Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RestoreRequest, RunAnswer, RunRequest, Signal
from supervisors.engine.registry import PAGE_SIZE, tell_agents_of, tell_agents_of_template, tell_pages
from supervisors.errors import MailboxFull
from supervisors.policy.phases import Phase
from tests.storage.factories import new_notification
from tests.supervisors.world import World, open_world


async def test_requests_are_bounded_and_signals_are_not(pool: Pool) -> None:
    async with open_world(pool, supervisors={"mailbox_limit": 2}) as world:
        agent = await world.agent()
        for _ in range(1000):
            world.registry.tell(agent.id, Signal.NOTIFIED)

        replies = await asyncio.gather(
            *(world.registry.ask(agent.id, RunRequest()) for _ in range(5)), return_exceptions=True
        )
        await world.wait_until_idle()

        answered = [reply.status for reply in replies if not isinstance(reply, BaseException)]
        assert answered == [RunAnswer.STARTED, RunAnswer.ALREADY_RUNNING]
        assert [type(reply) for reply in replies[2:]] == [MailboxFull] * 3
        assert len(await world.ledger(agent)) == 1


async def test_signals_are_handled_together_and_before_requests(world: World) -> None:
    agent = await world.agent()
    requests = (OwnedFieldsRequest(sleep_until=None), RestoreRequest())
    replies = asyncio.gather(*(world.registry.ask(agent.id, request) for request in requests))
    for signal in (Signal.DUE, Signal.NOTIFIED, Signal.DUE):
        world.registry.tell(agent.id, signal)
    await replies

    recent = [(entry.message, entry.outcome) for entry in (await world.see(agent)).recent]
    assert recent == [
        ("due, notified", "asleep"),
        ("write of sleep_until", "done"),
        ("restore request", "done"),
    ]


async def test_request_of_a_cancelled_asker_is_carried_out(world: World) -> None:
    agent = await world.agent()
    asking = asyncio.ensure_future(world.registry.ask(agent.id, RunRequest()))
    await asyncio.sleep(0)
    asking.cancel()
    await world.wait_until_idle()

    assert await world.phase(agent) is Phase.RUNNING
    assert world.registry.status.numbers().supervisors.restarts == 0


async def test_crashed_supervisor_is_retried_and_counted(world: World) -> None:
    agent, other = await world.agent(), await world.agent()
    world.states.read_errors.append(RuntimeError("a defect"))
    await world.notify(agent)

    seen = await world.see(agent)
    assert (seen.failures.consecutive, seen.failures.last_error) == (1, "RuntimeError in the supervisor")
    assert world.registry.status.numbers().supervisors.restarts == 1
    await world.notify(other)
    assert await world.phase(other) is Phase.RUNNING

    await world.go_to(1)
    assert await world.phase(agent) is Phase.RUNNING


async def test_supervisor_that_keeps_crashing_ends_in_quarantine(world: World) -> None:
    agent = await world.agent()
    world.registry.tell(agent.id, Signal.RELOAD)
    for failures, second in enumerate((0, 1, 3, 7, 15), start=1):
        world.states.read_errors.append(RuntimeError("a defect"))
        await world.go_to(second)
        await world.wait_until_idle()
        assert (await world.see(agent)).failures.consecutive == failures

    seen = await world.see(agent)
    assert (seen.phase, seen.failures.retry_at) == (Phase.QUARANTINED, world.at(15 + 900))
    assert "5 failures in a row, the last one: RuntimeError in the supervisor." in seen.why
    assert [notification.title for notification in await world.queue(agent)] == [
        "Quarantined after too many failures in a row"
    ]
    assert await world.wakes(agent) == []
    await world.restart()
    assert (await world.see(agent)).next_wake == seen.next_wake


async def test_crashed_supervisor_waits_for_its_backoff(world: World) -> None:
    agent = await world.agent()
    world.states.read_errors.append(RuntimeError("a defect"))
    await world.notify(agent)
    await world.go_to(0.9)
    for _ in range(3):
        await world.scan.run_once()
        await world.wait_until_idle()
    assert await world.wakes(agent) == []
    await world.go_to(1)

    assert [second for second, _ in await world.wakes(agent)] == [1]


async def test_free_slot_passes_by_an_agent_whose_supervisor_has_crashed(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        run, crashed, other = await world.start(await world.agent()), await world.agent(), await world.agent()
        world.states.read_errors.append(RuntimeError("a defect"))
        await world.notify(crashed)
        for agent in (crashed, other):
            await world.ask(agent, RunRequest())
        await run.end()
        assert await world.phase(other) is Phase.RUNNING
        await world.go_to(2)
        await world.puppets[other.id].end()
        assert await world.phase(crashed) is Phase.RUNNING


async def test_notification_during_crash_backoff_wakes_within_a_minute(world: World) -> None:
    agent = await world.agent()
    world.registry.tell(agent.id, Signal.RELOAD)
    for second in (0, 1, 3, 7, 15):
        world.states.read_errors.append(RuntimeError("a defect"))
        await world.go_to(second)
        await world.wait_until_idle()
    await world.remind(agent, 20)
    await world.notify(agent)
    await world.go_to(30)
    assert await world.wakes(agent) == []

    await world.go_to(31)
    [run] = await world.ledger(agent)
    assert (run.started_at, len(run.notifications)) == (world.at(31), 2)


async def test_unreadable_state_backs_off(world: World) -> None:
    agent, other = await world.agent(), await world.agent()
    await world.remind(agent, 1)
    # A time that Python cannot represent; the service itself never stores one.
    await world.pool.execute("UPDATE notification SET activated_at = '-infinity'")
    await world.go_to(100)
    failures = (await world.state(agent)).failures
    await world.go_to(200)

    assert failures >= 5
    assert (await world.state(agent)).failures <= failures + 2  # once a minute at most
    await world.notify(other)
    assert await world.phase(other) is Phase.RUNNING


async def test_crash_in_a_handler_reaches_the_asker(world: World) -> None:
    agent = await world.agent()
    world.states.read_errors.append(RuntimeError("a defect"))

    with pytest.raises(RuntimeError, match="a defect"):
        await world.ask(agent, RunRequest())

    assert (await world.ask(agent, RunRequest())).status is RunAnswer.STARTED


@pytest.mark.parametrize("fault", [DatabaseUnavailable("away"), NodeEnded("condemned")])
async def test_database_outage_is_no_failure_of_the_agent(world: World, fault: StorageError) -> None:
    agent = await world.agent()
    world.states.read_errors += [fault] * 3
    await world.notify(agent)
    await world.go_to(2)
    assert await world.wakes(agent) == []
    await world.go_to(3)

    assert await world.wakes(agent) == [(3, "notification:api")]
    assert (await world.see(agent)).failures.consecutive == 0


async def test_unstored_end_is_stored_soon_despite_clock_step(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    world.states.read_errors.append(DatabaseUnavailable("away"))
    await run.end()
    assert await world.outcomes(agent) == [None]

    world.clock.step(-3600)
    await world.advance(1)

    assert await world.outcomes(agent) == [Outcome.ENDED]


async def test_abandoned_start_is_not_committed_later(world: World) -> None:
    agent = await world.agent()
    given_up: list[StateUpdate] = []

    async def give_up(update: StateUpdate) -> None:
        given_up.append(update)
        raise DatabaseUnavailable("no answer in time")

    world.states.before_next_update = give_up
    with pytest.raises(DatabaseUnavailable):
        await world.ask(agent, RunRequest())
    await world.advance(1)

    assert not await world.states.update(given_up[0]), "a slow server executes it after all"
    assert await world.phase(agent) is Phase.ASLEEP
    assert (await world.ask(agent, RunRequest())).status is RunAnswer.STARTED


async def test_idle_supervisor_is_dropped_and_its_agent_still_wakes(world: World) -> None:
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
    assert world.registry.status.numbers().supervisors.active == 2

    await world.go_to(100)
    assert await world.wakes(sleeper) == [(100, "reminder")]


async def test_supervisor_of_a_deleted_agent_is_dropped_at_once(world: World) -> None:
    idle, runner = await world.agent(), await world.agent()
    await world.notify(idle)
    await world.puppets[idle.id].end()
    run = await world.start(runner)
    assert world.registry.status.numbers().supervisors.by_phase == {"backing_off": 1, "running": 1}

    await world.delete(idle)
    assert world.registry.status.numbers().supervisors.by_phase == {"running": 1}
    await world.delete(runner)
    await run.gone()

    numbers = world.registry.status.numbers()
    assert (numbers.supervisors.by_phase, numbers.runs.running) == ({}, 0)


async def test_scan_finds_a_notification_of_another_program(world: World, database_url: str) -> None:
    agent = await world.agent()
    psql = await asyncpg.connect(database_url)
    await psql.execute(
        "INSERT INTO notification (agent_id, title, priority) VALUES ($1, 'Psst', 'high')", agent.id
    )
    await psql.close()

    await world.scan.run_once()
    await world.wait_until_idle()

    assert await world.phase(agent) is Phase.RUNNING


async def test_scan_repairs_lost_signals(world: World) -> None:
    """Check I2."""
    agents = [await world.agent() for _ in range(3)]
    new = [new_notification(agent.id, created_at=world.clock.now()) for agent in agents]
    world.registry.tell_all = lambda *_: None  # type: ignore[method-assign]  # lose the signal
    for notification, agent in zip(new, agents, strict=True):
        await world.storage.notifications.insert(notification, {agent.organization_id})
    del world.registry.tell_all
    await world.wait_until_idle()
    assert world.puppets == {}

    await world.scan.run_once()
    await world.wait_until_idle()

    assert set(world.puppets) == {agent.id for agent in agents}


class RecordingTeller:
    """Records the agents and organizations that were told to reload."""

    def __init__(self) -> None:
        self.agent_ids: list[UUID] = []
        self.organization_ids: list[UUID] = []

    def tell(self, agent_id: UUID, signal: Signal) -> None:
        assert signal is Signal.RELOAD
        self.agent_ids.append(agent_id)

    def tell_organization(self, organization_id: UUID, signal: Signal) -> None:
        assert signal is Signal.RELOAD
        self.organization_ids.append(organization_id)


async def test_all_pages_are_told_once() -> None:
    ids, pages, teller = [UUID(int=n) for n in range(2 * PAGE_SIZE + 1)], 0, RecordingTeller()

    async def fetch(last: UUID | None, limit: int) -> list[UUID]:
        nonlocal pages
        pages += 1
        start = 0 if last is None else ids.index(last) + 1
        return ids[start : start + limit]

    await tell_pages(fetch, teller)

    assert (teller.agent_ids, pages) == (ids, 3)


async def test_organization_broadcast_reaches_held_agents_and_live_supervisors(world: World) -> None:
    held, asleep = await world.agent(debounce_window_seconds=60), await world.agent()
    await world.sms(held)
    assert await world.phase(held) is Phase.HOLDING
    teller = RecordingTeller()

    await tell_agents_of(held.organization_id, world.states, teller)

    assert held.id in teller.agent_ids
    assert asleep.id not in teller.agent_ids
    assert teller.organization_ids == [held.organization_id]


async def test_template_broadcast_reaches_only_its_agents(world: World) -> None:
    template = await world.template(debounce_window_seconds=60)
    ours, other = await world.agent(template_id=template.id), await world.agent(debounce_window_seconds=60)
    await world.sms(ours)
    await world.sms(other)
    teller = RecordingTeller()

    await tell_agents_of_template(template.id, world.states, teller)

    assert teller.agent_ids == [ours.id]
