"""Agent tools: the tools of an agent's adapters, as shown to a model and as called."""

from uuid import UUID

import pytest

from storage.agents.templates import Templates
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.pool import Pool
from storage.toolbox import (
    MAX_ALL_SHOWN_BYTES,
    MAX_SHOWN_BYTES,
    MAX_SHOWN_CHARACTERS,
    Adapter,
    AdapterConfig,
    AdapterConfigs,
    Adapters,
    AgentTools,
    CallableTool,
    DescribedTool,
    Tool,
    Tools,
)
from tests.storage.factories import NOW, adapter, stored_agent, stored_organization, template, tool


@pytest.fixture
def agent_tools(pool: Pool) -> AgentTools:
    return AgentTools(pool)


@pytest.fixture
async def owner(pool: Pool) -> UUID:
    return (await stored_organization(pool)).id


async def stored_adapter(pool: Pool, owner: UUID, name: str, *tools: str) -> tuple[Adapter, list[Tool]]:
    """Store an adapter with tools of these names; a name with a colon is the tool's handler, too."""
    stored = adapter(owner, name=name)
    await Adapters(pool).insert(stored)
    new_tools = [tool(stored.id, name=one, handler=one if ":" in one else "") for one in tools]
    for new in new_tools:
        await Tools(pool).insert(new)
    return stored, new_tools


async def agent_with(pool: Pool, owner: UUID, *adapters: Adapter) -> Agent:
    return await stored_agent(pool, owner, adapters=tuple(one.id for one in adapters))


async def test_long_descriptions_are_cut_and_long_parameters_hidden(
    agent_tools: AgentTools, pool: Pool, owner: UUID
) -> None:
    weather, [short] = await stored_adapter(pool, owner, "Weather", "short")
    long = tool(
        weather.id,
        name="long",
        description="ü" * (MAX_SHOWN_CHARACTERS + 1),
        parameters={"title": "x" * MAX_SHOWN_BYTES},
        is_enforced=True,
    )
    await Tools(pool).insert(long)

    assert await agent_tools.describe([short.id, long.id, new_id()]) == {
        short.id: DescribedTool(short.id, weather.id, "", None, False),
        long.id: DescribedTool(long.id, weather.id, "ü" * MAX_SHOWN_CHARACTERS, None, True),
    }


async def test_later_tools_are_hidden_when_all_are_too_long_together(
    agent_tools: AgentTools, pool: Pool, owner: UUID
) -> None:
    stored, _ = await stored_adapter(pool, owner, "Long")
    size = MAX_ALL_SHOWN_BYTES // 20
    tools = [
        tool(
            stored.id,
            name=f"t{n}",
            description="d",
            parameters={"title": "x" * (size - len('"d"{"title":""}'))},
        )
        for n in range(22)
    ]
    for new in tools:
        await Tools(pool).insert(new)

    described = await agent_tools.describe([new.id for new in tools])

    shown = [bool(described[new.id].description and described[new.id].parameters) for new in tools]
    hidden = [described[new.id].description == "" and described[new.id].parameters is None for new in tools]
    assert shown == [True] * 20 + [False] * 2
    assert hidden == [False] * 20 + [True] * 2


async def test_callable_tool_has_config_and_secret_of_template(
    agent_tools: AgentTools, pool: Pool, owner: UUID
) -> None:
    desk = template(owner, tool_call_secret="whsec_1")
    await Templates(pool).insert(desk)
    weather, [forecast] = await stored_adapter(pool, owner, "Weather", "forecast")
    await AdapterConfigs(pool).insert(
        AdapterConfig(new_id(), owner, desk.id, weather.id, {"city": "Linz"}, NOW, NOW)
    )
    scout = await stored_agent(pool, owner, template_id=desk.id, adapters=(weather.id,))

    callable_tool = await agent_tools.get(scout.id, forecast.id)

    assert callable_tool == CallableTool(
        forecast.id, weather.id, "forecast", "", "", None, False, {"city": "Linz"}, "whsec_1"
    )
    assert "Linz" not in repr(callable_tool)
    assert "whsec_1" not in repr(callable_tool)


async def test_channel_tool_is_that_of_the_first_adapter(
    agent_tools: AgentTools, pool: Pool, owner: UUID
) -> None:
    first, _ = await stored_adapter(pool, owner, "First", "channel:sms")
    second, _ = await stored_adapter(pool, owner, "Second", "channel:sms", "channel:email")
    scout = await agent_with(pool, owner, second, first)

    sms = await agent_tools.get_channel(scout.id, "sms")

    assert sms is not None
    assert (sms.adapter_id, sms.handler) == (second.id, "channel:sms")
    assert await agent_tools.get_channel(scout.id, "mms") is None
