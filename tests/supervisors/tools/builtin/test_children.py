"""The tool `create_agent`: who may create agents, what a child gets from its parent, and repeated calls."""

import asyncio
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from hostsvc.llm.price_list import PriceList
from storage.agents.filters import AgentFilters
from storage.delivery.outbox import DeliveryFilters
from storage.model import Agent, Priority, Unpriced
from storage.postgres.paging import Page
from supervisors.json_schema.checker import SchemaChecker
from supervisors.llm.catalog import ModelCatalog
from supervisors.tools.arguments import ToolError
from supervisors.tools.toolset import Toolset
from tests.storage.factories import template as new_template
from tests.supervisors.harness.test_spending import NoOutbound
from tests.supervisors.tools.builtin.resources import refusal
from tests.supervisors.world import World

SPEND = "INSERT INTO spending (owner_id, day, cost_usd) VALUES ($1, $2, 1.5)"
BEE: dict[str, Any] = {"name": "Bee", "instruction": "Find parcels."}


async def parent_of(world: World, *, cap: str | None = None, **fields: Any) -> Agent:
    """Store an agent whose template allows it to create agents, and may have a cap."""
    own = await world.template(
        may_create_agents=True,
        default_model="",
        max_cost_usd_per_day=Decimal(cap) if cap else None,
        agent_created_webhook_url="https://example.org/",
    )
    return await world.agent(template_id=own.id, **fields)


async def stored(world: World, agent_id: UUID | str) -> Agent:
    agent = await world.storage.agents.get(UUID(str(agent_id)))
    assert agent is not None
    return agent


async def children_of(world: World, parent: Agent) -> list[Agent]:
    filters = AgentFilters((parent.organization_id,), parent_id=parent.id)
    return [
        await stored(world, row["id"])
        for row in await world.storage.agents.list_rows(filters, Page(None, 50))
    ]


async def tools_of(world: World, agent: Agent) -> list[str]:
    template = await world.storage.templates.get_of(agent)
    return [tool.name for tool in await world.toolset.definitions(agent, template)]


async def test_child_has_settings_of_its_parent_and_parent_is_told(world: World) -> None:
    parent = await parent_of(world, model="lab/one", timezone="Asia/Tokyo", unpriced=Unpriced.ALLOW)
    run = await world.start(parent)

    answer = await run.call("create_agent", **BEE)

    child = await stored(world, answer["id"])
    assert (child.name, child.system_prompt, child.parent_id) == ("Bee", "Find parcels.", parent.id)
    assert (child.template_id, child.model, child.timezone) == (parent.template_id, "lab/one", "Asia/Tokyo")
    assert (child.max_cost_usd_per_day, child.unpriced) == (None, Unpriced.ALLOW)
    assert (answer["max_cost_usd_per_day"], answer["your_max_cost_usd_per_day"]) == (None, None)
    [notice] = await run.call("list_notifications")
    assert (notice["title"], notice["priority"], notice["source_id"]) == (
        "Agent created",
        Priority.LOW,
        str(child.id),
    )
    filters = DeliveryFilters((parent.organization_id,), agent_id=child.id)
    [webhook] = await world.storage.outbox.list_page(filters, Page(None, 50))
    assert webhook.type == "agent.created"
    [version] = await world.storage.versions.list_all(child.id)
    assert (version.author, version.run_id) == (f"run:{run.run.id}", run.run.id)


async def test_child_takes_its_cap_from_that_of_its_parent(world: World) -> None:
    parent = await parent_of(world, cap="2.000005")
    run = await world.start(parent)

    first = await run.call("create_agent", **BEE)
    second = await run.call("create_agent", name="Ant", instruction="Help.", max_cost_usd_per_day=0.8)

    assert (first["max_cost_usd_per_day"], first["your_max_cost_usd_per_day"]) == (0.2, 1.800005)
    assert (second["max_cost_usd_per_day"], second["your_max_cost_usd_per_day"]) == (0.8, 1.000005)
    assert (await stored(world, parent.id)).max_cost_usd_per_day == Decimal("1.000005")
    assert (await stored(world, second["id"])).max_cost_usd_per_day == Decimal("0.8")
    error = await refusal(run, "create_agent", name="Cat", instruction="Help.", max_cost_usd_per_day=1.1)
    assert (error["code"], error["parameter"]) == ("budget_exceeded", "max_cost_usd_per_day")
    assert len(await children_of(world, parent)) == 2


async def test_parent_cannot_give_what_it_has_spent_today(world: World) -> None:
    parent = await parent_of(world, cap="2")
    await world.pool.execute(SPEND, parent.id, world.clock.now().date())
    run = await world.start(parent)

    error = await refusal(run, "create_agent", **BEE, max_cost_usd_per_day=0.6)
    assert error["message"] == "You have 0.50 of 2.00 USD left today, so you can give at most that."
    child = await run.call("create_agent", **BEE, max_cost_usd_per_day=0.5)
    assert child["your_max_cost_usd_per_day"] == 1.5


async def test_repeated_call_creates_no_second_child_and_takes_no_cap(world: World) -> None:
    parent = await parent_of(world, cap="1")
    first = await (await world.start(parent)).call("create_agent", **BEE)
    again = await (await world.start(parent)).call("create_agent", **BEE)
    assert again == first

    run = await world.start(parent)
    ants = await asyncio.gather(
        *(run.call("create_agent", name="Ant", instruction="Help.") for _ in range(3))
    )
    assert ants[0] == ants[1] == ants[2]
    assert (await stored(world, parent.id)).max_cost_usd_per_day == Decimal("0.81")

    error = await refusal(run, "create_agent", name="Bee", instruction="Do something else.")
    assert (error["code"], error["agent"]) == ("name_taken", first["id"])
    assert len(await children_of(world, parent)) == 2


async def test_agent_may_not_create_agents_unless_its_template_says_so(world: World) -> None:
    refusing = await world.template()
    for agent in (await world.agent(), await world.agent(template_id=refusing.id)):
        error = await refusal(await world.start(agent), "create_agent", **BEE)
        assert error["code"] == "not_allowed"
        assert "create_agent" not in await tools_of(world, agent)

    parent = await parent_of(world)
    assert "create_agent" in await tools_of(world, parent)
    child = await (await world.start(parent)).call("create_agent", **BEE, template=str(refusing.id))
    assert child["model"] == refusing.default_model
    grandchild = await refusal(await world.start(await stored(world, child["id"])), "create_agent", **BEE)
    assert grandchild["code"] == "not_allowed"


async def test_template_of_another_organization_is_not_found(world: World) -> None:
    foreign = new_template(await world.organization())
    await world.storage.templates.insert(foreign)
    run = await world.start(await parent_of(world))
    error = await refusal(run, "create_agent", **BEE, template=str(foreign.id))
    assert (error["code"], error["parameter"]) == ("not_found", "template")


@pytest.mark.parametrize("changes", [{"name": " "}, {"name": "x" * 256}, {"max_cost_usd_per_day": -1}])
async def test_unfit_agent_is_refused(world: World, changes: dict[str, Any]) -> None:
    run = await world.start(await parent_of(world))
    error = await refusal(run, "create_agent", **{**BEE, **changes})
    assert (error["code"], error["parameter"]) == ("invalid", next(iter(changes)))


@pytest.mark.parametrize(
    ("model", "cap", "message"),
    [
        ("nowhere/one", None, 'There is no model provider "nowhere"'),
        ("builtin/two", None, "There is no model builtin/two"),
        (
            "lab/dear",
            Decimal(2),
            "The price of lab/dear is not known, and the spending cap of the agent refuses",
        ),
    ],
)
async def test_child_without_a_usable_model_is_refused(
    world: World, model: str, cap: Decimal | None, message: str
) -> None:
    catalog = ModelCatalog({"builtin", "lab"}, "builtin", PriceList())
    toolset = Toolset(world.storage, world.clock, NoOutbound(), SchemaChecker(world.clock), catalog)
    parent = await parent_of(world, max_cost_usd_per_day=cap)
    other = await world.template(default_model=model)

    tool = await toolset.find(parent, "create_agent")
    arguments = {**BEE, "template": str(other.id)}
    with pytest.raises(ToolError) as refused:
        await toolset.use(tool, parent, None, world.registry.ask, arguments)

    assert (refused.value.code, refused.value.details) == ("model_refused", {"model": model})
    assert refused.value.message.startswith(message)
    assert await children_of(world, parent) == []
