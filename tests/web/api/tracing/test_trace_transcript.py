"""Transcripts: which turns the spans of a trace record, as plain values."""

from typing import Any

import orjson
import pytest

from storage.history.trace_model import SpanSummary
from storage.history.traces import ExpandedSpan
from storage.ids import new_id
from storage.postgres.json_values import EncodedJson
from tests.storage.factories import NOW, SECOND
from web.api.tracing.transcripts import TranscriptEntryResponse, transcript

CALL = {"type": "tool_call", "id": "call_1", "name": "look_up", "arguments": {"word": "tea"}}
RESPONSE = {"type": "tool_call_response", "id": "call_1", "response": {"result": "a drink"}}
TOOL = {"type": "function", "name": "look_up", "description": "Looks up.", "parameters": {}}


def text(content: str) -> dict[str, str]:
    return {"type": "text", "content": content}


def message(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def span(
    span_type: str = "llm", *, error: str = "", is_open: bool = False, **attributes: Any
) -> ExpandedSpan:
    names = {
        "told": "gen_ai.input.messages",
        "said": "gen_ai.output.messages",
        "prompt": "gen_ai.system_instructions",
        "tools": "gen_ai.tool.definitions",
        "earlier": "hostsvc.input.earlier_messages",
    }
    summary = SpanSummary(
        new_id(), new_id(), None, "a span", span_type, NOW, None if is_open else NOW + SECOND, bool(error)
    )
    metadata = {names.get(name, name.replace("__", ".")): value for name, value in attributes.items()}
    return ExpandedSpan(summary, metadata, error)


def tool_span(**attributes: Any) -> ExpandedSpan:
    return span("tool", gen_ai__tool__name="look_up", gen_ai__tool__call__id="call_1", **attributes)


def entries(*spans: ExpandedSpan, is_first_page: bool = True) -> list[TranscriptEntryResponse]:
    return transcript(spans, is_first_page=is_first_page)[0]


def said(*spans: ExpandedSpan, is_first_page: bool = True) -> list[tuple[str, str]]:
    return [(each["role"], each["text"]) for each in entries(*spans, is_first_page=is_first_page)]


def test_run_of_the_service_reads_as_a_conversation() -> None:
    turns = entries(
        span("agent"),
        span(
            prompt=[text("Be kind.")],
            tools=[TOOL],
            earlier=0,
            told=[message("user", text("Hello!"))],
            said=[message("assistant", {"type": "reasoning", "content": "Hm."}, text("I look."), CALL)],
            gen_ai__provider__name="openai",
            gen_ai__response__model="gpt-1",
            gen_ai__response__finish_reasons=["tool_calls"],
            gen_ai__usage__input_tokens=7,
            hostsvc__usage__cost_usd=0.25,
        ),
        tool_span(gen_ai__tool__call__arguments='{"word": "tea"}', gen_ai__tool__call__result="a drink"),
        span(earlier=3, told=[message("tool", RESPONSE)], said=[message("assistant", text("A drink."))]),
    )

    assert [(turn["role"], turn["text"]) for turn in turns] == [
        ("system", "Be kind."),
        ("user", "Hello!"),
        ("assistant", "I look."),
        ("tool", ""),
        ("assistant", "A drink."),
    ]
    answer, tool = turns[2], turns[3]
    assert (answer["reasoning"], answer["duration_ms"]) == ("Hm.", 1000)
    assert answer["tool_calls"] == [{"id": "call_1", "name": "look_up", "arguments": {"word": "tea"}}]
    assert answer["call"] == {
        "provider": "openai",
        "model": "gpt-1",
        "finish_reason": "tool_calls",
        "input_tokens": 7,
        "output_tokens": None,
        "cached_tokens": None,
        "cost_usd": 0.25,
    }
    assert (tool["tool"], tool["tool_call"], tool["arguments"]) == ("look_up", "call_1", {"word": "tea"})
    assert (tool["result"], tool["call"]) == ("a drink", None)


def test_tools_are_those_of_the_last_call_that_records_them() -> None:
    _, tools = transcript([span(tools=[TOOL]), span(tools=[TOOL, TOOL]), span()], is_first_page=True)

    assert tools == [{"name": "look_up", "description": "Looks up.", "parameters": {}}] * 2


def test_open_and_failed_calls_are_shown() -> None:
    waiting, failed = entries(span(is_open=True), span(error="The model is away."))

    assert (waiting["role"], waiting["text"], waiting["duration_ms"]) == ("assistant", "", None)
    assert (failed["role"], failed["error"], failed["duration_ms"]) == (
        "assistant",
        "The model is away.",
        1000,
    )


def test_history_that_other_programs_repeat_is_shown_once() -> None:
    history = [
        message("user", text("Hello!")),
        message("assistant", text("Hi.")),
        message("user", text("Tea?")),
    ]
    first = span(told=history[:1], said=history[1:2])
    second = span(told=history, said=[message("assistant", text("Yes."))])

    whole = said(first, second)

    assert whole == [("user", "Hello!"), ("assistant", "Hi."), ("user", "Tea?"), ("assistant", "Yes.")]
    assert said(second, is_first_page=False) == whole[2:]
    assert said(second) == whole, "what an earlier trace said is a part of the first call"


def test_tool_result_without_a_span_is_told_by_the_call() -> None:
    call = span(told=[message("tool", RESPONSE)])

    [told, _] = entries(call)
    assert (told["role"], told["tool_call"], told["result"]) == ("tool", "call_1", {"result": "a drink"})
    assert [turn["role"] for turn in entries(tool_span(), call)] == ["tool", "assistant"]


def test_attributes_written_as_text_are_parsed() -> None:
    told = orjson.dumps([message("user", text("Hello!"))]).decode()

    assert said(span(told=told)) == [("user", "Hello!"), ("assistant", "")]


def test_long_metadata_is_read() -> None:
    plain = span(told=[message("user", text("Hello!"))])
    encoded = ExpandedSpan(plain.span, EncodedJson(orjson.dumps(plain.metadata)), "")

    assert said(encoded) == said(plain)


@pytest.mark.parametrize(
    "junk", [None, 7, "{", [7], [{"role": 7, "parts": 7}], {"a": 1}, [{"parts": [7, {}]}]]
)
def test_attributes_of_another_shape_are_ignored(junk: Any) -> None:
    call = span(told=junk, said=junk, prompt=junk, tools=junk, gen_ai__response__finish_reasons=junk)
    no_object = ExpandedSpan(call.span, junk, "")

    for each in (call, no_object):
        assert entries(each)[-1]["role"] == "assistant"
