"""Calls to models, against an endpoint of the chat-completions protocol on a real socket."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from hostsvc.llm import chat_models
from hostsvc.llm.chat_models import connect
from hostsvc.llm.providers import ProviderSettings
from supervisors.engine.run import RunError
from supervisors.llm.port import (
    ChatMessage,
    ChatRole,
    Model,
    ModelCallFailed,
    ModelFile,
    ModelOptions,
    ModelRequest,
    ToolCall,
)
from supervisors.tools.tool import ToolDefinition, schema
from tests.openai_endpoint import BreaksOff, Endpoint, Hangs, Refuses, Says, open_endpoint
from tests.raw_server import raw_server

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


async def test_proxy_of_the_environment_is_used_and_netrc_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with open_endpoint(Says("Hi."), Says("Hi.")) as endpoint:
        monkeypatch.setenv("http_proxy", endpoint.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "")
        async with calling(replace(endpoint, url="http://models.example/v1")) as models:
            await models.complete(HELLO)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with calling(endpoint) as models:
            await models.complete(HELLO)

    assert [call.headers["authorization"] for call in endpoint.calls] == [f"Bearer {KEY}"] * 2
    assert endpoint.calls[0].headers["host"] == "models.example"


async def test_proxy_without_a_scheme_is_called_by_http(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_endpoint(Says("Hi.")) as endpoint:
        monkeypatch.setenv("http_proxy", endpoint.url.removeprefix("http://").removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "")
        async with calling(replace(endpoint, url="http://models.example/v1")) as models:
            await models.complete(HELLO)

    assert endpoint.calls[0].headers["host"] == "models.example"


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

    assert 1.0 <= time.monotonic() - started < 30


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
    assert time.monotonic() - started < 30


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


NESTED = '{"a":' * 40_000


@pytest.mark.parametrize(
    ("stream", "body", "says"),
    [
        (False, "Hello!", "gave no valid answer: it is not JSON: Hello!"),
        (False, "", "gave no valid answer: it is empty"),
        (False, NESTED, 'gave no valid answer: it is not JSON: {"a":'),
        (False, '{"error": {"message": "Overloaded", "code": 502}}', "choices[0].message: Overloaded"),
        (False, "[]", "gave no valid answer: it holds no choices[0].message: []"),
        (False, '{"choices": []}', "gave no valid answer: it holds no choices[0].message"),
        (False, '{"choices": [{"message": "Hi"}]}', "gave no valid answer: it holds no choices[0].message"),
        (
            False,
            '{"choices": [{"message": {"tool_calls": [{}]}}]}',
            "tool calls names no function",
        ),
        (True, "data: Hello!\n\n", "gave no valid answer: "),
        (True, "data: []\n\n", "gave no valid answer: a chunk of its stream is not an object: []"),
        (
            True,
            'data: {"error": {"message": "Busy"}}\n\n',
            "gave no valid answer: its stream ends with an error: Busy",
        ),
        (True, "", "gave no valid answer: it is not a stream"),
        (True, "<html>Welcome!</html>", "gave no valid answer: it is not a stream"),
        (True, 'data: {"choices": []}\n\n', "its stream ended in the middle of the answer"),
        (True, f"data: {NESTED}\n\n", "gave no valid answer: it is not JSON: "),
    ],
)
async def test_invalid_response_is_quoted_in_part(stream: bool, body: str, says: str) -> None:
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=stream) as models:
        assert says in await failure(models)


@STREAMS
@pytest.mark.parametrize(
    ("status", "shape", "says"),
    [
        (500, "%s", "refused the call with 500 Internal Server Error."),
        (400, '{"error": {"message": "%s"}}', "refused the call with 400 Bad Request."),
        (401, '{"error": "%s"}', "refused the call with 401 Unauthorized. Check the key in THE_KEY."),
        (
            400,
            '{"error": {"message": "%s", "code": "context_length_exceeded"}}',
            "refused the call with 400 Bad Request. The conversation is too long for some-model.",
        ),
        (200, "%s", "gave no valid answer: "),
        (200, '{"%s": 1}', "gave no valid answer: "),
        (200, 'data: "%s"\n\n', "gave no valid answer: "),
        (200, "data: %s\n\n", "gave no valid answer: "),
        (200, 'data: {"error": {"message": "%s"}}\n\n', ""),
    ],
)
async def test_response_stays_out_of_errors_and_log_without_quotes(
    status: int, shape: str, says: str, stream: bool
) -> None:
    private = replace(HELLO, may_quote=False)
    async with (
        open_endpoint(Refuses(status, shape % "Dear Ada")) as endpoint,
        calling(endpoint, stream=stream) as models,
    ):
        with capture_logs() as logged, pytest.raises(ModelCallFailed) as failed:
            await models.complete(private)

    assert says in str(failed.value)
    assert "Ada" not in f"{failed.value} {logged}"


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


@STREAMS
@pytest.mark.parametrize("shape", ["%s", '{"oops": "%s"}', 'data: "%s"\n\n', 'data: {"error": "%s"}\n\n'])
async def test_quoted_response_contains_no_part_of_the_key(shape: str, stream: bool) -> None:
    body = shape % ("x" * 285 + KEY)
    async with open_endpoint(Refuses(200, body)) as endpoint, calling(endpoint, stream=stream) as models:
        assert KEY[:6] not in await failure(models)


def whole(**message: Any) -> Refuses:
    """Return a response with exactly this message."""
    return Refuses(200, orjson.dumps({"choices": [{"message": message}]}).decode())


def streamed(*chunks: Any) -> Refuses:
    """Return a stream of these chunks."""
    events = (f"data: {orjson.dumps(chunk).decode()}\n\n" for chunk in chunks)
    return Refuses(200, "".join([*events, "data: [DONE]\n\n"]))


@STREAMS
async def test_endless_response_fails_at_the_limit(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_models, "MAX_STREAM_BYTES" if stream else "MAX_WHOLE_BYTES", 2**16)
    endless = Refuses(200, " " * 2**20)
    async with open_endpoint(endless) as endpoint, calling(endpoint, stream=stream) as models:
        assert (await failure(models)).endswith("gave no valid answer: it is longer than 65,536 bytes")


async def test_other_work_goes_on_while_a_long_stream_is_parsed() -> None:
    turn, turns_of_texts = 0, Counter[int]()

    async def work() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    texts = ({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]} for _ in range(5_000))
    act = streamed(*texts)
    request = replace(HELLO, on_text=lambda _: turns_of_texts.update([turn]))
    async with open_endpoint(act) as endpoint, calling(endpoint, stream=True) as models:
        working = asyncio.create_task(work())
        assert len((await models.complete(request)).text) == 5_000
        working.cancel()
    assert max(turns_of_texts.values()) <= 100


@STREAMS
async def test_compressed_response_is_refused(stream: bool) -> None:
    bomb = Refuses(200, " " * 2**20, compressed=True)
    async with open_endpoint(bomb) as endpoint, calling(endpoint, stream=stream) as models:
        assert (await failure(models)).endswith("it is compressed, which was not asked for")
    assert endpoint.calls[0].headers["accept-encoding"] == "identity"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\n"
INFORMATIONAL = b"HTTP/1.1 100 Continue\r\n\r\n"


@asynccontextmanager
async def flooding(begins: bytes, goes_on: bytes) -> AsyncIterator[tuple[Endpoint, Counter[str]]]:
    """Serve a beginning and then the same bytes for ever. Count them."""
    sent = Counter[str]()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}]")
        writer.write(begins)
        with suppress(ConnectionError):
            while True:
                writer.write(goes_on)
                await writer.drain()
                sent["bytes"] += len(goes_on)

    async with raw_server(flood, "/v1") as url:
        yield Endpoint(url=url), sent


@STREAMS
@pytest.mark.parametrize(
    ("begins", "goes_on", "says"),
    [
        (CHUNKED, b"1\r\n \r\n" * 10_000, "it came in more than 1,000 chunks of under 16 bytes on average"),
        (CHUNKED + b"1;", b"a" * 2**20, "it is longer than 67,108,864 bytes"),
        (b"", INFORMATIONAL * 10_000, "it has a head of more than 65,536 bytes"),
        (b"HTTP/1.1 400 Bad\r\n\r\n", b" no" * 10_000, 'refused the call with 400 Bad Request: "no no'),
        (
            b"HTTP/1.1 404 Bad\r\nContent-Type: text/plain" + b";" * 8_000 + b"\r\n\r\n",
            b"no ",
            "404 Not Found",
        ),
    ],
    ids=["tiny chunks", "chunk extension", "informational", "long refusal", "slow type"],
)
async def test_hostile_response_costs_little(begins: bytes, goes_on: bytes, says: str, stream: bool) -> None:
    async with (
        flooding(begins, goes_on) as (endpoint, sent),
        calling(endpoint, stream=stream) as models,
    ):
        assert says in await failure(models)
    assert sent["bytes"] < 2**28


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"data: " + b"a" * 2**20, "an event of it is longer than 1,048,576 bytes"),
        (b"data: 1\n" * 2**18, "an event of it is longer than 1,048,576 bytes"),
        (b"data: [" + b"[]," * 30_000, "an event of it is longer than 1,048,576 bytes"),
        (b"data: [" + b"[]," * 30_000 + b"[]]\n\n", "it holds more than 50,000 values"),
    ],
    ids=["one line", "lines", "no end", "values"],
)
async def test_event_of_a_stream_is_limited(body: bytes, says: str) -> None:
    async with (
        flooding(UNTIL_CLOSED, body) as (endpoint, _),
        calling(endpoint, stream=True) as models,
    ):
        assert says in await failure(models)


@STREAMS
async def test_kept_connection_has_the_limits_for_each_answer(stream: bool) -> None:
    end = {"choices": [{"delta": {"content": "Hi."}, "message": {"content": "Hi."}, "finish_reason": "stop"}]}
    body = orjson.dumps(end)
    if stream:
        body = b"data: " + body + b"\n\ndata: [DONE]\n\n"
    answer = INFORMATIONAL * 1_000 + CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    connections = 0

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"}]"):
                writer.write(answer)

    async with raw_server(converse, "/v1") as url, calling(Endpoint(url=url), stream=stream) as models:
        assert [(await models.complete(HELLO)).text for _ in range(4)] == ["Hi."] * 4
    assert connections == 1


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


WARM = replace(HELLO, options=ModelOptions("high", temperature=0.7, max_output_tokens=500))


def refuses(field: str, status: int = 400) -> Refuses:
    """Refuse a call as OpenAI refuses a field."""
    message = f"Unsupported parameter: '{field}' is not supported with this model."
    return Refuses(status, orjson.dumps({"error": {"message": message, "param": field}}).decode())


def sent_options(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the fields of each call but those that every call has."""
    others = ("model", "messages", "stream", "stream_options")
    return [{key: value for key, value in call.body.items() if key not in others} for call in endpoint.calls]


@STREAMS
async def test_refused_options_are_left_out_of_this_and_later_calls(stream: bool) -> None:
    acts = (refuses("temperature"), refuses("reasoning_effort", 422), Says("Hi."), Says("Hi again."))
    async with open_endpoint(*acts) as endpoint, calling(endpoint, stream=stream) as models:
        first, second = [await models.complete(WARM) for _ in range(2)]

    assert first.left_out == second.left_out == ("temperature", "reasoning_effort")
    whole = {"reasoning_effort": "high", "temperature": 0.7, "max_tokens": 500}
    rest = {"reasoning_effort": "high", "max_tokens": 500}
    assert sent_options(endpoint) == [whole, rest, {"max_tokens": 500}, {"max_tokens": 500}]


async def test_refused_limit_is_sent_by_its_newer_name() -> None:
    refused = refuses("max_tokens")
    async with open_endpoint(refused, Says("Hi.")) as endpoint, calling(endpoint) as models:
        answer = await models.complete(replace(HELLO, options=ModelOptions(max_output_tokens=500)))

    assert answer.left_out == ()
    assert sent_options(endpoint) == [{"max_tokens": 500}, {"max_completion_tokens": 500}]


async def test_option_is_tried_again_with_another_value() -> None:
    colder = replace(HELLO, options=ModelOptions(temperature=0.5))
    hotter = replace(HELLO, options=ModelOptions(temperature=1.5))
    acts = (refuses("temperature"), Says("Hi."), Says("Hi."))
    async with open_endpoint(*acts) as endpoint, calling(endpoint) as models:
        answers = [await models.complete(request) for request in (hotter, colder)]

    assert [answer.left_out for answer in answers] == [("temperature",), ()]
    assert sent_options(endpoint)[-1] == {"temperature": 0.5}


async def test_refusal_that_names_no_option_fails_the_call() -> None:
    acts = (Refuses(400), refuses("temperature", 401))
    async with open_endpoint(*acts) as endpoint, calling(endpoint) as models:
        assert "400" in await failure(models, WARM)
        assert "401" in await failure(models, WARM)
    assert len(endpoint.calls) == 2


PICTURE = ModelFile("tea.png", "image/png", "/files/1", b"png")
SEEN = replace(HELLO, messages=(ChatMessage(ChatRole.USER, "See this", files=(PICTURE,)),))


@STREAMS
@pytest.mark.parametrize("status", [400, 404, 413, 415, 422])
async def test_refused_files_are_left_out(status: int, stream: bool) -> None:
    other = replace(SEEN.messages[0], files=(replace(PICTURE, url="/files/2"),))
    acts = (Refuses(status), Says("I see nothing."), Says("Still nothing."), Says("Tea."))
    async with open_endpoint(*acts) as endpoint, calling(endpoint, stream=stream) as models:
        requests = (SEEN, SEEN, replace(SEEN, messages=(other,)))
        answers = [await models.complete(request) for request in requests]

    assert [answer.left_out for answer in answers] == [("files",), ("files",), ()]
    contents = [call.body["messages"][0]["content"] for call in endpoint.calls]
    assert [isinstance(content, str) for content in contents] == [False, True, True, False]


async def test_error_without_files_is_that_of_the_second_call() -> None:
    async with open_endpoint(Refuses(400), Refuses(404)) as endpoint, calling(endpoint) as models:
        assert "404" in await failure(models, SEEN)
