"""Adapter tools in runs: failing tools, retries, and tools that change during a run."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from storage.channels.contacts import Contact
from storage.channels.messages import MessageStatus
from storage.history.trace_model import Span
from storage.ids import new_id
from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from storage.toolbox.adapter_configs import AdapterConfig
from supervisors.engine.messages import RunRequest
from supervisors.llm.port import ModelRequest, ModelResponse, ToolCall
from supervisors.policy.phases import Phase
from supervisors.tools.errors import ToolError
from tests.receiver import Receiver, receiving
from tests.storage.factories import adapter, stored_spans, tool
from tests.supervisors.world import Puppet, World, open_world

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0"
HTML = "<!doctype html><html><head><title>Log in</title></head></html>"
PATIENCE_SECONDS = 10

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


async def error_code(run: Puppet, name: str, **arguments: Any) -> str:
    """Return the code of the error that a call ends with."""
    with pytest.raises(ToolError) as refused:
        await run.call(name, **arguments)
    return refused.value.code


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
    async with asyncio.timeout(PATIENCE_SECONDS):
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


async def test_tool_detached_during_the_run_is_not_called(world: World, server: Receiver) -> None:
    agent = await agent_with(world, look_up=server.url)
    run = await world.start(agent)
    assert await run.call("look_up") is None
    await world.change(agent, adapters=())

    with pytest.raises(ToolError) as refused:  # the run still has the agent as it was
        await world.toolbox.find(agent, "look_up")
    assert refused.value.code == "unknown_tool"
    assert len(server.requests) == 1


async def test_message_stays_queued_if_its_run_ends_early(world: World, server: Receiver) -> None:
    called = asyncio.Event()

    async def keep_waiting(_: web.Request) -> web.Response:
        called.set()
        await asyncio.Event().wait()
        return web.Response()

    server.answer = keep_waiting
    agent = await agent_with(world)
    [weather] = agent.adapters
    await world.storage.tools.insert(tool(weather, handler="channel:sms", url=server.url))
    ada = Contact(new_id(), agent.organization_id, None, "Ada", "", "1", {}, world.clock.now())
    await world.storage.contacts.insert(ada)
    run = await world.start(agent)

    sending = asyncio.create_task(run.call("send_sms", contact_id=str(ada.id), body="Hi"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await called.wait()
    sending.cancel()
    await asyncio.wait({sending})

    message = await world.storage.messages.get(UUID(server.requests[0].data["arguments"]["message_id"]))
    assert message is not None
    assert message.status is MessageStatus.QUEUED


async def test_private_address_is_called_only_if_allowed(pool: Pool, server: Receiver) -> None:
    async with open_world(pool, outbound={"allow_private": False}) as world:
        run = await world.start(await agent_with(world, look_up=server.url))
        assert await error_code(run, "look_up") == "refused_address"
    assert server.requests == []


async def test_agent_without_adapters_needs_no_database(world: World) -> None:
    agent = await world.agent()
    definitions = world.toolbox.definitions(agent)
    with pytest.raises(StopIteration) as returned:
        definitions.send(None)
    assert "sleep" in {definition.name for definition in returned.value.value}
    tool_named_sleep = world.toolbox.find(await agent_with(world), "sleep")
    with pytest.raises(StopIteration):
        tool_named_sleep.send(None)
