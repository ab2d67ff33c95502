"""Models without a known price: caps that refuse them, and sentences about them."""

from decimal import Decimal

import pytest

from storage.model import Agent, Outcome, Priority, Unpriced
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunRequest
from supervisors.policy.phases import Phase
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import World, open_world

FIVE = Decimal(5)
SENTENCE = "The price of its model lab/llama is not known, so its calls count as 0 USD."


async def refused_run(world: World, agent: Agent) -> None:
    await world.ask(agent, RunRequest())
    [run] = await world.ledger(agent)
    assert run.outcome is Outcome.BUDGET
    assert run.error.endswith("refuses the model lab/llama, because its price is not known")
    assert run.turns == 0


@pytest.mark.parametrize("owner", ["agent", "template", "organization"])
async def test_run_of_an_unpriced_model_ends_before_its_first_call(pool: Pool, owner: str) -> None:
    script = Script()
    async with open_world(pool, model=script, provider="lab") as world:
        caps = {name: FIVE if name == owner else None for name in ("agent", "template", "organization")}
        template = await world.template(max_cost_usd_per_day=caps["template"])
        agent = await world.agent(
            template_id=template.id, model="lab/llama", max_cost_usd_per_day=caps["agent"]
        )
        changes = {"max_cost_usd_per_day": caps["organization"]}
        await world.storage.organizations.update(agent.organization_id, changes, world.clock.now())
        await refused_run(world, agent)

        assert script.requests == []
        seen = await world.see(agent)
        assert seen.phase is Phase.BACKING_OFF
        assert "after a failure: its" in seen.why
        assert seen.why.endswith(f"because its price is not known. {SENTENCE}")
        [notice] = await world.queue(agent)
        assert (notice.title, notice.priority) == ("A model without a known price", Priority.LOW)
        assert "refuses the model lab/llama" in notice.body


async def test_refused_model_ends_in_quarantine_with_one_notice(pool: Pool) -> None:
    async with open_world(pool, model=Script(), provider="lab") as world:
        agent = await world.agent(model="lab/llama", max_cost_usd_per_day=FIVE)
        await world.notify(agent)
        await world.go_to(60)

        assert [second for second, _ in await world.wakes(agent)] == [0, 1, 3, 7, 15]
        seen = await world.see(agent)
        assert seen.phase is Phase.QUARANTINED
        assert "the last one: its budget refuses the model lab/llama" in seen.why
        assert sorted(one.title for one in await world.queue(agent)) == [
            "A model without a known price",
            "Look here",
            "Quarantined after too many failures in a row",
        ]


@pytest.mark.parametrize("owner", ["agent", "template"])
async def test_cap_that_allows_it_lets_an_unpriced_model_run(pool: Pool, owner: str) -> None:
    rules = {"agent": Unpriced.ALLOW, "template": None}
    async with open_world(pool, model=Script([("sleep", "{}")]), provider="lab") as world:
        template = await world.template(
            max_cost_usd_per_day=FIVE, unpriced=Unpriced.REFUSE if owner == "agent" else Unpriced.ALLOW
        )
        agent = await world.agent(template_id=template.id, model="lab/llama", unpriced=rules[owner])
        await world.ask(agent, RunRequest())

        assert await world.outcomes(agent) == [Outcome.SLEPT]
        assert (await world.see(agent)).why.endswith(SENTENCE)


async def test_priced_model_is_explained_without_its_price(pool: Pool) -> None:
    async with open_world(pool, model=Script(), provider="openai") as world:
        agent = await world.agent(model="openai/gpt-4o")

        assert "price" not in (await world.see(agent)).why
