"""Calls to models, against an endpoint of the chat-completions protocol on a real socket."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from hostsvc.llm import chat_models
from hostsvc.llm.chat_models import connect
from hostsvc.llm.providers import ProviderSettings
from supervisors.engine.run import RunError
from supervisors.llm.port import ChatMessage, ChatRole, Model, ModelCallFailed, ModelRequest, ToolCall
from supervisors.tools.tool import ToolDefinition, schema
from tests.openai_endpoint import BreaksOff, Endpoint, Hangs, Refuses, Says, open_endpoint

KEY = "sk-the-key-of-this-test"
HELLO = ModelRequest(
    "some-model", (ChatMessage(ChatRole.SYSTEM, "Be kind."), ChatMessage(ChatRole.USER, "Hello!"))
)
TOOL = ToolDefinition("look_up", "Looks something up.", schema(("word",), word={"type": "string"}))
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@asynccontextmanager
async def calling(endpoint: Endpoint, *, key: str = KEY, **settings: Any) -> AsyncIterator[Model]:
    """Open a client that does not retry, unless `max_retries` says so."""
    provider = ProviderSettings(
        endpoint.url, **{"api_key_env": "THE_KEY", "max_retries": 0, "timeout_seconds": 10.0, **settings}
    )
    async with connect({"acme": provider}, {"acme": key} if key else {}) as models:
        yield models["acme"]


async def failure(models: Model, request: ModelRequest = HELLO) -> str:
    with pytest.raises(RunError) as caught:
        await models.complete(request)
    return str(caught.value)


@STREAMS
async def test_response_is_parsed_with_its_usage(stream: bool) -> None:
    script = Says(
        "Let me see.",
        calls=[("look_up", '{"word": "tea"}'), ("look_up", '{"word": "coffee"}')],
        input_tokens=1200,
        output_tokens=34,
        cached_tokens=1000,
    )
    async with open_endpoint(script) as endpoint, calling(endpoint, stream=stream) as models:
        answer = await models.complete(HELLO)

    assert answer.text.replace(" ", "") == "Letmesee."
    assert [(each.name, each.arguments) for each in answer.tool_calls] == script.calls
    assert len({each.id for each in answer.tool_calls}) == 2
    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == (1200, 34, 1000)
    assert (answer.model, answer.finish_reason) == ("some-model-2026-11-01", "tool_calls")
    assert answer.id.startswith("chatcmpl-")


async def test_request_contains_conversation_and_tools() -> None:
    valid = ToolCall("call_7", "look_up", '{"word": "tea"}')
    broken = ToolCall("call_8", "look_up", '{"word": ')
    request = ModelRequest(
        "some-model",
        (
            *HELLO.messages,
            ChatMessage(ChatRole.ASSISTANT, "", (valid, broken)),
            ChatMessage(ChatRole.TOOL, '{"result":"a drink"}', tool_call_id="call_7"),
        ),
        (TOOL,),
    )
    async with open_endpoint(Says("Tea.")) as endpoint, calling(endpoint) as models:
        await models.complete(request)

    [call] = endpoint.calls
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello!"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_7",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": '{"word": "tea"}'},
                },
                # Arguments that are not JSON would make some servers fail for the rest of the conversation.
                {"id": "call_8", "type": "function", "function": {"name": "look_up", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": '{"result":"a drink"}', "tool_call_id": "call_7"},
    ]
    [tool] = call.body["tools"]
    assert (tool["type"], tool["function"]["parameters"]) == ("function", TOOL.parameters)
    assert call.body.keys() == {"model", "messages", "tools"}


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
async def test_missing_key_is_not_replaced_from_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "somebody's")
    async with open_endpoint(Says("Hi.")) as endpoint, calling(endpoint, key="") as models:
        await models.complete(HELLO)

    assert "authorization" not in endpoint.calls[0].headers
    assert "somebody's" not in endpoint.calls[0].headers.values()


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
async def test_thinking_limit_is_sent_in_the_configured_field(
    field: str, thinking_max_tokens: int, sent: dict[str, Any]
) -> None:
    request = ModelRequest("m", HELLO.messages, (), "high", thinking_max_tokens)
    async with open_endpoint(Says("Hi.")) as endpoint, calling(endpoint, thinking_field=field) as models:
        await models.complete(request)

    body = endpoint.calls[0].body
    assert {key: body[key] for key in body.keys() - {"model", "messages"}} == sent


@STREAMS
@pytest.mark.parametrize(
    "bad", [Refuses(500), Refuses(503), Refuses(429, retry_after="0.05"), BreaksOff(in_the_middle=False)]
)
async def test_temporary_failures_are_retried(bad: Refuses | BreaksOff, stream: bool) -> None:
    async with (
        open_endpoint(bad, Says("Hi.")) as endpoint,
        calling(endpoint, max_retries=1, stream=stream) as models,
    ):
        answer = await models.complete(HELLO)

    assert (answer.text, len(endpoint.calls)) == ("Hi.", 2)


@pytest.mark.real_time
async def test_retry_waits_as_long_as_the_provider_asks() -> None:
    async with (
        open_endpoint(Refuses(429, retry_after="1"), Says("Hi.")) as endpoint,
        calling(endpoint, max_retries=1) as models,
    ):
        started = time.monotonic()
        await models.complete(HELLO)

    assert 1.0 <= time.monotonic() - started < 1.5


@pytest.mark.real_time
async def test_cancelled_call_does_not_wait_for_its_retry() -> None:
    async with (
        open_endpoint(Refuses(429, retry_after="60")) as endpoint,
        calling(endpoint, max_retries=1) as models,
    ):
        call = asyncio.create_task(models.complete(HELLO))
        await endpoint.called()
        started = time.monotonic()
        call.cancel()
        await asyncio.wait({call})

    assert call.cancelled()
    assert time.monotonic() - started < 0.1


@STREAMS
@pytest.mark.parametrize("in_the_middle", [False, True])
async def test_cancelled_call_closes_its_connection(stream: bool, in_the_middle: bool) -> None:
    async with open_endpoint(Hangs(in_the_middle)) as endpoint, calling(endpoint, stream=stream) as models:
        call = asyncio.create_task(models.complete(HELLO))
        await endpoint.called()
        call.cancel()
        await asyncio.wait({call})
        await endpoint.until(lambda: endpoint.disconnects == 1)


@STREAMS
@pytest.mark.parametrize(
    ("act", "says"),
    [
        (Refuses(500), 'refused the call with 500 Internal Server Error: "Something went wrong.".'),
        (Refuses(502, "<html>Bad\n gateway</html>"), '502 Bad Gateway: "<html>Bad gateway</html>".'),
        (
            Refuses(401, f'{{"error": {{"message": "Incorrect key {KEY}."}}}}'),
            'with 401 Unauthorized: "Incorrect key (hidden).". Check the key in THE_KEY.',
        ),
        (Refuses(403, f'{{"error": "{"x" * 290} {KEY}"}}'), 'x (hidden)". Check the key in THE_KEY.'),
        (Refuses(404, '{"detail": "Not Found"}'), "Check its base_url, and that it has a model some-model."),
        (
            Refuses(
                400,
                '{"error": {"code": "context_length_exceeded", "message": "At most 8192 tokens, please."}}',
            ),
            "The conversation is too long for some-model.",
        ),
        (
            Refuses(400, '{"error": "This model\'s maximum context length is 8192 tokens."}'),
            "The conversation is too long for some-model.",
        ),
        (Refuses(429), "Its rate limit is reached, or its quota is used up."),
        (Refuses(307, "", ""), "refused the call with 307"),
        (BreaksOff(in_the_middle=False), "ended the connection in the middle of its answer."),
        (BreaksOff(), "ended the connection in the middle of its answer."),
    ],
)
async def test_failure_says_what_is_wrong_and_what_to_do(
    act: Refuses | BreaksOff, says: str, stream: bool
) -> None:
    async with open_endpoint(act) as endpoint, calling(endpoint, stream=stream) as models:
        message = await failure(models)

    assert message.startswith("The model provider acme ")
    assert says in message
    assert KEY[:8] not in message


@STREAMS
@pytest.mark.parametrize("in_the_middle", [False, True])
async def test_silent_provider_times_out(stream: bool, in_the_middle: bool) -> None:
    async with (
        open_endpoint(Hangs(in_the_middle)) as endpoint,
        calling(endpoint, stream=stream, timeout_seconds=0.2) as models,
    ):
        assert await failure(models) == "The model provider acme was silent for 0.2 s."


async def test_unreachable_provider_fails_without_naming_its_address() -> None:
    async with open_endpoint() as endpoint:
        url = endpoint.url
    async with calling(Endpoint(url=url), max_retries=1) as models:
        message = await failure(models)

    assert message == "The model provider acme cannot be reached: Connection refused (2 attempts)."


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("Hello!", "gave no valid answer: it is not JSON: Hello!"),
        ("", "gave no valid answer: it is empty"),
        ('{"a":' * 100_000, 'gave no valid answer: it is not JSON: {"a":'),
        ('{"error": {"message": "Overloaded", "code": 502}}', "choices[0].message: Overloaded"),
        ("[]", "gave no valid answer: it holds no choices[0].message: []"),
        ('{"choices": []}', "gave no valid answer: it holds no choices[0].message"),
        ('{"choices": [{"message": "Hi"}]}', "gave no valid answer: it holds no choices[0].message"),
        ('{"choices": [{"message": {"tool_calls": [{}]}}]}', "one of its tool calls names no function"),
    ],
)
async def test_invalid_response_is_quoted_in_part(body: str, says: str) -> None:
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint) as models:
        assert says in await failure(models)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("data: Hello!\n\n", "gave no valid answer: "),
        ("data: []\n\n", "gave no valid answer: a chunk of its stream is not an object: []"),
        ('data: {"error": {"message": "Overloaded"}}\n\n', "failed in the middle of its answer: Overloaded"),
        ("", "gave no valid answer: it is not a stream"),
        ("<html>Welcome!</html>", "gave no valid answer: it is not a stream"),
        ('data: {"choices": []}\n\n', "gave no valid answer: its stream ended in the middle of the answer"),
        ("data: " + '{"a":' * 100_000 + "\n\n", "gave no valid answer: its stream is not JSON"),
    ],
)
async def test_invalid_stream_fails(body: str, says: str) -> None:
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=True) as models:
        assert says in await failure(models)


@pytest.mark.parametrize("politely", [False, True])
async def test_failure_of_a_stream_has_the_part_that_arrived(politely: bool) -> None:
    async with (
        open_endpoint(BreaksOff(politely=politely, after="I would")) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        with pytest.raises(ModelCallFailed) as failed:
            await models.complete(HELLO)

    assert failed.value.partial is not None
    assert failed.value.partial.text == "I would"


async def test_refused_call_has_no_part_of_an_answer() -> None:
    async with open_endpoint(Refuses(400)) as endpoint, calling(endpoint, stream=True) as models:
        with pytest.raises(ModelCallFailed) as failed:
            await models.complete(HELLO)

    assert failed.value.partial is None


async def test_incomplete_stream_fails_even_if_closed_cleanly() -> None:
    async with (
        open_endpoint(BreaksOff(politely=True)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        message = await failure(models)

    assert message.endswith("gave no valid answer: its stream ended in the middle of the answer")


@STREAMS
@pytest.mark.parametrize("shape", ["%s", '{"oops": "%s"}', 'data: "%s"\n\n', 'data: {"error": "%s"}\n\n'])
async def test_quoted_response_contains_no_part_of_the_key(shape: str, stream: bool) -> None:
    body = shape % ("x" * 285 + KEY)
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=stream) as models:
        assert KEY[:6] not in await failure(models)


async def test_characters_that_cannot_be_stored_are_removed() -> None:
    body = (
        '{"choices": [{"message": {"content": "a\\u0000b\\ud800c", "tool_calls": '
        '[{"function": {"name": "look\\u0000_up", "arguments": {"word": "tea"}}}]}}]}'
    )
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint) as models:
        answer = await models.complete(HELLO)

    [call] = answer.tool_calls
    assert (answer.text, call.name, call.arguments) == ("ab?c", "look_up", '{"word": "tea"}')
    assert call.id.startswith("call_")


def whole(**message: Any) -> Refuses:
    """Return a response with exactly this message."""
    return Refuses(200, orjson.dumps({"choices": [{"message": message}]}).decode())


def streamed(*chunks: Any) -> Refuses:
    """Return a stream of these chunks."""
    events = (f"data: {orjson.dumps(chunk).decode()}\n\n" for chunk in chunks)
    return Refuses(200, "".join([*events, "data: [DONE]\n\n"]))


def tool_call(id_: str | None, name: str, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    """Return a tool call, or a part of one, as a server writes it."""
    return {"id": id_, "function": {"name": name, "arguments": arguments}, **more}


async def test_tool_calls_of_a_response_get_unique_ids() -> None:
    calls = [tool_call(id_, "look_up") for id_ in ("same", "same", None, "", "x" * 1000)]
    async with open_endpoint(whole(tool_calls=calls)) as endpoint, calling(endpoint) as models:
        answer = await models.complete(HELLO)

    ids = [each.id for each in answer.tool_calls]
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
async def test_streamed_calls_are_separated_with_any_indexes(calls: list[dict[str, Any]]) -> None:
    chunks = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    async with (
        open_endpoint(streamed(*chunks, end)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        answer = await models.complete(HELLO)

    assert [(each.name, each.arguments) for each in answer.tool_calls] == [("one", "{}"), ("two", "{}")]


async def test_streamed_parts_that_repeat_id_and_name_are_one_call() -> None:
    parts = [tool_call("a", "one", piece, index=0) for piece in ('{"word": ', '"tea"}')]
    chunks = [{"choices": [{"delta": {"tool_calls": [part]}}]} for part in parts]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    async with (
        open_endpoint(streamed(*chunks, end)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        [call] = (await models.complete(HELLO)).tool_calls

    assert (call.id, call.name, call.arguments) == ("a", "one", '{"word": "tea"}')


async def test_streamed_arguments_as_object_may_contain_any_number() -> None:
    call = f'{{"function": {{"name": "f", "arguments": {{"n": {2**80}}}}}}}'
    choice = f'{{"delta": {{"tool_calls": [{call}]}}, "finish_reason": "stop"}}'
    body = f'data: {{"choices": [{choice}]}}\n\n'
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=True) as models:
        [request] = (await models.complete(HELLO)).tool_calls

    assert request.arguments == f'{{"n": {2**80}}}'


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
async def test_usage_is_parsed_leniently(reported: Any, counted: tuple[int, int, int]) -> None:
    body = orjson.dumps({"choices": [{"message": {"content": "Hi."}}], "usage": reported}).decode()
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint) as models:
        answer = await models.complete(HELLO)

    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == counted


async def test_stream_ignores_final_usage_of_zeros() -> None:
    first = {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    chunks = ({**first, "usage": {"prompt_tokens": 7}}, {"choices": [], "usage": {"prompt_tokens": 0}})
    async with (
        open_endpoint(streamed(*chunks)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        assert (await models.complete(HELLO)).input_tokens == 7


@STREAMS
@pytest.mark.parametrize("compressed", [False, True])
async def test_endless_response_fails_at_the_limit(
    compressed: bool, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_models, "MAX_RESPONSE_BYTES", 2**16)
    endless = Refuses(200, " " * 2**20, compressed=compressed)
    async with open_endpoint(endless) as endpoint, calling(endpoint, stream=stream) as models:
        assert (await failure(models)).endswith("gave no valid answer: it is longer than 65536 bytes")


@STREAMS
async def test_compressed_response_is_parsed(stream: bool) -> None:
    end = {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    act = replace(streamed(end) if stream else whole(content="Hi."), compressed=True)
    async with open_endpoint(act) as endpoint, calling(endpoint, stream=stream) as models:
        assert (await models.complete(HELLO)).text == "Hi."


async def test_failure_of_broken_stream_mentions_no_retries() -> None:
    async with (
        open_endpoint(Hangs(in_the_middle=True)) as endpoint,
        calling(endpoint, stream=True, max_retries=2, timeout_seconds=0.2) as models,
    ):
        assert await failure(models) == "The model provider acme was silent for 0.2 s."


@STREAMS
async def test_missing_usage_is_logged(stream: bool) -> None:
    async with (
        open_endpoint(Says("Hi.", reports_usage=False)) as endpoint,
        calling(endpoint, stream=stream) as models,
    ):
        with capture_logs() as logged:
            answer = await models.complete(HELLO)

    assert (answer.input_tokens, answer.output_tokens) == (0, 0)
    assert [(line["event"], line["provider"]) for line in logged] == [
        ("a provider reports no usage, so the call costs nothing", "acme")
    ]


async def test_waiting_calls_do_not_block_another_call() -> None:
    async with open_endpoint(*[Hangs()] * 150, Says("Hi.")) as endpoint, calling(endpoint) as models:
        waiting = [asyncio.create_task(models.complete(HELLO)) for _ in range(150)]
        await endpoint.called(150)
        assert (await models.complete(HELLO)).text == "Hi."
        for call in waiting:
            call.cancel()
        await asyncio.wait(waiting)


async def test_repr_hides_the_key() -> None:
    async with open_endpoint() as endpoint, calling(endpoint) as models:
        assert KEY not in repr(models)
