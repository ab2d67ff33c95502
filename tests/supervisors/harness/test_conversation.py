"""The conversation with the model: first messages and inherited settings."""

import pytest

from storage.ids import new_id
from storage.model import ReasoningEffort, ToolChoice
from storage.postgres.pool import Pool
from supervisors.harness.conversation import effective_max_turns, effective_options
from supervisors.llm.port import ModelOptions, ModelResponse
from tests.storage.factories import agent, template
from tests.supervisors.harness.scripted_runs import metadata, running, spans, start
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import open_world


@pytest.mark.parametrize(
    ("of_agent", "of_template", "sent"),
    [
        ("", ReasoningEffort.HIGH, "high"),
        ("low", ReasoningEffort.HIGH, "low"),
        ("none", ReasoningEffort.HIGH, ""),
        ("", ReasoningEffort.NONE, ""),
    ],
)
async def test_reasoning_effort_of_agent_overrides_template(
    pool: Pool, of_agent: str, of_template: ReasoningEffort, sent: str
) -> None:
    script = Script([])
    async with open_world(pool, model=script) as world:
        shared = await world.template(default_reasoning_effort=of_template, thinking_max_tokens=2000)
        agent = await world.agent(template_id=shared.id, reasoning_effort=of_agent)
        await start(world, agent)

        [request] = script.requests
        assert request.options == ModelOptions(sent, 2000)


async def test_options_of_the_template_are_sent_to_the_model(pool: Pool) -> None:
    script = Script([])
    async with open_world(pool, model=script) as world:
        shared = await world.template(temperature=0.2, max_output_tokens=900, tool_choice=ToolChoice.REQUIRED)
        await start(world, await world.agent(template_id=shared.id))

        [request] = script.requests
        assert request.options == ModelOptions("", 0, 0.2, 900, ToolChoice.REQUIRED)


async def test_option_that_the_model_refuses_is_named_in_its_span(pool: Pool) -> None:
    answer = ModelResponse("Done.", (), left_out=("temperature",))
    async with running(pool, answer) as (world, agent, _):
        await start(world, agent)
        [span] = await spans(world, agent, "llm")
        said = (await metadata(world, span))["hostsvc.request.left_out"]
    assert said == ["Left out of the request, because builtin refused it for inbox: temperature."]


@pytest.mark.parametrize(
    ("of_agent", "of_template", "expected"),
    [(0, 0, 50), (0, 7, 7), (3, 7, 3), (-1, 7, None), (0, -1, None)],
)
def test_turn_limit_of_agent_overrides_template_and_default(
    of_agent: int, of_template: int, expected: int | None
) -> None:
    limited = agent(new_id(), max_turns=of_agent)
    shared = template(limited.organization_id, max_turns=of_template)

    assert effective_max_turns(limited, shared, 50) == expected


def test_agent_without_template_uses_its_own_settings() -> None:
    alone = agent(new_id(), max_turns=0, reasoning_effort="low")

    assert effective_max_turns(alone, None, 50) == 50
    assert effective_options(alone, None) == ModelOptions("low")
