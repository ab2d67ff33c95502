"""The chat-completions protocol: request bodies, and responses whole and streamed, as plain values."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from hostsvc.llm.chat_protocol import (
    MAX_TOOL_CALLS,
    InvalidResponse,
    StreamedResponse,
    error_text,
    parse_response,
    request_body,
)
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest

REQUEST = ModelRequest("gpt", (ChatMessage(ChatRole.USER, "Hello!"),))


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"id": "c-1", "model": "gpt-1", "choices": [{"delta": delta, "finish_reason": finish_reason}]}


def test_request_body_has_messages_and_no_empty_fields() -> None:
    assert request_body(REQUEST, "none", stream=False) == {
        "model": "gpt",
        "messages": [{"role": "user", "content": "Hello!"}],
    }


def test_request_leaves_out_answers_without_text_and_calls() -> None:
    said = [ChatMessage(ChatRole.ASSISTANT, text) for text in ("", " \n", "Hi")]
    body = request_body(replace(REQUEST, messages=(*REQUEST.messages, *said)), "none", stream=False)
    assert [message["content"] for message in body["messages"]] == ["Hello!", "Hi"]


def test_streamed_request_asks_for_usage() -> None:
    body = request_body(REQUEST, "none", stream=True)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_response_is_parsed_with_usage_and_names() -> None:
    body = {
        "id": "c-1",
        "model": "gpt-1",
        "choices": [{"message": {"content": [{"text": "Hi"}, {"text": "."}]}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}},
    }
    response = parse_response(orjson.dumps(body))
    assert (response.text, response.id, response.model, response.finish_reason) == (
        "Hi.",
        "c-1",
        "gpt-1",
        "stop",
    )
    assert (response.input_tokens, response.output_tokens, response.cached_tokens) == (7, 2, 5)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_parsed_from_the_field_of_the_server(field: str) -> None:
    message = {"content": "Tea.", field: "They like tea."}
    whole = parse_response(orjson.dumps({"choices": [{"message": message}]}))
    streamed = StreamedResponse()
    for delta in ({field: "They "}, {field: "like tea."}, {"content": "Tea."}):
        streamed.add(chunk(delta))
    streamed.add(chunk({}, "stop"))

    assert (whole.text, whole.reasoning) == ("Tea.", "They like tea.")
    assert (streamed.result().text, streamed.result().reasoning) == ("Tea.", "They like tea.")


def test_part_of_a_stream_is_known_before_its_end() -> None:
    streamed = StreamedResponse()
    assert streamed.partial() is None

    for delta in ({"reasoning": "Hm."}, {"content": "I would"}):
        streamed.add(chunk(delta))

    partial = streamed.partial()
    assert partial is not None
    assert (partial.text, partial.reasoning, partial.finish_reason) == ("I would", "Hm.", "")


def test_refusal_is_the_text_of_a_response() -> None:
    body = {"choices": [{"message": {"content": None, "refusal": "No."}}]}
    assert parse_response(orjson.dumps(body)).text == "No."


def test_response_that_only_python_parses_is_accepted() -> None:
    assert parse_response(b'{"choices": [{"message": {"content": "a\\ud800b"}}], "x": NaN}').text == "a?b"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "it is empty"),
        (b"<html>", "it is not JSON"),
        (b"{}", "it holds no choices[0].message"),
        (b'{"choices": [{"message": {"tool_calls": [{}]}}]}', "one of its tool calls names no function"),
    ],
)
def test_invalid_response_is_refused_with_its_content(body: bytes, problem: str) -> None:
    with pytest.raises(InvalidResponse) as caught:
        parse_response(body)
    assert str(caught.value) == problem
    assert isinstance(caught.value.content, str)


def test_streamed_response_joins_texts_and_calls() -> None:
    response = StreamedResponse()
    for part in (
        chunk({"content": "Let me "}),
        chunk({"content": "see.", "tool_calls": [{"index": 0, "id": "a", "function": {"name": "look_up"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"word":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "tea"}'}}]}, "tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 7}},
    ):
        response.add(part)
    result = response.result()
    [call] = result.tool_calls
    assert (result.text, result.input_tokens, result.finish_reason) == ("Let me see.", 7, "tool_calls")
    assert (call.id, call.name, call.arguments) == ("a", "look_up", '{"word": "tea"}')


def test_response_with_too_many_calls_is_refused() -> None:
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "get_time"}} for n in range(MAX_TOOL_CALLS + 1)]

    def whole(calls: list[dict[str, Any]]) -> bytes:
        return orjson.dumps({"choices": [{"message": {"tool_calls": calls}}]})

    assert len(parse_response(whole(calls[1:])).tool_calls) == MAX_TOOL_CALLS
    StreamedResponse().add(chunk({"tool_calls": calls[1:]}))
    with pytest.raises(InvalidResponse, match="more than 1000 tool calls"):
        parse_response(whole(calls))
    with pytest.raises(InvalidResponse, match="more than 1000 tool calls"):
        StreamedResponse().add(chunk({"tool_calls": calls}))


def test_stream_without_an_end_is_invalid() -> None:
    response = StreamedResponse()
    with pytest.raises(InvalidResponse, match="it is not a stream"):
        response.result()
    response.add(chunk({"content": "Let"}))
    with pytest.raises(InvalidResponse, match="ended in the middle"):
        response.result()
    with pytest.raises(InvalidResponse, match="not an object"):
        response.add([])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error": {"message": "No such\\nmodel"}}', "No such model"),
        ('{"error": "quota"}', "quota"),
        ('{"message": "not found"}', "not found"),
        ("<html>Bad\n gateway</html>", "<html>Bad gateway</html>"),
    ],
)
def test_error_text_is_the_message_or_the_beginning(text: str, message: str) -> None:
    assert error_text(text) == message


def test_long_error_text_is_cut() -> None:
    assert error_text("x" * 10_000) == "x" * 300 + "…"
