"""Recorded content: the form of messages, and how long ones are cut."""

from typing import Any

import orjson
import pytest

from storage.ids import new_id
from supervisors.harness.recorded_content import (
    ContentPolicy,
    content_policy,
    definitions_json,
    input_messages,
    instructions_json,
    output_messages,
)
from supervisors.llm.port import ChatMessage, ChatRole, ModelResponse, ToolCall
from supervisors.settings import TracingSettings
from supervisors.tools.toolkit import ToolDefinition
from tests.storage.factories import template

KIB = 1024
CALL = ToolCall("call_1", "look_up", '{"word": "tea"}')
CONVERSATION = (
    ChatMessage(ChatRole.SYSTEM, "Be kind."),
    ChatMessage(ChatRole.USER, "Hello!"),
    ChatMessage(ChatRole.ASSISTANT, "Wait.", (CALL,)),
    ChatMessage(ChatRole.TOOL, '{"result":["a drink"]}', tool_call_id="call_1"),
)


def recorded(content: dict[str, Any], max_bytes: int = 2**20) -> dict[str, Any]:
    text = ContentPolicy(None, max_bytes).content(content).text
    assert len(text) <= max_bytes
    parsed: dict[str, Any] = orjson.loads(text)
    return parsed


def test_messages_have_the_form_of_the_conventions() -> None:
    tool_call = {"type": "tool_call", "id": "call_1", "name": "look_up", "arguments": {"word": "tea"}}
    response = {"type": "tool_call_response", "id": "call_1", "response": {"result": ["a drink"]}}

    assert recorded({"input": input_messages(CONVERSATION)}) == {
        "input": [
            {"role": "user", "parts": [{"type": "text", "content": "Hello!"}]},
            {"role": "assistant", "parts": [{"type": "text", "content": "Wait."}, tool_call]},
            {"role": "tool", "parts": [response]},
        ]
    }
    assert orjson.loads(instructions_json(CONVERSATION, KIB)) == [{"type": "text", "content": "Be kind."}]


def test_answer_has_reasoning_text_calls_and_finish_reason() -> None:
    broken = ToolCall("call_2", "look_up", '{"word": ')
    answer = ModelResponse("Tea.", (broken,), finish_reason="length", reasoning="Hm.")

    [message] = recorded({"output": output_messages(answer)})["output"]

    assert message == {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "Hm."},
            {"type": "text", "content": "Tea."},
            {"type": "tool_call", "id": "call_2", "name": "look_up", "arguments": '{"word": '},
        ],
        "finish_reason": "length",
    }


def test_tool_message_that_is_not_json_is_recorded_as_text() -> None:
    told = ChatMessage(ChatRole.TOOL, '{"result": ["a dr', tool_call_id="call_1")

    [message] = recorded({"input": input_messages([told])})["input"]

    assert message["parts"][0]["response"] == '{"result": ["a dr'


def test_tools_are_described_with_their_parameters() -> None:
    tool = ToolDefinition("look_up", "Look up a word.", {"type": "object"}, new_id())

    assert orjson.loads(definitions_json([tool], KIB)) == [
        {
            "type": "function",
            "name": "look_up",
            "description": "Look up a word.",
            "parameters": {"type": "object"},
        }
    ]
    assert definitions_json([], KIB) == instructions_json(CONVERSATION[1:], KIB) == b""


def test_long_texts_are_cut_with_a_note() -> None:
    told = [ChatMessage(ChatRole.USER, text) for text in ("Hello!", "x" * 30_000)]

    content = recorded({"input": input_messages(told)}, 10 * KIB)

    short, long = (message["parts"][0]["content"] for message in content["input"])
    assert (short, long[7_999:]) == ("Hello!", "x… (cut: 8000 of 30000 characters)")
    assert content["hostsvc.content.cut"].startswith("It was too long: texts of more than 8000 characters")


def test_content_that_cannot_be_cut_is_replaced_by_a_note() -> None:
    told = [ChatMessage(ChatRole.USER, "Hello!") for _ in range(1000)]

    assert recorded({"input": input_messages(told)}, KIB) == {
        "hostsvc.content.cut": "It was too long to be kept: 61011 bytes of JSON."
    }


def test_long_shared_parts_are_cut() -> None:
    prompt = [ChatMessage(ChatRole.SYSTEM, "x" * 30_000)]
    tool = ToolDefinition("look_up", "x" * 30_000, {"type": "object"})

    assert len(instructions_json(prompt, 10 * KIB)) <= 10 * KIB
    assert len(definitions_json([tool], 10 * KIB)) <= 10 * KIB


@pytest.mark.parametrize(
    ("of_template", "of_configuration", "is_recorded"),
    [
        (None, "full", True),
        (None, "none", False),
        ("", "full", True),
        ("", "none", False),
        ("full", "none", True),
        ("none", "full", False),
    ],
)
def test_template_overrides_whether_content_is_recorded(
    of_template: str | None, of_configuration: Any, is_recorded: bool
) -> None:
    shared = None if of_template is None else template(new_id(), content=of_template)

    policy = content_policy(shared, TracingSettings(of_configuration), KIB)

    expected = ContentPolicy(shared.id if shared else None, KIB) if is_recorded else None
    assert policy == expected
