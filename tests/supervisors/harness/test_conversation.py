"""The conversation with the model: first messages and inherited settings."""

import pytest

from storage.model import ReasoningEffort
from storage.postgres.pool import Pool
from supervisors.llm.port import ChatRole
from tests.supervisors.harness.scripted_runs import running, start
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import open_world


async def test_agent_without_prompt_gets_no_system_message(pool: Pool) -> None:
    async with running(pool, []) as (world, agent, script):
        await start(world, agent)

        assert [message.speaker for message in script.heard] == [ChatRole.USER]


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
        agent = await world.agent(template_id=shared.id, timezone="Europe/Berlin", max_sleep_hours=8)
        await world.notify(agent)

        system, user = script.heard
        assert (system.speaker, system.text) == (ChatRole.SYSTEM, "Be kind.")
        assert user.speaker is ChatRole.USER
        assert user.text == (
            "You were woken: notification:api. It is Thursday, 2126-11-21 10:00:00 CET. "
            "High-priority notifications that are uncleared: 1. You may sleep until 2126-11-21 18:00 CET."
        )
