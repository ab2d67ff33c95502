"""The Model Context Protocol over HTTP, in both of its eras: one message in, one answer out.

A request of 2026-07-28 carries its protocol version and what its client can do. A client of an earlier
version sends `initialize` first; as it gets no session, each of its later requests stands alone as well. The
version in the header and the metadata of the body tell the eras apart, so one endpoint serves both.

What any route refuses (401, 403, 413, 429, 503, …) is answered as everywhere; errors of the protocol are
those of JSON-RPC.
"""

import asyncio
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from marshmallow import INCLUDE

from web.app_keys import SETTINGS
from web.errors import BadRequest, PermissionDenied, UnsupportedMediaType
from web.fields import printable
from web.json import JSON_TYPE, json_response, to_json
from web.request.json_text import parse_json
from web.request.parsing import Body, media_type, read_bytes
from web.settings import VERSION

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
UNNAMED = "2025-03-26"  # the version of a request that names none

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32603, -32020, -32021, -32022
STATUSES = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}  # of errors; all others have 400
# To a legacy client 404 would say that its session is over.
LEGACY_STATUSES = dict.fromkeys((METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR), 200)

VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
NAMES = {"tools/call": "name"} | dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
TASKS = "io.modelcontextprotocol/tasks"  # the extension; in 2025-11-25 tasks are a capability of their own
ENCODED = re.compile(r"=\?base64\?(.*)\?=")
LOOPBACK = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?")
MAX_ID = 2**63 - 1
MAX_PROBLEMS = 5  # that an error names
METHODS = frozenset({"initialize", "ping", "server/discover", "tools/list", "tools/call"})
TOOLS_TTL_MS = 60_000  # how long a client may keep a list of tools
DISCOVERY_TTL_MS = 3_600_000

Json = dict[str, Any]


class ProtocolError(Exception):
    """A message is refused, with an error code of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.code = code


class MessageBody(Body):
    """A message of JSON-RPC, which the protocol describes."""

    class Meta:
        unknown = INCLUDE


class Message(NamedTuple):
    """A request; a notification if its id is None. `version`: of the protocol by which it is answered."""

    id: int | str | None
    method: str
    params: Json
    version: str = ""

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def takes_tasks(self) -> bool:
        """Return whether the client has declared that it takes a task as an answer to this request."""
        if not self.is_modern:
            return "task" in self.params
        match self.params:
            case {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"extensions": {**extensions}}}}:
                return TASKS in extensions
        return False


@dataclass(frozen=True, slots=True)
class Server:
    """What an endpoint serves. `call` and `task` return a result; `task` is None if no tool is a task."""

    instructions: str
    tools: Callable[[], Awaitable[Sequence[Json]]]
    call: Callable[[Message], Awaitable[Json]]
    task: Callable[[Message], Awaitable[Json]] | None = None


def tool_result(*values: Any, is_error: bool = False) -> Json:
    """Return the result of a call: each value is a text, or becomes one as JSON."""
    texts = [value if isinstance(value, str) else to_json(value).decode() for value in values]
    return {"content": [{"type": "text", "text": text} for text in texts], "isError": is_error}


async def serve(request: web.Request, server: Server) -> web.Response:
    """Answer one message. Raise ApiError for what any route would refuse."""
    _require_own_origin(request)
    message = Message(None, "", {})  # as far as it is known
    try:
        message = await _read(request)
        message = message._replace(version=_version_of(request, message))
        if message.id is None:
            return web.Response(status=202)
        result = await _answer(message, server)
    except ProtocolError as error:
        status = (LEGACY_STATUSES if message.version in LEGACY else STATUSES).get(error.code, 400)
        return json_response({"jsonrpc": "2.0", "id": message.id, "error": error.error}, status)
    if message.is_modern:
        result = {"resultType": "complete", **result}
    return json_response({"jsonrpc": "2.0", "id": message.id, "result": result})


def _require_own_origin(request: web.Request) -> None:
    """Raise PermissionDenied for a page of another site, whose name may lead to this machine."""
    own = urlsplit(request.app[SETTINGS].base_url)
    for origin in request.headers.getall(hdrs.ORIGIN, ()):
        if origin != f"{own.scheme}://{own.netloc}" and not LOOPBACK.fullmatch(origin):
            raise PermissionDenied(f"Origin: {printable(origin)} is not the address of this service.")


async def _read(request: web.Request) -> Message:
    """Return the message in the body. Raise ProtocolError if it is none, or several."""
    kind = media_type(request.headers.get(hdrs.CONTENT_TYPE, ""))
    if kind != JSON_TYPE:
        raise UnsupportedMediaType(f'Unsupported media type "{printable(kind)}" in request.')
    try:
        value = await read_bytes(request, parse_json)
    except BadRequest as error:
        raise ProtocolError(PARSE_ERROR, str(error)) from error
    match value:
        case {"jsonrpc": "2.0", "method": str(method), **rest}:
            message_id: Any = rest.get("id")
            params = rest.get("params")
            is_id = isinstance(message_id, str) or (
                type(message_id) is int and -MAX_ID <= message_id <= MAX_ID
            )
            if (is_id or "id" not in rest) and isinstance(params, dict | None):
                return Message(message_id, method, params or {})
    raise ProtocolError(
        INVALID_REQUEST,
        'The body must be one JSON-RPC 2.0 request, whose "id" is a text or an integer of 64 bits and whose '
        '"params" are an object, or one notification, which has no "id".',
    )


def _version_of(request: web.Request, message: Message) -> str:
    """Return the version by which to answer. Raise ProtocolError unless headers and body agree on it."""
    named, meta = request.headers.getall(VERSION_HEADER, []), message.params.get("_meta")
    stated = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    if message.id is not None and stated is not None:
        _require_header(request, VERSION_HEADER, stated)
        _require_header(request, METHOD_HEADER, message.method)
        if isinstance(name := message.params.get(NAMES.get(message.method, "")), str):
            _require_header(request, NAME_HEADER, name)
    elif not named:
        return UNNAMED
    if len(named) != 1 or named[0] not in (MODERN, *LEGACY) or (stated is not None and named[0] != MODERN):
        data = {"supported": [MODERN, *LEGACY], "requested": printable(", ".join(named))}
        raise ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return named[0]


def _require_header(request: web.Request, name: str, value: object) -> None:
    """Raise ProtocolError unless the request has this header once, with the value that its body has."""
    headers: list[str] = request.headers.getall(name, [])
    if [_decoded(header) if name == NAME_HEADER else header for header in headers] != [value]:
        raise ProtocolError(HEADER_MISMATCH, f"The header {name} must be sent once, and agree with the body.")


def _decoded(header: str) -> str | None:
    """Return the text that a header stands for; None if it is not encoded as the protocol says."""
    encoded = ENCODED.fullmatch(header)
    try:
        return b64decode(encoded[1], validate=True).decode() if encoded else header
    except ValueError:
        return None


async def _answer(message: Message, server: Server) -> Json:
    """Return the result of a request. Raise ProtocolError if it has none."""
    if message.method.startswith("tasks/") and server.task is not None:
        return await server.task(message)
    if message.method not in METHODS:
        raise unknown_method(message)
    await _check(message)
    match message.method:
        case "tools/list":
            tools = {"tools": await server.tools()}
            return {**tools, **_cached(TOOLS_TTL_MS)} if message.is_modern else tools
        case "tools/call":
            return await server.call(message)
        case "server/discover":
            capabilities: Json = {"tools": {}} | ({"extensions": {TASKS: {}}} if server.task else {})
            info = {"capabilities": capabilities, "instructions": server.instructions}
            versions, meta = [MODERN, *LEGACY], {SERVER_KEY: SERVER_INFO}
            return {"supportedVersions": versions, **info, "_meta": meta, **_cached(DISCOVERY_TTL_MS)}
        case "initialize":
            return _initialized(message, server)
        case _:  # ping
            return {}


def unknown_method(message: Message) -> ProtocolError:
    return ProtocolError(METHOD_NOT_FOUND, f"There is no method {printable(message.method)}.")


async def _check(message: Message) -> None:
    """Check the parameters by the models of the protocol, which also know the methods of each version.

    Raise ProtocolError.
    """
    models = await loaded(_models)
    try:
        models.validate_client_request(message.method, message.version, message.params)
    except KeyError as error:
        raise unknown_method(message) from error
    except ValueError as error:
        problems: Any = error
        details = [
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in problems.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise ProtocolError(INVALID_PARAMS, printable("; ".join(details[:MAX_PROBLEMS]))) from error


async def loaded(load: Any) -> Any:
    """Return what a cached function returns, which takes long at its first call: that is in a thread."""
    return load() if load.cache_info().currsize else await asyncio.to_thread(load)


@cache
def _models() -> ModuleType:
    """Import the models of the protocol: a heavy library, which takes half a second."""
    return import_module("mcp_types.methods")


SERVER_INFO = {"name": "hostsvc", "version": VERSION}


def _cached(ttl_ms: int) -> Json:
    return {"ttlMs": ttl_ms, "cacheScope": "private"}


def _initialized(message: Message, server: Server) -> Json:
    asked = message.params["protocolVersion"]
    tasks: Json = {"tasks": {"requests": {"tools": {"call": {}}}}} if server.task else {}
    return {
        "protocolVersion": asked if asked in LEGACY else LEGACY[0],
        "capabilities": {"tools": {}, **tasks},
        "serverInfo": SERVER_INFO,
        "instructions": server.instructions,
    }
