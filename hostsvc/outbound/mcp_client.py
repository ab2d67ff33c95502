"""Requests to MCP servers by the official client, over connections to addresses that may be called.

The client negotiates the version and writes the envelope of each request. It is not given what a hostile
server could make long or deep: results of our requests are parsed here, within the limits of all answers of
tools, and the client reads an empty result in their place. So it compiles no schema of a server, either.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
import httpx2
import mcp_types
import orjson
from mcp.client import Client, ClientRequestContext, advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from hostsvc.outbound.connection import Connection, content_type
from storage.postgres.json_values import to_json
from storage.toolbox import MAX_TOOLS
from supervisors.client_values import MAX_DEPTH, MAX_VALUES, OFF_LOOP_BYTES, has_more_values, is_deeper_than
from supervisors.clock import SystemClock
from supervisors.outbound import McpFailed, McpRequest, OutboundError
from supervisors.text import excerpt

TASKS = "io.modelcontextprotocol/tasks"
MAX_PAGES = 20  # of a list of tools
MAX_MESSAGES = 100  # for one request, without notifications
MAX_OTHER_BYTES = 65_536  # of a message that is no result for us
MAX_OTHER_VALUES = 1_000
MAX_CHARACTERS = 300  # of an error
STREAM = "text/event-stream"
REDIRECT = ", which is not followed: enter the address that it leads to."
REFUSALS = dict.fromkeys((401, 403), ": the credentials are missing, or it does not accept them.")
NOT_PASSED_ON = frozenset({"accept-encoding", "connection", "content-length", "host", "user-agent"})
SESSION_ID = "Mcp-Session-Id"
# It is valid for every request and version.
EMPTY_RESULT = {"resultType": "complete", "content": [], "tools": [], "ttlMs": 0, "cacheScope": "private"}

TOO_MANY = f"The MCP server asks more than {MAX_MESSAGES} times during a request."
CLOCK = SystemClock()

for name in ("client", "mcp"):  # they log what servers send
    logging.getLogger(name).setLevel(logging.CRITICAL)


class _Request(mcp_types.Request[dict[str, Any], str]):
    """A request whose parameters the client sends as they are."""


class _TaskRequest(_Request):
    name_param = "taskId"  # a header repeats it


async def ask(connection: Connection, request: McpRequest) -> dict[str, Any]:
    """Send a request in a session of its own and return its result. Raise OutboundError."""
    transport = _Transport(connection, request.headers)
    try:
        async with (
            httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False) as http_client,
            Client(
                streamable_http_client("http://server/", http_client=http_client, max_sse_event_size=None),
                client_info=mcp_types.Implementation(name="hostsvc", version="1"),
                elicitation_callback=_ask_nobody,
                extensions=[advertise(TASKS)],
                cache=None,
            ) as client,
        ):
            transport.keeps_results = True
            if request.method == "tools/list":
                return await _list_tools(client, transport)
            return await _result(client, transport, request.method, request.params)
    except Exception as error:
        raise transport.failure or _explained(error, transport.status) from error


async def _ask_nobody(
    context: ClientRequestContext, params: mcp_types.ElicitRequestParams
) -> mcp_types.ElicitResult:
    """Answer a question that must be answered during the call; servers before 2026-07-28 ask so."""
    return mcp_types.ElicitResult(action="cancel")


async def _result(
    client: Client, transport: "_Transport", method: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    kind = _TaskRequest if method.startswith("tasks/") else _Request
    await client.session.send_request(kind(method=method, params=dict(params)), mcp_types.EmptyResult)
    if not isinstance(transport.result, dict):
        raise McpFailed("The MCP server answered a result that is no object.")
    return transport.result


async def _list_tools(client: Client, transport: "_Transport") -> dict[str, Any]:
    """Return the last page of the list with the tools of all pages."""
    tools: list[Any] = []
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        result = await _result(client, transport, "tools/list", params)
        if not isinstance(result.get("tools"), list):
            raise McpFailed("The MCP server answered a list of tools that is no list.")
        tools += result["tools"]
        if len(tools) > MAX_TOOLS:
            raise McpFailed(f"The MCP server offers more than {MAX_TOOLS} tools, which no model accepts.")
        if not isinstance(result.get("nextCursor"), str):
            return {**result, "tools": tools}
        params = {"cursor": result["nextCursor"]}
    raise McpFailed(f"The MCP server answered a list of tools of more than {MAX_PAGES} pages.")


def _explained(error: BaseException, status: int) -> OutboundError:
    """Return the error of the client as one of the port; `status` is that of the latest answer."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OutboundError):
        return error
    if isinstance(error, MCPError):
        place = f" {status}" if status >= 400 else ""
        message = excerpt(error.error.message, MAX_CHARACTERS)
        return McpFailed(f"The MCP server answered{place}: {message}", error.error.code)
    return McpFailed(f"The MCP server violates the protocol: {type(error).__name__}.")


class _Transport(httpx2.AsyncBaseTransport):
    """Carries requests of the client over a connection. It keeps the first failure, and results for us."""

    def __init__(self, connection: Connection, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._headers = headers
        self.keeps_results = False
        self.result: Any = None  # the latest one
        self.failure: OutboundError | None = None
        self.status = 0  # of the latest answer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. The response is read, except for a stream of messages."""
        if request.method == "GET":  # for messages that belong to no request of ours
            return httpx2.Response(405)
        sent = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON}
        with self._noting_failure():
            headers = {**self._headers, **sent}
            response = await self._connection.request(request.method, headers, request.content)
            self.status = response.status
            kind = content_type(response).partition(";")[0].strip().lower()
            head = {"Content-Type": kind}
            if SESSION_ID in response.headers:
                head[SESSION_ID] = response.headers[SESSION_ID]
            if kind == STREAM and response.status == 200:
                return httpx2.Response(200, headers=head, stream=_Stream(self._events(response), response))
            async with response:
                return httpx2.Response(response.status, headers=head, content=await self._message(response))

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Keep an error, which the client would hide or wrap."""
        try:
            yield
        except OutboundError as error:
            self.failure = self.failure or error
            raise httpx2.TransportError(type(error).__name__) from error

    async def _message(self, response: aiohttp.ClientResponse) -> bytes:
        """Return the only message of a response for the client. A refusal may have any body."""
        if 300 <= response.status < 400 or response.status in REFUSALS:
            raise McpFailed(
                f"The MCP server answered {response.status}{REFUSALS.get(response.status, REDIRECT)}"
            )
        raw = b"".join([piece async for piece in self._connection.read(response)])
        try:
            return await self._reduced(raw) if raw.strip() else b""
        except McpFailed:
            if response.status < 400:
                raise
            return b""

    async def _events(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield an event for each message of a stream that the client must see."""
        passed, line, data = 0, bytearray(), []
        with self._noting_failure():
            async for piece in self._connection.read(response):
                await CLOCK.sleep(0)  # a stream that never pauses would hold up all else
                first, *others = piece.split(b"\n")
                line += first
                for other in others:
                    if line.startswith(b"data:"):
                        data.append(bytes(line[5:]).strip())
                    elif not line.strip():
                        event, data = b"\n".join(data), []
                        if event and (message := await self._reduced(event)):
                            passed += 1
                            if passed > MAX_MESSAGES:
                                raise McpFailed(TOO_MANY)
                            yield b"data: %b\n\n" % message
                    line = bytearray(other)

    async def _reduced(self, message: bytes) -> bytes:
        """Return the message for the client, with an empty result in place of one that is for us.

        Return b"" for a notification. Raise McpFailed for one that is too much or no JSON-RPC.
        """
        if len(message) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(self._reduce, message)
        return self._reduce(message)

    def _reduce(self, raw: bytes) -> bytes:
        if has_more_values(raw, MAX_VALUES):
            raise McpFailed(f"The MCP server answered JSON of more than {MAX_VALUES:,} values.")
        try:
            message = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise McpFailed(f"The MCP server answered invalid JSON: {error}.") from error
        if not isinstance(message, dict) or is_deeper_than(MAX_DEPTH, message):
            raise McpFailed(
                f"The MCP server answered JSON that is no object, or deeper than {MAX_DEPTH} levels."
            )
        if "id" not in message:
            return b""
        if "result" in message and self.keeps_results:
            self.result, message["result"] = message["result"], EMPTY_RESULT
        reduced = to_json(message)
        if len(reduced) > MAX_OTHER_BYTES or has_more_values(reduced, MAX_OTHER_VALUES):
            raise McpFailed("The MCP server answered a message that is too long for its kind.")
        return reduced


class _Stream(httpx2.AsyncByteStream):
    """The events of a response, which is closed when nobody needs them any more."""

    def __init__(self, events: AsyncIterator[bytes], response: aiohttp.ClientResponse) -> None:
        self._events = events
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events

    async def aclose(self) -> None:
        self._response.close()
