"""Requests to MCP servers: of both eras by the official SDK, and to hostile ones that answer raw JSON."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from uuid import uuid4

import orjson
import pytest
from aiohttp import web

from hostsvc.outbound.guarded_http import GuardedHttp, OutboundSettings, open_guarded_http
from supervisors.clock import SystemClock
from supervisors.outbound import (
    AddressRefused,
    McpFailed,
    McpRequest,
    NoAnswer,
    NotConnected,
    OutboundError,
)
from supervisors.tools.arguments import ToolError
from supervisors.tools.mcp_calls import result_of_call
from tests.mcp_program import running
from tests.processor_time import callbacks, slowness
from tests.receiver import Answering, Receiver, receiving

ERAS = {"2026-07-28": (), "2025-11-25": ("--legacy",)}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}
Answers = Callable[[str, dict[str, Any]], Any]
MAX_CALLBACK_SECONDS = 0.05  # of processor time, where `slowness` is 1
TRIES = 5


@pytest.fixture
async def http() -> AsyncIterator[GuardedHttp]:
    settings = OutboundSettings(allow_private=True, timeout_seconds=20)
    async with open_guarded_http(settings, SystemClock()) as client:
        yield client


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


async def ask(http: GuardedHttp, url: str, method: str, **params: Any) -> dict[str, Any]:
    headers = {"Authorization": "Bearer x", "Idempotency-Key": "1"}
    return await http.ask_mcp(McpRequest(uuid4(), url, method, params, headers))


def speaking(results: Answers) -> Answering:
    """Return a handler that answers like a server of 2026-07-28, with these results as JSON or as bytes."""

    async def answer(request: web.Request) -> web.Response:
        sent = await request.json()
        discovers = sent["method"] == "server/discover"
        result = DISCOVERED if discovers else results(sent["method"], sent["params"])
        text = result if isinstance(result, bytes) else json.dumps(result).encode()
        body = b'{"jsonrpc": "2.0", "id": %d, "result": %b}' % (sent["id"], text)
        return web.Response(body=body, content_type="application/json")

    return answer


def listing(*tools: Any, **others: Any) -> Answering:
    return speaking(lambda *_: {"tools": list(tools), **others})


@pytest.mark.parametrize("era", ERAS)
async def test_server_of_the_official_sdk_is_listed_and_called(http: GuardedHttp, era: str) -> None:
    async with running(*ERAS[era]) as url:
        tools = (await ask(http, url, "tools/list"))["tools"]
        assert [tool["name"] for tool in tools][:5] == ["look_up", "say", "draw", "headers", "confirm"]

        async def call(name: str, **arguments: Any) -> Any:
            return result_of_call(await ask(http, url, "tools/call", name=name, arguments=arguments))

        assert await call("look_up", city="Graz") == {"city": "Graz", "degrees": 21}
        assert await call("say", words=["sun", "and rain"]) == "sun\nand rain"
        assert await call("say", words=[]) is None
        assert [block["type"] for block in await call("draw")] == ["text", "image"]
        assert await call("headers") == (
            f"authorization=Bearer x idempotency-key=1 mcp-protocol-version={era} "
            f"host={url.removeprefix('http://').removesuffix('/mcp')}"
        )
        for name, message in (("nothing", "Unknown tool: nothing"), ("look_up", "Error executing tool")):
            with pytest.raises(ToolError, match=message):
                await call(name)


async def test_server_before_2026_that_asks_a_person_is_told_of_none(http: GuardedHttp) -> None:
    async with running("--legacy") as url:
        result = await ask(http, url, "tools/call", name="confirm", arguments={"question": "Really?"})
        assert result_of_call(result) == "cancel"


async def test_pages_of_a_list_are_put_together(http: GuardedHttp, receiver: Receiver) -> None:
    def page(_: str, params: dict[str, Any]) -> Any:
        number = int(params.get("cursor", 0))
        return {"tools": [{"name": str(number)}], **({"nextCursor": str(number + 1)} if number < 3 else {})}

    receiver.answer = speaking(page)
    result = await ask(http, receiver.url, "tools/list")
    assert [tool["name"] for tool in result["tools"]] == ["0", "1", "2", "3"]


BROAD = b'{"tools": [%b]}' % b",".join([b"{}"] * 330_000)
DEEP = b'{"tools": %b%b}' % (b"[" * 500, b"]" * 500)
HOSTILE: dict[str, tuple[Any, str]] = {
    "endless pages": (lambda *_: {"tools": [], "nextCursor": "again"}, "of more than 20 pages"),
    "many tools": (lambda *_: {"tools": [{}] * 101}, "offers more than 100 tools"),
    "10 MB": (lambda *_: {"tools": [{"name": "a", "inputSchema": {"title": "x" * 10**7}}]}, "longer than"),
    "broad": (lambda *_: BROAD, "JSON of more than 50,000 values"),
    "deep": (lambda *_: DEEP, "deeper than 64 levels"),
    "no JSON": (lambda *_: b'{"tools": [', "invalid JSON"),
    "no list": (lambda *_: {"tools": "all"}, "a list of tools that is no list"),
    "no object": (lambda *_: [1], "a result that is no object"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_hostile_list_of_tools_fails_with_its_reason(
    http: GuardedHttp, receiver: Receiver, case: str
) -> None:
    answers, reason = HOSTILE[case]
    receiver.answer = speaking(answers)
    with pytest.raises((McpFailed, NoAnswer), match=reason):
        await ask(http, receiver.url, "tools/list")


async def test_hostile_discovery_is_not_given_to_the_client(http: GuardedHttp, receiver: Receiver) -> None:
    receiver.answer = speaking(lambda *_: {})
    hostile = {**DISCOVERED, "supportedVersions": [0] * 300_000}

    async def answer(request: web.Request) -> web.Response:
        sent = await request.json()
        return web.json_response({"jsonrpc": "2.0", "id": sent["id"], "result": hostile})

    receiver.answer = answer
    with pytest.raises(McpFailed, match="JSON of more than 50,000 values"):
        await ask(http, receiver.url, "tools/list")
    hostile["supportedVersions"] = [0] * 2000
    with pytest.raises(McpFailed, match="a message that is too long for its kind"):
        await ask(http, receiver.url, "tools/list")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (307, "answered 307, which is not followed: enter the address that it leads to"),
        (401, "answered 401: the credentials are missing, or it does not accept them"),
        (500, "answered 500"),
        (404, "answered 404"),
    ],
)
async def test_answer_by_status_alone_is_explained(
    http: GuardedHttp, receiver: Receiver, status: int, reason: str
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "http://169.254.169.254/"}, text="<html>")

    receiver.answer = answer
    with pytest.raises(McpFailed, match=reason):
        await ask(http, receiver.url, "tools/list")


async def test_error_of_the_server_is_shortened(http: GuardedHttp, receiver: Receiver) -> None:
    async def answer(request: web.Request) -> web.Response:
        sent = await request.json()
        error = {"code": -32602, "message": "no\n" * 10_000}
        result = {"result": DISCOVERED} if sent["method"] == "server/discover" else {"error": error}
        return web.json_response({"jsonrpc": "2.0", "id": sent["id"], **result})

    receiver.answer = answer
    with pytest.raises(McpFailed) as failed:
        await ask(http, receiver.url, "tools/call", name="a", arguments={})
    assert str(failed.value).startswith("The MCP server answered: no no no")
    assert len(str(failed.value)) < 400


async def test_address_rules_are_those_of_all_calls(receiver: Receiver) -> None:
    async with open_guarded_http(OutboundSettings(), SystemClock()) as guarded:
        for address in (receiver.url, "http://localhost/", "http://[::1]/", "ftp://example.com/"):
            with pytest.raises(AddressRefused):
                await ask(guarded, address, "tools/list")
    assert receiver.requests == []


async def test_absent_server_is_asked_again_by_the_next_request(http: GuardedHttp) -> None:
    async with receiving() as server:
        port = server.port
    with pytest.raises(NotConnected):
        await ask(http, f"http://127.0.0.1:{port}/", "tools/list")
    async with receiving(port) as server:
        server.answer = listing({"name": "back"})
        assert (await ask(http, server.url, "tools/list"))["tools"] == [{"name": "back"}]


async def test_answer_that_never_ends_is_cut_off_in_time(receiver: Receiver) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if (await request.json())["method"] == "server/discover":
            return await speaking(lambda *_: {})(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": wait\n\n")
        await asyncio.Event().wait()
        raise AssertionError

    receiver.answer = answer
    settings = OutboundSettings(allow_private=True, timeout_seconds=0.5)
    async with open_guarded_http(settings, SystemClock()) as impatient:
        await asyncio.to_thread(__import__, "hostsvc.outbound.mcp_client")
        with pytest.raises(NoAnswer, match=r"it took more than 0\.5 s"):
            await ask(impatient, receiver.url, "tools/call", name="a", arguments={})


async def test_stream_is_read_until_the_response(http: GuardedHttp, receiver: Receiver) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        if sent["method"] == "server/discover":
            return await speaking(lambda *_: {})(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"big": "x" * 100_000}}
        result = {"jsonrpc": "2.0", "id": sent["id"], "result": {"content": [], "text": "ä\n"}}
        await response.write(b"id: 1\r\ndata:\r\n\r\n" + b"data: %b\n\n" % orjson.dumps(progress))
        for byte in b"event: message\r\ndata: %b\r\n\r\n" % orjson.dumps(result):
            await response.write(bytes([byte]))
        await asyncio.Event().wait()
        raise AssertionError

    receiver.answer = answer
    assert (await ask(http, receiver.url, "tools/call", name="a", arguments={}))["text"] == "ä\n"


async def test_questions_without_end_are_refused(http: GuardedHttp, receiver: Receiver) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        if sent.get("method") == "server/discover":
            return await speaking(lambda *_: {})(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(1000):
            question = {"jsonrpc": "2.0", "id": f"q{number}", "method": "roots/list"}
            await response.write(b"data: %b\n\n" % orjson.dumps(question))
        return response

    receiver.answer = answer
    with pytest.raises(McpFailed, match="asks more than 100 times"):
        await ask(http, receiver.url, "tools/call", name="a", arguments={})


@contextmanager
def serving_in_a_thread(kind: str, body: bytes) -> Iterator[str]:
    """Serve this answer to all requests but the first of each session. Its time is not that of the loop."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_first = sent["method"] == "server/discover"
            answer = {"jsonrpc": "2.0", "id": sent["id"], "result": DISCOVERED}
            text = json.dumps(answer).encode() if is_first else body.replace(b"THEID", b"%d" % sent["id"])
            self.send_response(200)
            self.send_header("Content-Type", "application/json" if is_first else kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with suppress(ConnectionError):  # the client has read enough
                self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


RESULT = b'{"jsonrpc": "2.0", "id": THEID, "result": {"content": [%b]}}'
ERROR = b'{"jsonrpc": "2.0", "id": THEID, "error": {"code": 1, "message": "no", "data": [%b]}}'
SLOW = {
    "empty blocks": ("application/json", RESULT % b",".join([b"{}"] * 24_000)),
    "texts": ("application/json", RESULT % b",".join([b'{"type":"text","text":"a"}'] * 16_000)),
    "schema": ("application/json", RESULT % (b'{"pattern": "^(a+)+$", "x": "%b"}' % (b"a" * 1_000_000))),
    "too long": ("application/json", RESULT % (b'"%b"' % (b"a" * 10_000_000))),
    "error": ("application/json", ERROR % b",".join([b"{}"] * 24_000)),
    "short error": ("application/json", ERROR % b",".join([b"{}"] * 490)),
    "notifications": ("text/event-stream", b'data: {"method": "a"}\n\n' * 40_000),
    "questions": ("text/event-stream", b'data: {"jsonrpc": "2.0", "id": 1, "method": "ping"}\n\n' * 10_000),
    "lines": ("text/event-stream", b"\n" * 1_000_000),
}


@pytest.mark.real_time
@pytest.mark.parametrize("case", SLOW)
async def test_answer_of_a_hostile_server_costs_the_loop_little(http: GuardedHttp, case: str) -> None:
    with serving_in_a_thread(*SLOW[case]) as url:
        longest = []
        for _ in range(TRIES):  # the first one imports the client
            with callbacks() as seconds, suppress(OutboundError):
                result = await ask(http, url, "tools/call", name="a", arguments={})
                result_of_call(result)
            longest.append(max(seconds) / slowness())
    assert min(longest) < MAX_CALLBACK_SECONDS
