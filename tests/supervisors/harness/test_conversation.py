"""The conversation with the model: first messages and inherited settings."""

import pytest

from storage.ids import new_id
from storage.model import ReasoningEffort
from storage.postgres.pool import Pool
from supervisors.harness.conversation import effective_max_turns, effective_reasoning_effort
from supervisors.llm.port import ChatRole
from tests.storage.factories import agent, template
from tests.supervisors.harness.scripted_runs import running, start
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import open_world


async def test_agent_without_prompt_gets_no_system_message(pool: Pool) -> None:
    async with running(pool, []) as (world, agent, script):
        await start(world, agent)

        assert [message.role for message in script.conversation] == [ChatRole.USER]


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
        assert (request.reasoning_effort, request.thinking_max_tokens) == (sent, 2000)


async def test_first_messages_hold_prompt_wake_reason_and_sleep_cap(pool: Pool) -> None:
    script = Script([])
    async with open_world(pool, model=script) as world:
        shared = await world.template(system_prompt="Be kind.")
        agent = await world.agent(
            template_id=shared.id, timezone="Europe/Berlin", max_sleep_hours=8, max_turns=1
        )
        await world.notify(agent)

        system, user = script.conversation
        assert (system.role, system.text) == (ChatRole.SYSTEM, "Be kind.")
        assert user.role is ChatRole.USER
        assert user.text == (
            "You were woken: notification:api. It is Thursday, 2126-11-21 10:00:00 CET. "
            "High-priority notifications that are uncleared: 1. You may sleep until 2126-11-21 18:00 CET."
        )


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
    assert effective_reasoning_effort(alone, None) == "low"
