"""Spend caps: when they end or postpone a run, and when the agent starts again."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from storage.model import Agent, AgentStatus, Notification, Outcome, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import (
    OwnedFieldsRequest,
    RunAnswer,
    RunReply,
    RunRequest,
)
from supervisors.engine.registry import tell_agents_of
from supervisors.llm.port import ModelRequest, ModelResponse, ToolCall
from supervisors.maintenance.scans import BudgetRenewal
from supervisors.policy.phases import Phase
from tests.storage.events.recorded import logged
from tests.supervisors.world import World, open_world

FIVE = Decimal(5)
EVENING = (14 * 60 + 55) * 60  # five minutes to midnight on the test's timeline
MIDNIGHT = 15 * 60 * 60
HELD = (
    "Over its budget of 5.00 USD a day; "
    "it starts no run before 2126-11-22 00:00 UTC, unless the cap is raised."
)


class Spender:
    """A model that never ends its run; each answer costs two dollars. It may run a hook first."""

    def __init__(self) -> None:
        self.world: World
        self.agent: Agent
        self.during_call: Callable[[], Awaitable[None]] | None = None

    async def complete(self, request: ModelRequest) -> ModelResponse:
        during_call, self.during_call = self.during_call, None
        if during_call is not None:
            await during_call()
        await self.world.spend(self.agent, "2.00")
        return ModelResponse("", (ToolCall("call_1", "list_notifications", "{}"),))


async def agent_over_budget(world: World, **fields: Any) -> Agent:
    """Create an agent that has spent its daily five dollars."""
    agent = await world.agent(max_cost_usd_per_day=FIVE, **fields)
    await world.spend(agent, "5.00")
    return agent


async def go_to_midnight(world: World) -> None:
    """Go to midnight; only the last minutes are simulated."""
    if world.clock.now() < world.at(EVENING):
        world.clock.step((world.at(EVENING) - world.clock.now()).total_seconds())
    await world.advance((world.at(MIDNIGHT) - world.clock.now()).total_seconds())


async def budget_notices(world: World, agent: Agent) -> list[Notification]:
    return [notification for notification in await world.queue(agent) if notification.title == "Over budget"]


async def test_run_ends_before_a_model_call_over_budget(pool: Pool) -> None:
    model = Spender()
    async with open_world(pool, model=model) as world:
        agent = await world.agent(max_cost_usd_per_day=FIVE)
        model.world, model.agent = world, agent
        await world.notify(agent)

        [run] = await world.ledger(agent)
        assert (run.outcome, run.turns) == (Outcome.BUDGET, 3)
        assert run.error == "reached its budget: 6.00 of 5.00 USD a day"
        assert (await world.see(agent)).failures.consecutive == 0
        await go_to_midnight(world)

        assert [second for second, _ in await world.wakes(agent)] == [0, MIDNIGHT]
        assert await world.outcomes(agent) == [Outcome.BUDGET, Outcome.BUDGET]
        assert len(await budget_notices(world, agent)) == 2
        reached = {"of": "agent", "cap_usd": 5.0, "spent_usd": 6.0}
        assert await logged(pool, "budget") == [("budget.reached", "", reached)] * 2


async def test_cap_set_during_a_run_applies_to_next_model_call(pool: Pool) -> None:
    model = Spender()
    async with open_world(pool, model=model) as world:
        agent = await world.agent()
        model.world, model.agent = world, agent

        async def cap_it() -> None:
            await world.storage.organizations.update(
                agent.organization_id, {"max_cost_usd_per_day": 1}, world.clock.now()
            )
            await tell_agents_of(agent.organization_id, world.states, world.registry)
            await world.registry.wait_until_idle()

        model.during_call = cap_it

        await world.ask(agent, RunRequest())

        assert [(run.outcome, run.turns) for run in await world.ledger(agent)] == [(Outcome.BUDGET, 1)]


async def test_agent_over_budget_starts_at_midnight(world: World) -> None:
    agent = await agent_over_budget(world)
    await world.notify(agent)
    await world.go_to(60)
    await world.notify(agent, Source.PORTAL)
    assert await world.phase(agent) is Phase.ASLEEP
    assert (await world.see(agent)).why == HELD

    await go_to_midnight(world)

    assert await world.wakes(agent) == [(MIDNIGHT, "notification:portal")]


async def test_run_request_over_budget_is_refused_and_not_stored(world: World) -> None:
    agent = await agent_over_budget(world)

    assert await world.ask(agent, RunRequest()) == RunReply(RunAnswer.OVER_BUDGET)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.RUNNING))
    assert (await world.see(agent)).next_wake is None
    await go_to_midnight(world)

    assert await world.wakes(agent) == []
    assert (await world.ask(agent, RunRequest())).status is RunAnswer.STARTED


async def test_queued_start_over_budget_leaves_the_queue(pool: Pool) -> None:
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
        assert world.registry.status.numbers().runs.queued == 0


async def raise_its_own(world: World, agent: Agent, cap: Decimal | None) -> None:
    await world.change(agent, max_cost_usd_per_day=cap)


async def raise_its_organizations(world: World, agent: Agent, cap: Decimal | None) -> None:
    await world.change_organization(agent.organization_id, max_cost_usd_per_day=cap)


@pytest.mark.parametrize("cap", [Decimal("5.01"), None], ids=["higher", "none"])
@pytest.mark.parametrize("raise_it", [raise_its_own, raise_its_organizations])
@pytest.mark.parametrize("is_alive", [True, False])
async def test_higher_cap_wakes_the_agent(
    world: World,
    raise_it: Callable[[World, Agent, Decimal | None], Awaitable[None]],
    cap: Decimal | None,
    is_alive: bool,
) -> None:
    agent = await world.agent()
    await raise_it(world, agent, FIVE)
    await world.spend(agent, "5")
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(10)))
    await world.go_to(100)
    if not is_alive:
        world.registry._supervisors.clear()
    assert await world.wakes(agent) == []

    await raise_it(world, agent, cap)

    assert await world.wakes(agent) == [(100, "sleep_elapsed")]


async def test_higher_template_cap_wakes_the_agent(world: World) -> None:
    shared = await world.template(max_cost_usd_per_day=FIVE)
    agent, own = [await world.agent(template_id=shared.id, max_cost_usd_per_day=cap) for cap in (None, FIVE)]
    for notification in (agent, own):
        await world.spend(notification, "5")
        await world.remind(notification, 10)
    await world.go_to(100)

    await world.change_template(shared, max_cost_usd_per_day=Decimal(6))

    assert await world.wakes(agent) == [(100, "reminder")]
    assert await world.wakes(own) == [], "its own cap replaces that of its template"


async def test_lower_cap_postpones_a_future_wake(world: World) -> None:
    agent = await world.agent(max_cost_usd_per_day=Decimal(6))
    await world.spend(agent, "5")
    await world.remind(agent, 10)

    await world.change(agent, max_cost_usd_per_day=FIVE)
    seen = await world.see(agent)
    await go_to_midnight(world)

    assert seen.next_wake is not None
    assert seen.next_wake.because == "Its budget is renewed. A reminder falls due."
    assert await world.wakes(agent) == [(MIDNIGHT, "reminder")]


@pytest.mark.parametrize("cap", [FIVE, Decimal(0)])
async def test_budget_renewal_finds_an_unannounced_cap(world: World, cap: Decimal) -> None:
    asleep, reminded, active = (
        await agent_over_budget(world),
        await agent_over_budget(world),
        await agent_over_budget(world),
    )
    for agent in (asleep, reminded, active):
        await world.change(agent, max_cost_usd_per_day=cap)
    await world.ask(asleep, OwnedFieldsRequest(sleep_until=world.at(50)))
    await world.remind(reminded, 50)
    await world.notify(active)
    for agent in (asleep, reminded, active):
        await world.storage.agents.update(agent.id, {"max_cost_usd_per_day": None}, world.clock.now())

    await BudgetRenewal(world.states, world.registry, world.clock).run_once()
    await world.wait_until_idle()
    await world.go_to(60)

    assert await world.wakes(asleep) == [(50, "sleep_elapsed")]
    assert await world.wakes(reminded) == [(50, "reminder")]
    assert await world.wakes(active) == [(0, "notification:api")]


async def test_over_budget_notice_comes_once_a_day(world: World) -> None:
    idle, held = await agent_over_budget(world), await agent_over_budget(world)
    for second in (1, 2):
        await world.go_to(second)
        await world.notify(held)
        await world.change(held, max_cost_usd_per_day=Decimal(second) + FIVE)
        await world.puppets[held.id].end()
        await world.spend(held, "1")
        await world.notify(held)
    await world.go_to(500)

    assert [note.body for note in await budget_notices(world, held)] == [f"{HELD} Spent today: 5.00 USD."]
    assert await budget_notices(world, idle) == []
