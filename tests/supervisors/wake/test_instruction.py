"""The system message: the built-in instruction, the prompt and its placeholders."""

from typing import Any

import pytest

from storage.ids import new_id
from storage.model import Reply
from supervisors.wake.instruction import MAX_PLACEHOLDERS, PLACEHOLDERS, system_message, system_prompt
from tests.storage.factories import agent, template
from tests.supervisors.wake.facts import wake_facts


def prompt_of(prompt: str, **fields: Any) -> str:
    return system_prompt(wake_facts(agent=agent(new_id(), system_prompt=prompt, **fields)))


def test_prompt_follows_the_built_in_instruction() -> None:
    alone = system_message(wake_facts())
    prompted = system_message(wake_facts(agent=agent(new_id(), system_prompt="Be kind.")))

    assert alone.startswith("You are an agent that a service wakes")
    assert prompted == f"{alone}\n\nBe kind."


@pytest.mark.parametrize(("own", "expected"), [("", "Be brief."), ("Be kind.", "Be kind.")])
def test_prompt_of_agent_overrides_template(own: str, expected: str) -> None:
    shared = template(new_id(), system_prompt="Be brief.")

    assert system_prompt(wake_facts(agent=agent(new_id(), system_prompt=own), template=shared)) == expected


def test_instruction_says_where_a_final_text_goes() -> None:
    by_tool = system_message(wake_facts(template=template(new_id(), reply=Reply.TOOL)))
    by_text = system_message(wake_facts(template=template(new_id(), reply=Reply.TEXT)))

    assert "The text of an answer reaches nobody" in by_tool
    assert "is sent to the person whose message waits" in by_text


def test_placeholders_are_filled_in() -> None:
    scout = agent(
        new_id(), system_prompt=" ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS), email_alias="scout"
    )
    shared = template(new_id(), name="Concierge")
    facts = wake_facts(agent=scout, template=shared)

    expected = f"{scout.id} Scout builtin/inbox UTC scout Acme "
    assert system_prompt(facts) == expected


def test_placeholder_may_have_spaces() -> None:
    assert prompt_of("I am {{ agent.name }}.") == "I am Scout."


@pytest.mark.parametrize("prompt", ["{{agent.secret}}", "{{name}}", "{agent.name}", "{{agent.name", "{{}}"])
def test_unknown_placeholder_stays_as_it_is(prompt: str) -> None:
    assert prompt_of(prompt) == prompt


def test_value_is_not_searched_for_placeholders() -> None:
    assert prompt_of("{{agent.name}}", name="{{agent.id}}") == "{{agent.id}}"


def test_placeholders_are_bounded() -> None:
    filled = prompt_of("{{agent.name}}" * (MAX_PLACEHOLDERS + 1))

    assert filled == "Scout" * MAX_PLACEHOLDERS + "{{agent.name}}"
