"""A server of tools as their owners run them: a real one, that answers as the test says."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]

MOST_BYTES = 4 << 20  # of a call


@dataclass(frozen=True, slots=True)
class Received:
    """One call, as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        """What the call says of itself."""
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data


async def accept(_: web.Request) -> web.Response:
    return web.json_response({"fine": True})


@dataclass(slots=True)
class ToolServer:
    """`received` are the calls it got, oldest first; `answer` is what it makes of them."""

    answer: Answering = accept
    port: int = 0
    received: list[Received] = field(default_factory=list)

    def url(self, path: str = "/tool") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def answers(self, body: bytes | str, content_type: str | None = None, status: int = 200) -> None:
        """Have every call answered like this."""
        headers = {"Content-Type": content_type} if content_type else {}

        async def answer(_: web.Request) -> web.Response:
            raw = body.encode() if isinstance(body, str) else body
            return web.Response(body=raw, status=status, headers=headers)

        self.answer = answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.received.append(Received(request.path_qs, dict(request.headers), await request.read()))
        return await self.answer(request)


@asynccontextmanager
async def serving_tools(port: int | None = None) -> AsyncIterator[ToolServer]:
    """A server of tools that says that all is fine."""
    server = ToolServer()
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", server.handle)
    async with TestServer(app, port=port) as listening:
        server.port = listening.port or 0
        yield server
