"""Caps on spending: what ends a run, what puts one off, and when all goes on."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from storage.model import Agent, AgentStatus, Notification, Outcome, Source
from storage.postgres.pool import Pool
from supervisors.engine.broadcast import tell_agents_of
from supervisors.engine.messages import OwnedFields, RunAnswer, RunReply, RunRequest, StopReply, StopRequest
from supervisors.engine.run import ActiveRun, RunBudgetReached
from supervisors.harness.budget_guard import BudgetGuard
from supervisors.llm.port import ModelRequest, ModelResponse, ToolRequest
from supervisors.maintenance.budget_renewal import BudgetRenewal
from supervisors.maintenance.stuck_agent_watch import StuckAgentWatch
from supervisors.policy.phases import Phase
from tests.supervisors.world import World, open_world

FIVE = Decimal(5)
EVENING = (14 * 60 + 55) * 60  # of the test's timeline: five minutes to midnight
MIDNIGHT = 15 * 60 * 60
HELD = (
    "Over its budget: 5.00 of 5.00 USD spent today; "
    "it starts no run before 2126-11-22 00:00 UTC, unless the cap is raised."
)


class Spender:
    """A model that goes on for ever; each answer costs two dollars, or does something else first."""

    def __init__(self) -> None:
        self.world: World
        self.agent: Agent
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def complete(self, request: ModelRequest) -> ModelResponse:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        await self.world.spend(self.agent, "2.00")
        return ModelResponse("", (ToolRequest("call_1", "list_notifications", "{}"),))


async def spent(world: World, **fields: Any) -> Agent:
    """An agent that has spent its five dollars."""
    agent = await world.agent(max_cost_usd_per_day=FIVE, **fields)
    await world.spend(agent, "5.00")
    return agent


async def until_midnight(world: World) -> None:
    """The day goes by; only its last minutes are lived through."""
    if world.clock.now() < world.at(EVENING):
        world.clock.step((world.at(EVENING) - world.clock.now()).total_seconds())
    await world.advance((world.at(MIDNIGHT) - world.clock.now()).total_seconds())


async def notes(world: World, agent: Agent) -> list[Notification]:
    return [one for one in await world.queue(agent) if one.title == "Over budget"]


async def test_a_run_ends_before_the_call_for_which_nothing_is_left(pool: Pool) -> None:
    model = Spender()
    async with open_world(pool, model=model) as world:
        agent = await world.agent(max_cost_usd_per_day=FIVE)
        model.world, model.agent = world, agent
        await world.notify(agent)

        [run] = await world.ledger(agent)
        assert (run.outcome, run.turns) == (Outcome.BUDGET, 3)
        assert run.error == "reached its budget: 6.00 of 5.00 USD a day"
        assert (await world.see(agent)).failures.consecutive == 0
        await until_midnight(world)

        assert [second for second, _ in await world.wakes(agent)] == [0, MIDNIGHT]
        assert await world.outcomes(agent) == [Outcome.BUDGET, Outcome.BUDGET]
        assert len(await notes(world, agent)) == 2


async def test_the_budget_of_the_organization_ends_runs_of_all_its_agents(pool: Pool) -> None:
    model = Spender()
    async with open_world(pool, model=model) as world:
        agent, other = await world.agent(), await world.agent()
        model.world, model.agent = world, agent
        await world.change_organization(agent.organization_id, max_cost_usd_per_day=FIVE)

        await world.ask(other, RunRequest())

        [run] = await world.ledger(other)
        assert (run.outcome, run.turns) == (Outcome.BUDGET, 3)
        assert run.error == "reached its organization's budget: 6.00 of 5.00 USD a day"
        assert await world.ask(agent, RunRequest()) == RunReply(RunAnswer.OVER_BUDGET)
        assert (await world.see(agent)).why.startswith(
            "Over its organization's budget: 6.00 of 5.00 USD spent"
        )


async def test_a_cap_that_is_set_during_a_run_counts_from_its_next_model_call(pool: Pool) -> None:
    model = Spender()
    async with open_world(pool, model=model) as world:
        agent = await world.agent()
        model.world, model.agent = world, agent

        async def cap_it() -> None:
            await world.storage.organizations.update(agent.organization_id, {"max_cost_usd_per_day": 1})
            await tell_agents_of(agent.organization_id, world.states, world.registry)
            await world.registry.quiet()

        model.meanwhile = cap_it

        await world.ask(agent, RunRequest())

        assert [(run.outcome, run.turns) for run in await world.ledger(agent)] == [(Outcome.BUDGET, 1)]


async def test_a_run_that_nothing_caps_looks_nothing_up(world: World) -> None:
    class NoSpending:
        async def budgets(self, *_: object) -> tuple[()]:
            raise AssertionError("it was looked up")

    run: ActiveRun = (await world.start(await world.agent())).run

    await BudgetGuard(NoSpending(), world.clock).check(run)


async def test_what_is_spent_meanwhile_by_others_counts_too(world: World) -> None:
    agent = await world.agent(max_cost_usd_per_day=FIVE)
    run, budget_guard = (await world.start(agent)).run, BudgetGuard(world.storage.spending, world.clock)

    await world.spend(agent, "4.999999")
    await budget_guard.check(run)
    await world.spend(agent, "0.000001")

    with pytest.raises(RunBudgetReached, match=r"reached its budget: 5\.00 of 5\.00 USD a day"):
        await budget_guard.check(run)


async def test_an_agent_over_its_budget_starts_at_midnight_with_what_is_active_then(world: World) -> None:
    agent = await spent(world)
    await world.notify(agent)
    await world.go_to(60)
    await world.notify(agent, Source.PORTAL)
    assert await world.phase(agent) is Phase.ASLEEP
    assert (await world.see(agent)).why == HELD

    await until_midnight(world)

    assert await world.wakes(agent) == [(MIDNIGHT, "notification:portal")]


async def test_a_run_request_is_refused_and_not_remembered(world: World) -> None:
    agent = await spent(world)

    assert await world.ask(agent, RunRequest()) == RunReply(RunAnswer.OVER_BUDGET)
    await world.ask(agent, OwnedFields(status=AgentStatus.RUNNING))
    assert (await world.see(agent)).next_wake is None
    await until_midnight(world)

    assert await world.wakes(agent) == []
    assert (await world.ask(agent, RunRequest())).status is RunAnswer.STARTED


async def test_a_run_request_while_the_last_run_stops_is_refused_too(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent(max_cost_usd_per_day=FIVE)
    run = await world.start(agent)
    await world.spend(agent, "5")
    await world.ask(agent, StopRequest(), answered_within=1)

    assert await world.ask(agent, RunRequest()) == RunReply(RunAnswer.OVER_BUDGET)
    await run.end()

    assert len(await world.wakes(agent)) == 1


async def test_a_start_that_waits_for_a_slot_gives_up_its_place(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        busy, last = await world.agent(), await world.agent()
        queued = await world.agent(max_cost_usd_per_day=FIVE)
        run = await world.start(busy)
        await world.ask(queued, RunRequest())
        await world.ask(last, RunRequest())
        await world.spend(queued, "5")

        await run.end()

        assert await world.phase(queued) is Phase.ASLEEP
        assert await world.phase(last) is Phase.RUNNING
        assert world.registry.status.overview().runs.queued == 0


async def raise_its_own(world: World, agent: Agent, cap: Decimal | None) -> None:
    await world.change(agent, max_cost_usd_per_day=cap)


async def raise_its_organizations(world: World, agent: Agent, cap: Decimal | None) -> None:
    await world.change_organization(agent.organization_id, max_cost_usd_per_day=cap)


@pytest.mark.parametrize("cap", [Decimal("5.01"), None], ids=["higher", "none"])
@pytest.mark.parametrize("raise_it", [raise_its_own, raise_its_organizations])
@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_higher_cap_wakes_what_it_held(
    world: World,
    raise_it: Callable[[World, Agent, Decimal | None], Awaitable[None]],
    cap: Decimal | None,
    is_alive: bool,
) -> None:
    agent = await world.agent()
    await raise_it(world, agent, FIVE)
    await world.spend(agent, "5")
    await world.ask(agent, OwnedFields(sleep_until=world.at(10)))
    await world.go_to(100)
    if not is_alive:
        world.registry._supervisors.clear()
    assert await world.wakes(agent) == []

    await raise_it(world, agent, cap)

    assert await world.wakes(agent) == [(100, "sleep_elapsed")]


async def test_a_higher_cap_of_its_template_wakes_what_it_held(world: World) -> None:
    shared = await world.template(max_cost_usd_per_day=FIVE)
    agent, own = [await world.agent(template_id=shared.id, max_cost_usd_per_day=cap) for cap in (None, FIVE)]
    for one in (agent, own):
        await world.spend(one, "5")
        await world.remind(one, 10)
    await world.go_to(100)

    await world.change_template(shared, max_cost_usd_per_day=Decimal(6))

    assert await world.wakes(agent) == [(100, "reminder")]
    assert await world.wakes(own) == [], "its own cap counts, and not its template's"


async def test_a_lower_cap_puts_off_what_lies_ahead(world: World) -> None:
    agent = await world.agent(max_cost_usd_per_day=Decimal(6))
    await world.spend(agent, "5")
    await world.remind(agent, 10)

    await world.change(agent, max_cost_usd_per_day=FIVE)
    seen = await world.see(agent)
    await until_midnight(world)

    assert seen.next_wake is not None
    assert seen.next_wake.because == "Its budget is renewed. A reminder falls due."
    assert await world.wakes(agent) == [(MIDNIGHT, "reminder")]


async def test_a_hold_that_the_budget_interrupts_goes_on_when_the_cap_is_raised(world: World) -> None:
    agent = await spent(world, debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(20)

    await world.change(agent, max_cost_usd_per_day=None)

    assert await world.phase(agent) is Phase.HOLDING
    await world.go_to(100)
    assert await world.wakes(agent) == [(60, "notification:sms")]


async def test_what_waits_for_midnight_survives_a_restart(world: World) -> None:
    agent = await spent(world)
    await world.remind(agent, 10)
    await world.restart()
    await world.go_to(20)
    assert await world.wakes(agent) == []

    await until_midnight(world)

    assert await world.wakes(agent) == [(MIDNIGHT, "reminder")]


async def test_a_run_that_died_over_its_budget_is_made_up_for_at_midnight(world: World) -> None:
    agent = await world.agent(max_cost_usd_per_day=FIVE)
    await world.start(agent)
    await world.spend(agent, "5")
    await world.restart()
    assert await world.outcomes(agent) == [Outcome.INTERRUPTED]

    await until_midnight(world)

    assert await world.wakes(agent) == [(0, "run_requested"), (MIDNIGHT, "restart_recovery")]


@pytest.mark.parametrize("cap", [FIVE, Decimal(0)])
async def test_a_cap_that_nobody_tells_of_is_found_all_the_same(world: World, cap: Decimal) -> None:
    asleep, reminded, active = await spent(world), await spent(world), await spent(world)
    for agent in (asleep, reminded, active):
        await world.change(agent, max_cost_usd_per_day=cap)
    await world.ask(asleep, OwnedFields(sleep_until=world.at(50)))
    await world.remind(reminded, 50)
    await world.notify(active)
    for agent in (asleep, reminded, active):
        await world.storage.agents.update(agent.id, {"max_cost_usd_per_day": None})

    await BudgetRenewal(world.states, world.registry, world.clock).run_once()
    await world.quiet()
    await world.go_to(60)

    assert await world.wakes(asleep) == [(50, "sleep_elapsed")]
    assert await world.wakes(reminded) == [(50, "reminder")]
    assert await world.wakes(active) == [(0, "notification:api")]


async def test_who_waits_for_a_budget_that_is_spent_is_left_alone(world: World) -> None:
    agent = await spent(world)
    await world.ask(agent, OwnedFields(sleep_until=world.at(50)))
    before = (await world.see(agent)).recent

    await BudgetRenewal(world.states, world.registry, world.clock).run_once()
    await world.quiet()

    assert (await world.see(agent)).recent == before


async def test_a_stop_ends_what_waits_for_midnight(world: World) -> None:
    idle, waiting = await spent(world), await spent(world)
    await world.notify(waiting)
    await world.go_to(1)

    assert await world.ask(idle, StopRequest()) is StopReply.NOT_RUNNING
    assert await world.ask(waiting, StopRequest()) is StopReply.STOPPED
    assert (await world.see(waiting)).why == (
        f"Stopped at 2126-11-21 09:00:01 UTC: what waited then starts nothing. {HELD}"
    )
    await until_midnight(world)

    assert await world.wakes(waiting) == []


async def test_a_restored_agent_and_one_whose_pause_ends_wait_for_midnight_as_well(world: World) -> None:
    archived, paused = await spent(world), await spent(world)
    await world.ask(archived, OwnedFields(status=AgentStatus.ARCHIVED))
    await world.pause(paused.organization_id, True)
    for agent in (archived, paused):
        await world.notify(agent)
    await world.ask(archived, OwnedFields(status=AgentStatus.SLEEPING))
    await world.pause(paused.organization_id, False)
    assert [await world.wakes(agent) for agent in (archived, paused)] == [[], []]

    await until_midnight(world)

    for agent in (archived, paused):
        assert await world.wakes(agent) == [(MIDNIGHT, "notification:api")]


async def test_it_is_said_once_a_day_in_the_queue_of_an_agent_that_is_held(world: World) -> None:
    idle, held = await spent(world), await spent(world)
    for second in (1, 2):
        await world.go_to(second)
        await world.notify(held)
        await world.change(held, max_cost_usd_per_day=Decimal(second) + FIVE)
        await world.puppets[held.id].end()
        await world.spend(held, "1")
        await world.notify(held)
    await world.go_to(500)

    assert [note.body for note in await notes(world, held)] == [HELD]
    assert await notes(world, idle) == []


async def test_an_agent_that_may_spend_nothing_never_starts(world: World) -> None:
    agent = await world.agent(max_cost_usd_per_day=Decimal(0))
    await world.notify(agent)
    seen, watch = await world.see(agent), StuckAgentWatch(world.states, world.clock)
    assert seen.next_wake is None
    assert seen.why == (
        "Over its budget: 0.00 of 0.00 USD spent today; it starts no run at all, unless the cap is raised."
    )
    await watch.run_once()
    await until_midnight(world)
    await watch.run_once()

    assert await world.wakes(agent) == []
    assert watch.reasons() == ()
    await world.change(agent, max_cost_usd_per_day=Decimal("0.000001"))
    assert await world.wakes(agent) == [(MIDNIGHT, "notification:api")]


async def test_nothing_is_written_while_an_agent_waits_for_its_budget(world: World) -> None:
    agent, watch = await spent(world), StuckAgentWatch(world.states, world.clock)
    await world.notify(agent)
    before = (await world.state(agent)).version

    await watch.run_once()
    await world.go_to(1000)
    await watch.run_once()

    assert (await world.state(agent)).version == before
    assert watch.reasons() == ()


async def test_a_clock_that_is_set_back_over_midnight_brings_the_day_back(world: World) -> None:
    agent = await spent(world)
    await until_midnight(world)
    assert (await world.see(agent)).why.startswith("Asleep until")

    world.clock.step(-3600)
    await world.notify(agent)
    assert (await world.see(agent)).why == HELD
    await world.advance(3600)

    assert [reason for _, reason in await world.wakes(agent)] == ["notification:api"]
    assert (await world.ledger(agent))[0].started_at - world.began_at == timedelta(seconds=MIDNIGHT)
