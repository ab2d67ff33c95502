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
    refused_option,
    request_body,
)
from hostsvc.llm.providers import ThinkingField
from storage.model import ToolChoice
from supervisors.llm.port import ChatMessage, ChatRole, ModelFile, ModelOptions, ModelRequest, ModelResponse
from supervisors.tools.tool import ToolDefinition, schema

REQUEST = ModelRequest("gpt", (ChatMessage(ChatRole.USER, "Hello!"),))


def whole(message: dict[str, Any], **fields: Any) -> ModelResponse:
    """Return the parsed response with this message."""
    return parse_response(orjson.dumps({"choices": [{"message": message}], **fields}))


def streamed(*chunks: dict[str, Any]) -> ModelResponse:
    """Return the response that these chunks are, and an end."""
    response = StreamedResponse()
    for part in (*chunks, chunk({}, "stop")):
        response.add(part)
    return response.result()


def tool_call(id_: str | None, name: str, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    """Return a tool call, or a part of one, as a server writes it."""
    return {"id": id_, "function": {"name": name, "arguments": arguments}, **more}


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"id": "c-1", "model": "gpt-1", "choices": [{"delta": delta, "finish_reason": finish_reason}]}


def test_request_leaves_out_answers_without_text_and_calls() -> None:
    said = [ChatMessage(ChatRole.ASSISTANT, text) for text in ("", " \n", "Hi")]
    body = request_body(replace(REQUEST, messages=(*REQUEST.messages, *said)), "none", stream=False)
    assert [message["content"] for message in body["messages"]] == ["Hello!", "Hi"]


@pytest.mark.parametrize(
    ("field", "thinking_max_tokens", "sent"),
    [
        ("none", 0, {"reasoning_effort": "high"}),
        ("none", 2000, {"reasoning_effort": "high"}),
        ("reasoning", 0, {"reasoning_effort": "high"}),
        ("reasoning", 2000, {"reasoning": {"max_tokens": 2000}}),
        ("thinking", 2000, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        ("thinking_token_budget", 2000, {"thinking_token_budget": 2000}),
    ],
)
def test_thinking_limit_is_sent_in_the_configured_field(
    field: ThinkingField, thinking_max_tokens: int, sent: dict[str, Any]
) -> None:
    request = replace(REQUEST, options=ModelOptions("high", thinking_max_tokens))
    body = request_body(request, field, stream=False)
    assert {key: body[key] for key in body.keys() - {"model", "messages"}} == sent


def test_request_holds_the_options_that_are_set() -> None:
    options = ModelOptions(temperature=0.0, max_output_tokens=500, tool_choice=ToolChoice.REQUIRED)
    with_tools = replace(REQUEST, options=options, tools=(ToolDefinition("look", "Looks.", schema()),))
    sent = {"temperature": 0.0, "max_tokens": 500, "tool_choice": "required"}

    body = request_body(with_tools, "none", stream=False)

    assert {key: body[key] for key in body.keys() - {"model", "messages", "tools"}} == sent
    schema_of_answer = {"type": "object"}
    formatted = replace(REQUEST, options=ModelOptions(response_format=schema_of_answer))
    assert request_body(formatted, "none", stream=False)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema_of_answer},
    }
    without_tools = request_body(replace(with_tools, tools=()), "none", stream=False)
    assert "tool_choice" not in without_tools
    assert request_body(REQUEST, "none", stream=False).keys() == {"model", "messages"}


@pytest.mark.parametrize(
    "name", ["reasoning_effort", "temperature", "max_tokens", "tool_choice", "response_format"]
)
def test_option_that_an_error_names_is_left_out(name: str) -> None:
    options = ModelOptions("low", 0, 0.5, 500, ToolChoice.REQUIRED, {"type": "object"})
    request = replace(REQUEST, options=options, tools=(ToolDefinition("look", "Looks.", schema()),))
    body = request_body(request, "none", stream=False)

    assert refused_option(body, f"The parameter '{name}' is not supported.") == name
    left = request_body(request, "none", [name], stream=False)
    assert body.keys() - left.keys() == {name}


def test_files_become_parts_of_their_message() -> None:
    files = (
        ModelFile("tea.png", "image/png", "/files/1", b"png"),
        ModelFile("bill.pdf", "application/pdf", "/files/2", b"pdf"),
    )
    told = ChatMessage(ChatRole.USER, "See these", files=files)

    [message] = request_body(replace(REQUEST, messages=(told,)), "none", stream=False)["messages"]

    assert message["content"] == [
        {"type": "text", "text": "See these"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "file", "file": {"filename": "bill.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
    ]


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


def test_response_that_only_python_parses_is_accepted() -> None:
    assert parse_response(b'{"choices": [{"message": {"content": "a\\ud800b"}}], "x": NaN}').text == "a?b"


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


@pytest.mark.parametrize(
    "message",
    [{"content": [{"text": "N"}, {"text": "o."}]}, {"content": None, "refusal": "No."}],
)
def test_text_comes_in_parts_or_is_a_refusal(message: dict[str, Any]) -> None:
    assert whole(message).text == streamed(chunk(message)).text == "No."


def test_characters_that_cannot_be_stored_are_removed() -> None:
    call = '{"function": {"name": "look\\u0000_up", "arguments": {"word": "tea"}}}'
    message = f'{{"content": "a\\u0000b\\ud800c", "tool_calls": [{call}]}}'
    response = parse_response(f'{{"choices": [{{"message": {message}}}]}}'.encode())
    [parsed] = response.tool_calls
    assert (response.text, parsed.name, parsed.arguments) == ("ab?c", "look_up", '{"word": "tea"}')
    assert parsed.id.startswith("call_")


def test_tool_calls_of_a_response_get_unique_ids() -> None:
    calls = [tool_call(id_, "look_up") for id_ in ("same", "same", None, "", "x" * 1000)]
    ids = [each.id for each in whole({"tool_calls": calls}).tool_calls]
    assert ids[0] == "same"
    assert len(set(ids)) == 5
    assert all(0 < len(id_) < 64 for id_ in ids)


@pytest.mark.parametrize(
    "calls",
    [
        [tool_call("a", "one", index=0), tool_call("b", "two", index=0)],
        [tool_call("a", "one"), tool_call("b", "two")],
        [tool_call("", "one"), tool_call("", "two")],
        [tool_call("a", "one", index=7), tool_call("b", "two", index=2)],
    ],
    ids=["the same index", "no index", "neither index nor id", "indexes that jump"],
)
def test_streamed_calls_are_separated_with_any_indexes(calls: list[dict[str, Any]]) -> None:
    response = streamed(*(chunk({"tool_calls": [call]}) for call in calls))
    assert [(each.name, each.arguments) for each in response.tool_calls] == [("one", "{}"), ("two", "{}")]


def test_streamed_parts_that_repeat_id_and_name_are_one_call() -> None:
    parts = [tool_call("a", "one", piece, index=0) for piece in ('{"word": ', '"tea"}')]
    [call] = streamed(*(chunk({"tool_calls": [part]}) for part in parts)).tool_calls
    assert (call.id, call.name, call.arguments) == ("a", "one", '{"word": "tea"}')


def test_streamed_arguments_as_object_may_contain_any_number() -> None:
    [call] = streamed(chunk({"tool_calls": [tool_call("a", "one", {"n": 2**80})]})).tool_calls
    assert call.arguments == f'{{"n": {2**80}}}'


@pytest.mark.parametrize(
    ("reported", "counted"),
    [
        ({"prompt_tokens": "120", "completion_tokens": 10.0}, (120, 10, 0)),
        ({"prompt_tokens": -5, "completion_tokens": None}, (0, 0, 0)),
        ({"prompt_tokens": 2**62, "completion_tokens": 10}, (0, 10, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (5, 0, 5)),
        ([1], (0, 0, 0)),
    ],
)
def test_usage_is_parsed_leniently(reported: Any, counted: tuple[int, int, int]) -> None:
    response = whole({"content": "Hi."}, usage=reported)
    assert (response.input_tokens, response.output_tokens, response.cached_tokens) == counted


def test_stream_ignores_final_usage_of_zeros() -> None:
    usages = ({"prompt_tokens": 7}, {"prompt_tokens": 0})
    assert streamed(*({"choices": [], "usage": usage} for usage in usages)).input_tokens == 7
