"""Adapter tools in runs: failing tools, retries, and tools that change during a run."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any
from uuid import UUID

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from storage.history.trace_model import Span
from storage.ids import new_id
from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from storage.toolbox import AdapterConfig, ListedTool
from supervisors.engine.messages import RunRequest
from supervisors.llm.port import ModelRequest, ModelResponse, ToolCall
from supervisors.outbound import OutboundAnswer
from supervisors.policy.phases import Phase
from supervisors.tools.adapter_tools import for_models, may_take_arguments, names_for_models, result_of, slug
from supervisors.tools.arguments import ToolError
from tests.patience import PATIENCE_SECONDS
from tests.receiver import Receiver, receiving
from tests.storage.factories import adapter, stored_spans, tool
from tests.supervisors.world import World, open_world

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0"
HTML = "<!doctype html><html><head><title>Log in</title></head></html>"

# The error in the span of each failing tool.
ERRORS = {
    "endless": "The tool gave no answer; the call may or may not have had an effect: "
    "The answer is longer than 1,048,576 bytes; the rest was not read.",
    "html": "The tool answered text/html, which is neither JSON nor text.",
    "hangs": "The tool gave no answer; the call may or may not have had an effect: "
    "No whole answer came from 127.0.0.1: it took more than 0.5 s.",
    "breaks": "The tool gave no answer; the call may or may not have had an effect: "
    "No whole answer came from 127.0.0.1: the connection was closed.",
    "refuses": "The tool answered 500.",
    "redirects": "The tool answered 302.",
    "nowhere": "The tool nowhere has no URL to be called at.",
    "scheme": "The tool may not be called: The address is not http or https, but ftp.",
}


class CallEveryTool:
    """A model that calls each adapter tool in a turn of its own, then sleeps."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        names = [tool.name for tool in request.tools if tool.adapter_id is not None]
        turn = sum(len(message.tool_calls) for message in request.messages)
        name = names[turn] if turn < len(names) else "sleep"
        return ModelResponse("", (ToolCall(f"call_{turn}", name, "{}"),))


async def answer_by_path(request: web.Request) -> web.StreamResponse:
    """Fail in the way that the path names."""
    match request.path:
        case "/endless":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            while True:
                await response.write(b" " * 65536)
        case "/html":
            return web.Response(text=HTML, content_type="text/html")
        case "/hangs":
            await asyncio.Event().wait()
        case "/breaks":
            assert request.transport is not None
            request.transport.abort()
        case "/refuses":
            return web.Response(text=HTML, content_type="text/html", status=500)
        case "/redirects":
            return web.Response(status=302, headers={"Location": "/fine"})
        case "/fine":
            return web.json_response({"weather": "fine"})
    return web.Response(status=204)


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


async def agent_with(world: World, **urls: str) -> Agent:
    """Insert an agent with an adapter of these tools; its template has a secret and a config for it."""
    template = await world.template(tool_call_secret=SECRET)
    weather = adapter(template.organization_id)
    await world.storage.adapters.insert(weather)
    now = world.clock.now()
    await world.storage.adapter_configs.insert(
        AdapterConfig(
            new_id(), template.organization_id, template.id, weather.id, {"key": "hunter2"}, now, now
        )
    )
    for name, url in urls.items():
        await world.storage.tools.insert(tool(weather.id, name=name, url=url))
    return await world.agent(adapters=(weather.id,), template_id=template.id)


async def tool_spans(world: World, agent: Agent) -> dict[str, Span]:
    """Return the spans of the tool calls in the agent's only run, by tool name."""
    [run] = await world.ledger(agent)
    spans = await stored_spans(world.pool, run.id)
    return {
        span.name.removeprefix("execute_tool "): span
        for span in spans
        if span.name.startswith("execute_tool ")
    }


async def test_failing_tools_leave_errors_in_the_trace(pool: Pool, server: Receiver) -> None:
    server.answer = answer_by_path
    urls = {name: f"{server.url}/{name}" for name in (*ERRORS, "nothing", "fine")}
    urls |= {"nowhere": "", "scheme": "ftp://127.0.0.1/"}
    async with open_world(pool, model=CallEveryTool(), outbound={"timeout_seconds": 0.5}) as world:
        agent = await agent_with(world, **urls)
        await world.notify(agent)
        [message] = await world.queue(agent)
        steps = await tool_spans(world, agent)
        assert {name: step.error for name, step in steps.items() if step.error} == {
            **ERRORS,
            "sleep": "You cannot sleep while high-priority notifications are uncleared. "
            "Handle them, clear them with clear_notification, then sleep.",
        }
        assert {"nothing", "fine"} < steps.keys()
        await world.clear(message)
        await world.advance(60)
        assert await world.phase(agent) is Phase.ASLEEP


async def test_call_id_and_traceparent_name_the_span(pool: Pool, server: Receiver) -> None:
    async with open_world(pool, model=CallEveryTool()) as world:
        agent = await agent_with(world, look_up=server.url)
        await world.ask(agent, RunRequest(), answered_within=PATIENCE_SECONDS)
        await world.wait_until_idle()
        [run] = await world.ledger(agent)
        assert run.outcome is Outcome.SLEPT
        span = (await tool_spans(world, agent))["look_up"]
        [received] = server.requests
        assert received.data["tool_call_id"] == str(span.id)
        assert received.headers["traceparent"] == f"00-{run.id.hex}-{span.id.hex[16:]}-01"


async def test_trace_holds_neither_secret_nor_config(pool: Pool, server: Receiver) -> None:
    async with open_world(pool, model=CallEveryTool()) as world:
        agent = await agent_with(world, look_up=server.url, breaks="")
        await world.ask(agent, RunRequest(), answered_within=PATIENCE_SECONDS)
        await world.wait_until_idle()
        assert server.requests[0].data["config"] == {"key": "hunter2"}
    stored = await pool.fetchval(
        """
        SELECT string_agg(s::text || m::text || r::text, '')
        FROM span s JOIN span_metadata m ON m.span_id = s.id JOIN run r ON r.id = s.trace_id
        """
    )
    assert "execute_tool look_up" in stored
    assert "hunter2" not in stored
    assert SECRET not in stored


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port: int = reserved.getsockname()[1]
        return port


async def wait_for_timer(world: World, seconds: float, calling: asyncio.Task[Any]) -> None:
    """Wait until the call sleeps for this many seconds."""
    moment = world.clock.monotonic() + seconds
    while moment not in world.clock.timers():
        await asyncio.wait({calling}, timeout=0.001)


async def test_unreachable_tool_is_tried_three_times(world: World) -> None:
    port = free_port()
    run = await world.start(await agent_with(world, look_up=f"http://127.0.0.1:{port}/"))

    calling = asyncio.create_task(run.call("look_up"))
    for seconds in (0.2, 1.0):
        await wait_for_timer(world, seconds, calling)
        world.clock.advance(seconds)

    with pytest.raises(ToolError, match="No connection to") as refused:
        await calling
    assert refused.value.code == "not_connected"


async def test_retry_reaches_a_tool_that_came_up(world: World) -> None:
    port = free_port()
    run = await world.start(await agent_with(world, look_up=f"http://127.0.0.1:{port}/"))

    calling = asyncio.create_task(run.call("look_up"))
    await wait_for_timer(world, 0.2, calling)
    async with receiving(port) as server:
        world.clock.advance(0.2)
        assert await calling is None
        assert len(server.requests) == 1


async def test_agent_without_adapters_needs_no_database(world: World) -> None:
    agent = await world.agent()
    definitions = world.toolset.definitions(agent, None)
    with pytest.raises(StopIteration) as returned:
        definitions.send(None)
    assert "sleep" in {definition.name for definition in returned.value.value}
    tool_named_sleep = world.toolset.find(await agent_with(world), "sleep")
    with pytest.raises(StopIteration):
        tool_named_sleep.send(None)


TAKEN = frozenset({"sleep", "send_message"})
VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def listed_tool(id: UUID, name: str, adapter_name: str = "Mail", position: int = 1) -> ListedTool:  # noqa: A002
    return ListedTool(id, adapter_name, position, name)


def number(value: int) -> UUID:
    return UUID(int=value)


# Few letters, so that names clash; also some forbidden characters and overlong names.
NAMES = st.one_of(
    st.text("ab_ é", max_size=4),
    st.sampled_from(["sleep", "Mail_sleep", "Mail_a", "Mail_a_2", "a" * 64, "a" * 255, "天气", ""]),
    st.text(max_size=20),
)
TOOLS = st.lists(
    st.builds(
        listed_tool,
        id=st.integers(1, 10**6).map(number),
        name=NAMES,
        adapter_name=st.one_of(st.sampled_from(["Mail", "Fax", "m" * 255]), st.text(max_size=5)),
        position=st.integers(1, 3),
    ),
    unique_by=lambda tool: tool.id,
    max_size=12,
)


@given(TOOLS)
def test_every_tool_has_a_unique_valid_name(tools: list[ListedTool]) -> None:
    by_name = names_for_models(tools, TAKEN)
    assert sorted(by_name.values(), key=id) == sorted(tools, key=id)
    assert all(VALID.fullmatch(name) for name in by_name)
    assert not TAKEN & by_name.keys()


@given(TOOLS, st.randoms())
def test_names_do_not_depend_on_the_order_of_rows(tools: list[ListedTool], random: Random) -> None:
    shuffled = list(tools)
    random.shuffle(shuffled)
    assert list(names_for_models(shuffled, TAKEN).items()) == list(names_for_models(tools, TAKEN).items())


@given(TOOLS, NAMES)
def test_tool_added_last_changes_no_other_name(tools: list[ListedTool], name: str) -> None:
    before = names_for_models(tools, TAKEN)
    after = names_for_models([*tools, listed_tool(number(10**7), name, position=3)], TAKEN)
    assert list(after.items())[: len(tools)] == list(before.items())


@given(TOOLS)
def test_tool_with_a_unique_name_changes_no_other_name(tools: list[ListedTool]) -> None:
    before = names_for_models(tools, TAKEN)
    after = names_for_models([listed_tool(number(10**7), "zebra", "Zoo", position=0), *tools], TAKEN)
    assert {name: tool for name, tool in after.items() if name != "zebra"} == before


def in_order(*tools: tuple[str, str]) -> Sequence[ListedTool]:
    """Return tools of these names and adapters, the oldest first."""
    return [listed_tool(number(index), name, adapter) for index, (name, adapter) in enumerate(tools, 1)]


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([("look_up", "CRM"), ("Book a table", "Inn")], ["look_up", "Book_a_table"]),
        ([("sleep", "Bed & Breakfast")], ["Bed_Breakfast_sleep"]),
        ([("find", "CRM"), ("find", "Wiki")], ["find", "Wiki_find"]),
        ([("find", "CRM"), ("find!", "CRM"), ("find?", "CRM")], ["find", "CRM_find", "CRM_find_2"]),
        ([("a" * 65, "b" * 40), ("a" * 64, "b" * 40)], ["a" * 64, "b" * 31 + "_" + "a" * 32]),
    ],
)
def test_first_tool_of_a_name_keeps_it(tools: list[tuple[str, str]], expected: list[str]) -> None:
    assert list(names_for_models(in_order(*tools), TAKEN)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look-up_2", "look-up_2"),
        ("_private", "_private"),
        (" Send   e-mail. ", "Send_e-mail"),
        ("Größe prüfen", "Groe_prufen"),
        ("天气", "tool"),
        ("", "tool"),
        ("a\0b", "a_b"),
    ],
)
def test_slug_keeps_allowed_characters(text: str, expected: str) -> None:
    assert slug(text) == expected


OPEN = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
EITHER = {"anyOf": [CITY, OPEN]}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (CITY, CITY),
        ({}, OPEN),
        ({"type": "object"}, OPEN),
        ({"type": ["object", "null"]}, OPEN),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": True}}),
        ({"title": "T"}, {"title": "T", **OPEN}),
    ],
)
def test_schema_for_models_is_always_an_object_schema(
    parameters: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert for_models("Looks.", parameters, is_schema=True) == ("Looks.", expected)


@pytest.mark.parametrize(
    ("parameters", "is_schema", "words"),
    [
        (EITHER, True, '{"anyOf":[{"type":"object","properties":{"city":{"type":"string"}},"required"'),
        ({"type": "objekt"}, False, '{"type":"objekt"}'),
        (["city", "when"], False, '["city","when"]'),
        ("city: where to look", False, "city: where to look"),
        (False, False, "false"),
        (7, False, "7"),
    ],
)
def test_parameters_that_providers_refuse_become_description(
    parameters: Any, is_schema: bool, words: str
) -> None:
    description, schema = for_models("Looks.", parameters, is_schema=is_schema)
    assert description.startswith(f"Looks.\n\nIt takes: {words}")
    assert schema == OPEN


def test_missing_parameters_add_nothing_to_the_description() -> None:
    assert for_models("", None, is_schema=False) == ("", OPEN)
    assert for_models("", "anything", is_schema=False) == ("It takes: anything", OPEN)


def test_only_an_object_schema_may_take_arguments() -> None:
    satisfiable: list[Any] = [CITY, {}, {"title": "T"}, {"type": ["null", "object"]}, EITHER]
    unsatisfiable: list[Any] = [
        {"type": "string"},
        {"type": ["null"]},
        {"type": 7},
        [],
        "object",
        None,
        True,
        1,
    ]
    assert [schema for schema in satisfiable if not may_take_arguments(schema)] == []
    assert [schema for schema in unsatisfiable if may_take_arguments(schema)] == []


JSON = "application/json"
UNKNOWN_TYPE = "application/octet-stream"
PAGE = b"<!doctype html><title>Log in</title>"


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        (JSON, b'{"a": [1, null]}', {"a": [1, None]}),
        ("application/problem+json; charset=utf-8", b"7", 7),
        ("Application/JSON", b"null", None),
        (JSON, b"", None),
        (JSON, b" \n", None),
        ("text/plain; charset=utf-8", "Grüße".encode(), "Grüße"),
        ("text/plain", b'{"a": 1}', '{"a": 1}'),
        ("text/markdown", b"# Hi\xff", "# Hi\ufffd"),
        (UNKNOWN_TYPE, b'{"a": 1}', {"a": 1}),
        ("", b"fine", "fine"),
        (JSON, b"99999999999999999999", 1e20),
        (JSON, b"[" * 64 + b"]" * 64, orjson.loads(b"[" * 64 + b"]" * 64)),
        ("text/html", b"", None),
    ],
)
def test_answer_is_parsed_by_its_content_type(content_type: str, body: bytes, expected: Any) -> None:
    assert result_of(OutboundAnswer(200, content_type, body)) == expected


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        (JSON, b"{", "The tool answered invalid JSON: "),
        (JSON, b"NaN", "The tool answered invalid JSON: "),
        (JSON, b'"\xff"', "The tool answered invalid JSON: "),
        (JSON, b'"\\ud800"', "The tool answered invalid JSON: "),
        (JSON, b"1" * 400, "The tool answered invalid JSON: "),
        (JSON, b"[" * 65 + b"]" * 65, "The tool answered JSON that is nested deeper than 64 levels."),
        pytest.param(
            JSON,
            b"[" + b"0," * 50_000 + b"0]",
            "The tool answered JSON of more than 50,000 values.",
            id="50,001 values",
        ),
        (JSON, b'{"a":' * 65 + b"1" + b"}" * 65, "The tool answered JSON that is nested deeper"),
        (
            "text/html; charset=utf-8",
            PAGE,
            "The tool answered text/html, which is neither JSON nor text.",
        ),
        ("image/png", b"\x89PNG", "The tool answered image/png, which is neither JSON nor text."),
        (UNKNOWN_TYPE, b"\x89PNG", "The tool answered bytes that are neither JSON nor text."),
    ],
)
def test_unusable_answer_is_an_error(content_type: str, body: bytes, message: str) -> None:
    with pytest.raises(ToolError) as refused:
        result_of(OutboundAnswer(200, content_type, body))
    assert refused.value.code == "unusable_answer"
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("status", "content_type", "body", "message"),
    [
        (500, "text/plain", b"Out  of\n\x00paper", "The tool answered 500: Out of paper"),
        (400, JSON, b'{"error":"no such city"}', 'The tool answered 400: {"error":"no such city"}'),
        (502, "text/html", PAGE, "The tool answered 502."),
        (503, "text/plain", PAGE, "The tool answered 503."),
        (404, "image/png", b"\x89PNG", "The tool answered 404."),
        (302, "text/plain", b"", "The tool answered 302."),
        (500, "text/plain", b"x" * 5000, f"The tool answered 500: {'x' * 300}…"),
    ],
)
def test_failed_status_is_an_error_with_an_excerpt(
    status: int, content_type: str, body: bytes, message: str
) -> None:
    with pytest.raises(ToolError) as refused:
        result_of(OutboundAnswer(status, content_type, body))
    error = {"code": "tool_failed", "message": message, "status": status}
    assert refused.value.as_json() == error


@given(
    st.sampled_from([200, 204, 299, 300, 404, 500]),
    st.sampled_from([JSON, UNKNOWN_TYPE, "text/plain", "text/html", "image/png", ";", ""]),
    st.one_of(st.binary(max_size=40), st.text('[]{}",:01eE.-nul\\', max_size=30).map(str.encode)),
)
def test_any_answer_is_a_serializable_result_or_an_error(status: int, content_type: str, body: bytes) -> None:
    try:
        outcome: dict[str, Any] = {"result": result_of(OutboundAnswer(status, content_type, body))}
    except ToolError as error:
        outcome = {"error": error.as_json()}
    assert orjson.dumps(outcome)
    assert "\0" not in outcome.get("error", {}).get("message", "")
