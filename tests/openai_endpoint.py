"""An HTTP endpoint that speaks the chat-completions protocol, and misbehaves on demand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.patience import PATIENCE_SECONDS

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Says:
    """An answer: a text, tool calls as (name, arguments), or both, and its usage."""

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    input_tokens: int = 100
    output_tokens: int = 10
    cached_tokens: int = 0
    finish_reason: str = ""
    reports_usage: bool = True
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Refuses:
    """An error status with a body, and optionally a Retry-After."""

    status: int
    body: str = '{"error": {"message": "Something went wrong.", "type": "server_error"}}'
    retry_after: str = ""
    compressed: bool = False


@dataclass(frozen=True, slots=True)
class Hangs:
    """No answer at all, or nothing after its first bytes."""

    in_the_middle: bool = False


@dataclass(frozen=True, slots=True)
class BreaksOff:
    """A connection that is closed without an answer, or in the middle of one, after a text.

    `politely`: the stream ends in good order, but too early.
    """

    in_the_middle: bool = True
    politely: bool = False
    after: str = ""


Act: TypeAlias = Says | Refuses | Hangs | BreaksOff
Script: TypeAlias = Callable[[Json], Act | Awaitable[Act]]


def clerk(body: Json) -> Says:
    """Answer like a model that lists its queue, clears it, and sleeps."""
    last = body["messages"][-1]
    if last["role"] == "user":
        return Says(calls=[("list_notifications", "{}")])
    result = orjson.loads(last["content"]).get("result")
    if isinstance(result, list) and result:
        ids = [orjson.dumps({"notification_id": one["id"]}).decode() for one in result]
        return Says(calls=[("clear_notification", arguments) for arguments in ids])
    return Says(calls=[("sleep", "{}")])


@dataclass(slots=True)
class Call:
    """A request and its headers."""

    body: Json
    headers: dict[str, str]


@dataclass(slots=True)
class Endpoint:
    """The script of the endpoint and its record. Acts are used up one by one, then `otherwise` decides."""

    acts: list[Act] = field(default_factory=list)
    otherwise: Script = lambda _: Says("I am done.")
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    billed: list[Says] = field(default_factory=list)  # answers that were sent completely
    disconnects: int = 0  # callers that left before they had their answer
    _ids: "count[int]" = field(default_factory=lambda: count(1))
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds. It is checked at each call, answer and disconnect."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(condition)

    async def called(self, times: int = 1) -> None:
        await self.until(lambda: len(self.calls) >= times)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.calls.append(Call(body, {name.lower(): value for name, value in request.headers.items()}))
        await self._notify()
        try:
            return await self._act(request, body)
        except (asyncio.CancelledError, ConnectionResetError):
            self.disconnects += 1
            asyncio.get_running_loop().create_task(self._notify())
            raise

    async def _act(self, request: web.Request, body: Json) -> web.StreamResponse:
        act: Any = self.acts.pop(0) if self.acts else self.otherwise(body)
        if not isinstance(act, Act):
            act = await act
        match act:
            case Says():
                response = await self._say(request, body, act)
                self.billed.append(act)
                await self._notify()
                return response
            case Refuses():
                headers = {"Retry-After": act.retry_after} if act.retry_after else {}
                response = web.Response(
                    status=act.status, text=act.body, headers=headers, content_type="application/json"
                )
                if act.compressed:
                    response.enable_compression(web.ContentCoding.gzip)
                return response
            case Hangs(in_the_middle):
                if in_the_middle:
                    await self._begin(request, body)
                await asyncio.Event().wait()
            case BreaksOff(in_the_middle, politely, after):
                if in_the_middle:
                    response = await self._begin(request, body, after)
                    if politely:
                        await response.write_eof()
                        return response
                assert request.transport is not None
                request.transport.abort()
        return web.Response()

    async def _say(self, request: web.Request, body: Json, said: Says) -> web.StreamResponse:
        if not body.get("stream"):
            return web.json_response(
                self._whole(body, said), dumps=lambda value: orjson.dumps(value).decode()
            )
        response = await self._begin(request, body)
        for chunk in self._chunks(body, said):
            await response.write(b"data: " + orjson.dumps(chunk) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _begin(self, request: web.Request, body: Json, text: str = "") -> web.StreamResponse:
        """Send the first bytes of an answer."""
        streams = body.get("stream")
        response = web.StreamResponse()
        response.content_type = "text/event-stream" if streams else "application/json"
        await response.prepare(request)
        head = {
            "id": "chatcmpl-0",
            "model": _version_of(body),
            "choices": [{"index": 0, "delta": {"content": text}}],
        }
        await response.write(
            b"data: " + orjson.dumps(head) + b"\n\n" if streams else b'{"id": "chatcmpl-0", '
        )
        return response

    def _whole(self, body: Json, said: Says) -> Json:
        message: Json = {"role": "assistant", "content": said.text or None}
        if said.reasoning:
            message["reasoning_content"] = said.reasoning
        if said.calls:
            message["tool_calls"] = self._tool_calls(said)
        return {
            "id": f"chatcmpl-{next(self._ids)}",
            "object": "chat.completion",
            "model": _version_of(body),
            "choices": [{"index": 0, "message": message, "finish_reason": _finish_reason(said)}],
            **({"usage": _usage(said)} if said.reports_usage else {}),
        }

    def _chunks(self, body: Json, said: Says) -> list[Json]:
        """Stream like OpenAI: the text in pieces, the arguments of a call in two, the usage at the end."""
        deltas: list[Json] = [{"reasoning_content": said.reasoning}] if said.reasoning else []
        deltas += [{"content": piece} for piece in said.text.split(" ") if piece]
        for index, call in enumerate(self._tool_calls(said)):
            arguments = call["function"]["arguments"]
            half = len(arguments) // 2
            first = {**call, "index": index, "function": {**call["function"], "arguments": arguments[:half]}}
            deltas.append({"tool_calls": [first]})
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})
        head = {"id": f"chatcmpl-{next(self._ids)}", "model": _version_of(body)}
        chunks: list[Json] = [{**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish_reason(said)}]})
        if said.reports_usage and body.get("stream_options", {}).get("include_usage"):
            chunks.append({**head, "choices": [], "usage": _usage(said)})
        return chunks

    def _tool_calls(self, said: Says) -> list[Json]:
        return [
            {
                "id": f"call_{next(self._ids)}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for name, arguments in said.calls
        ]

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _version_of(body: Json) -> str:
    return f"{body['model']}-2026-11-01"


def _finish_reason(said: Says) -> str:
    return said.finish_reason or ("tool_calls" if said.calls else "stop")


def _usage(said: Says) -> Json:
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
    }


@asynccontextmanager
async def open_endpoint(*acts: Act) -> AsyncIterator[Endpoint]:
    """Serve an endpoint on a real socket until the block ends."""
    endpoint = Endpoint(list(acts))
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", endpoint.handle)
    # Handlers are cancelled when their callers leave: that is how a disconnect is noticed.
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    endpoint.url = str(server.make_url("/v1"))
    try:
        yield endpoint
    finally:
        await server.close()
