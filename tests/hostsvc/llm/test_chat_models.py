"""The client of the chat-completions protocol, against an endpoint on a real socket."""

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
from hostsvc.llm.configured_models import open_models
from hostsvc.llm.providers import ProviderSettings
from supervisors.engine.run import RunError
from supervisors.llm.port import ChatMessage, ChatRole, Model, ModelRequest, ToolRequest
from supervisors.tools.toolkit import ToolDefinition, schema
from tests.openai_endpoint import BreaksOff, Endpoint, Hangs, Refuses, Says, open_endpoint

KEY = "sk-the-key-of-this-test"
HELLO = ModelRequest(
    "some-model", (ChatMessage(ChatRole.SYSTEM, "Be kind."), ChatMessage(ChatRole.USER, "Hello!"))
)
TOOL = ToolDefinition("look_up", "Looks something up.", schema(("word",), word={"type": "string"}))
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@asynccontextmanager
async def calling(endpoint: Endpoint, *, key: str = KEY, **settings: Any) -> AsyncIterator[Model]:
    """A client that does not try again, unless it is told to."""
    provider = ProviderSettings(
        endpoint.url, **{"api_key_env": "THE_KEY", "max_retries": 0, "timeout_seconds": 10.0, **settings}
    )
    async with open_models({"acme": provider}, {"acme": key} if key else {}) as models:
        yield models["acme"]


async def failure(models: Model, request: ModelRequest = HELLO) -> str:
    with pytest.raises(RunError) as caught:
        await models.complete(request)
    return str(caught.value)


@STREAMS
async def test_an_answer_is_read_with_what_it_used(stream: bool) -> None:
    said = Says(
        "Let me see.",
        calls=[("look_up", '{"word": "tea"}'), ("look_up", '{"word": "coffee"}')],
        input_tokens=1200,
        output_tokens=34,
        cached_tokens=1000,
    )
    async with open_endpoint(said) as endpoint, calling(endpoint, stream=stream) as models:
        answer = await models.complete(HELLO)

    assert answer.text.replace(" ", "") == "Letmesee."
    assert [(each.name, each.arguments) for each in answer.tool_requests] == said.calls
    assert len({each.id for each in answer.tool_requests}) == 2
    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == (1200, 34, 1000)
    assert (answer.model, answer.finish_reason) == ("some-model-2026-11-01", "tool_calls")
    assert answer.id.startswith("chatcmpl-")


async def test_a_call_holds_the_conversation_and_the_tools() -> None:
    wanted = ToolRequest("call_7", "look_up", '{"word": "tea"}')
    broken = ToolRequest("call_8", "look_up", '{"word": ')
    request = ModelRequest(
        "some-model",
        (
            *HELLO.messages,
            ChatMessage(ChatRole.ASSISTANT, "", (wanted, broken)),
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
                # What is not JSON would make some servers fail for the rest of the conversation.
                {"id": "call_8", "type": "function", "function": {"name": "look_up", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": '{"result":"a drink"}', "tool_call_id": "call_7"},
    ]
    [tool] = call.body["tools"]
    assert (tool["type"], tool["function"]["parameters"]) == ("function", TOOL.parameters)
    assert call.body.keys() == {"model", "messages", "tools"}


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
async def test_without_a_key_none_is_sent_nor_what_the_sdk_finds_in_the_environment(
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
async def test_a_limit_of_thinking_is_sent_as_the_provider_takes_it(
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
async def test_what_fails_for_the_moment_is_tried_again(bad: Refuses | BreaksOff, stream: bool) -> None:
    async with (
        open_endpoint(bad, Says("Hi.")) as endpoint,
        calling(endpoint, max_retries=1, stream=stream) as models,
    ):
        answer = await models.complete(HELLO)

    assert (answer.text, len(endpoint.calls)) == ("Hi.", 2)


async def test_a_retry_waits_as_long_as_the_provider_asks() -> None:
    async with (
        open_endpoint(Refuses(429, retry_after="1"), Says("Hi.")) as endpoint,
        calling(endpoint, max_retries=1) as models,
    ):
        began = time.monotonic()
        await models.complete(HELLO)

    assert 1.0 <= time.monotonic() - began < 1.5


async def test_a_cancelled_call_does_not_finish_its_wait_for_a_retry() -> None:
    async with (
        open_endpoint(Refuses(429, retry_after="60")) as endpoint,
        calling(endpoint, max_retries=1) as models,
    ):
        call = asyncio.create_task(models.complete(HELLO))
        await endpoint.called()
        began = time.monotonic()
        call.cancel()
        await asyncio.wait({call})

    assert call.cancelled()
    assert time.monotonic() - began < 0.1


@STREAMS
@pytest.mark.parametrize("in_the_middle", [False, True])
async def test_a_cancelled_call_closes_its_connection(stream: bool, in_the_middle: bool) -> None:
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
        (Refuses(404, '{"detail": "Not Found"}'), "Check that it has a model some-model, and its base_url."),
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
        (Refuses(429), "Its limit of calls is reached, or what was paid for is used up."),
        (Refuses(307, "", ""), "refused the call with 307"),
        (BreaksOff(in_the_middle=False), "ended the connection in the middle of its answer."),
        (BreaksOff(), "ended the connection in the middle of its answer."),
    ],
)
async def test_a_failure_says_what_went_wrong_and_what_to_do(
    act: Refuses | BreaksOff, says: str, stream: bool
) -> None:
    async with open_endpoint(act) as endpoint, calling(endpoint, stream=stream) as models:
        message = await failure(models)

    assert message.startswith("The model provider acme ")
    assert says in message
    assert KEY[:8] not in message


@STREAMS
@pytest.mark.parametrize("in_the_middle", [False, True])
async def test_a_silent_provider_is_given_up(stream: bool, in_the_middle: bool) -> None:
    async with (
        open_endpoint(Hangs(in_the_middle)) as endpoint,
        calling(endpoint, stream=stream, timeout_seconds=0.2) as models,
    ):
        assert await failure(models) == "The model provider acme was silent for 0.2 s."


async def test_nobody_at_the_address_is_a_failure_that_does_not_name_it() -> None:
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
        ('{"choices": [{"message": {"tool_calls": [{}]}}]}', "a tool call of it names no function"),
    ],
)
async def test_an_answer_that_is_none_is_shown_in_part(body: str, says: str) -> None:
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint) as models:
        assert says in await failure(models)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("data: Hello!\n\n", "gave no valid answer: "),
        ("data: []\n\n", "gave no valid answer: a chunk of its stream is no object: []"),
        ('data: {"error": {"message": "Overloaded"}}\n\n', "failed in the middle of its answer: Overloaded"),
        ("", "gave no valid answer: it is no stream"),
        ("<html>Welcome!</html>", "gave no valid answer: it is no stream"),
        ('data: {"choices": []}\n\n', "gave no valid answer: its stream ended in the middle of the answer"),
        ("data: " + '{"a":' * 100_000 + "\n\n", "gave no valid answer: its stream is not JSON"),
    ],
)
async def test_a_stream_that_is_none_is_a_failure(body: str, says: str) -> None:
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=True) as models:
        assert says in await failure(models)


async def test_half_a_stream_is_a_failure_even_if_it_ends_politely() -> None:
    async with (
        open_endpoint(BreaksOff(politely=True)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        message = await failure(models)

    assert message.endswith("gave no valid answer: its stream ended in the middle of the answer")


@STREAMS
@pytest.mark.parametrize("shape", ["%s", '{"oops": "%s"}', 'data: "%s"\n\n', 'data: {"error": "%s"}\n\n'])
async def test_where_an_answer_is_cut_no_part_of_the_key_is_left(shape: str, stream: bool) -> None:
    body = shape % ("x" * 285 + KEY)
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=stream) as models:
        assert KEY[:6] not in await failure(models)


async def test_what_cannot_be_stored_is_left_out_of_an_answer() -> None:
    body = (
        '{"choices": [{"message": {"content": "a\\u0000b\\ud800c", "tool_calls": '
        '[{"function": {"name": "look\\u0000_up", "arguments": {"word": "tea"}}}]}}]}'
    )
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint) as models:
        answer = await models.complete(HELLO)

    [wanted] = answer.tool_requests
    assert (answer.text, wanted.name, wanted.arguments) == ("ab?c", "look_up", '{"word": "tea"}')
    assert wanted.id.startswith("call_")


def whole(**said: Any) -> Refuses:
    """An answer word for word, with this message."""
    return Refuses(200, orjson.dumps({"choices": [{"message": said}]}).decode())


def streamed(*chunks: Any) -> Refuses:
    """A stream of these chunks."""
    events = (f"data: {orjson.dumps(chunk).decode()}\n\n" for chunk in chunks)
    return Refuses(200, "".join([*events, "data: [DONE]\n\n"]))


def wanting(id_: str | None, name: str, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    """A tool call, or a part of one, as a server writes it."""
    return {"id": id_, "function": {"name": name, "arguments": arguments}, **more}


async def test_calls_of_one_answer_have_ids_of_their_own() -> None:
    calls = [wanting(id_, "look_up") for id_ in ("same", "same", None, "", "x" * 1000)]
    async with open_endpoint(whole(tool_calls=calls)) as endpoint, calling(endpoint) as models:
        answer = await models.complete(HELLO)

    ids = [each.id for each in answer.tool_requests]
    assert ids[0] == "same"
    assert len(set(ids)) == 5
    assert all(0 < len(id_) < 64 for id_ in ids)


@pytest.mark.parametrize(
    "calls",
    [
        [wanting("a", "one", index=0), wanting("b", "two", index=0)],
        [wanting("a", "one"), wanting("b", "two")],
        [wanting("", "one"), wanting("", "two")],
        [wanting("a", "one", index=7), wanting("b", "two", index=2)],
    ],
    ids=["the same index", "no index", "neither index nor id", "indexes that jump"],
)
async def test_streamed_calls_are_told_apart_whatever_their_indexes(calls: list[dict[str, Any]]) -> None:
    chunks = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    async with (
        open_endpoint(streamed(*chunks, end)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        answer = await models.complete(HELLO)

    assert [(each.name, each.arguments) for each in answer.tool_requests] == [("one", "{}"), ("two", "{}")]


async def test_the_parts_of_a_streamed_call_are_one_even_if_each_repeats_its_id_and_name() -> None:
    parts = [wanting("a", "one", piece, index=0) for piece in ('{"word": ', '"tea"}')]
    chunks = [{"choices": [{"delta": {"tool_calls": [part]}}]} for part in parts]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    async with (
        open_endpoint(streamed(*chunks, end)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        [call] = (await models.complete(HELLO)).tool_requests

    assert (call.id, call.name, call.arguments) == ("a", "one", '{"word": "tea"}')


async def test_streamed_arguments_that_are_an_object_may_hold_any_number() -> None:
    call = f'{{"function": {{"name": "f", "arguments": {{"n": {2**80}}}}}}}'
    choice = f'{{"delta": {{"tool_calls": [{call}]}}, "finish_reason": "stop"}}'
    body = f'data: {{"choices": [{choice}]}}\n\n'
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=True) as models:
        [request] = (await models.complete(HELLO)).tool_requests

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
async def test_usage_is_read_as_servers_write_it(reported: Any, counted: tuple[int, int, int]) -> None:
    body = orjson.dumps({"choices": [{"message": {"content": "Hi."}}], "usage": reported}).decode()
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint) as models:
        answer = await models.complete(HELLO)

    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == counted


async def test_a_stream_that_ends_with_a_usage_of_zeros_keeps_what_it_said_before() -> None:
    said = {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    chunks = ({**said, "usage": {"prompt_tokens": 7}}, {"choices": [], "usage": {"prompt_tokens": 0}})
    async with (
        open_endpoint(streamed(*chunks)) as endpoint,
        calling(endpoint, stream=True) as models,
    ):
        assert (await models.complete(HELLO)).input_tokens == 7


@STREAMS
@pytest.mark.parametrize("compressed", [False, True])
async def test_an_answer_without_end_is_given_up(
    compressed: bool, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_models, "ANSWER_BYTES", 2**16)
    act = Refuses(200, " " * 2**20, compressed=compressed)
    async with open_endpoint(act) as endpoint, calling(endpoint, stream=stream) as models:
        assert (await failure(models)).endswith("gave no valid answer: it is longer than 65536 bytes")


@STREAMS
async def test_a_compressed_answer_is_read(stream: bool) -> None:
    end = {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    act = replace(streamed(end) if stream else whole(content="Hi."), compressed=True)
    async with open_endpoint(act) as endpoint, calling(endpoint, stream=stream) as models:
        assert (await models.complete(HELLO)).text == "Hi."


async def test_a_stream_that_breaks_off_is_not_said_to_have_been_tried_again() -> None:
    async with (
        open_endpoint(Hangs(in_the_middle=True)) as endpoint,
        calling(endpoint, stream=True, max_retries=2, timeout_seconds=0.2) as models,
    ):
        assert await failure(models) == "The model provider acme was silent for 0.2 s."


@STREAMS
async def test_a_provider_that_reports_no_usage_is_told_of_in_the_log(stream: bool) -> None:
    async with (
        open_endpoint(Says("Hi.", reports_usage=False)) as endpoint,
        calling(endpoint, stream=stream) as models,
    ):
        with capture_logs() as logged:
            answer = await models.complete(HELLO)

    assert (answer.input_tokens, answer.output_tokens) == (0, 0)
    assert [(line["event"], line["provider"]) for line in logged] == [
        ("a provider reports no usage: the call is not billed", "acme")
    ]


async def test_a_hundred_and_fifty_waiting_calls_do_not_keep_another_from_asking() -> None:
    async with open_endpoint(*[Hangs()] * 150, Says("Hi.")) as endpoint, calling(endpoint) as models:
        waiting = [asyncio.create_task(models.complete(HELLO)) for _ in range(150)]
        await endpoint.called(150)
        assert (await models.complete(HELLO)).text == "Hi."
        for call in waiting:
            call.cancel()
        await asyncio.wait(waiting)


async def test_neither_settings_nor_client_show_the_key() -> None:
    async with open_endpoint() as endpoint, calling(endpoint) as models:
        assert KEY not in repr(models)
