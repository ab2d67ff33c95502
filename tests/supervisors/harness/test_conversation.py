"""The conversation with the model: first messages and inherited settings."""

import pytest

from storage.ids import new_id
from storage.model import ReasoningEffort
from storage.postgres.pool import Pool
from supervisors.harness.conversation import effective_max_turns, effective_reasoning_effort
from supervisors.llm.port import ChatRole
from tests.storage.factories import agent, template
from tests.supervisors.harness.scripted_runs import start
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
        assert (request.reasoning_effort, request.thinking_max_tokens) == (sent, 2000)


async def test_first_messages_hold_instruction_prompt_and_wake(pool: Pool) -> None:
    script = Script([])
    async with open_world(pool, model=script) as world:
        shared = await world.template(system_prompt="Be kind, {{agent.name}}.")
        agent = await world.agent(
            template_id=shared.id, timezone="Europe/Berlin", max_sleep_hours=8, max_turns=1
        )
        sent = await world.notify(agent, body="Come here.")

        system, user = script.conversation
        assert (system.role, user.role) == (ChatRole.SYSTEM, ChatRole.USER)
        assert system.text.endswith("\n\nBe kind, Scout.")
        assert "It is Thursday, 2126-11-21 10:00:00 in Europe/Berlin" in user.text
        assert "You were woken by a high-priority notification from api. This is your first run." in user.text
        assert "After this run you may sleep until Thursday, 2126-11-21 18:00 at the latest." in user.text
        assert f'{{"id":"{sent.id}","priority":"high","source":"api"' in user.text
        assert '"title":"Look here","body":"Come here."}' in user.text


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
