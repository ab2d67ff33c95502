"""A real HTTP endpoint for webhooks and tool calls: it records requests and answers as the test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from standardwebhooks import Webhook

from tests.patience import PATIENCE_SECONDS

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BYTES = 4 << 20  # of a call


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> dict[str, Any]:
        """Return the `data` member of the JSON body."""
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data

    def verified_by(self, secret: str | bytes) -> Any:
        """Return the body if it is signed with the secret; raise otherwise."""
        return Webhook(secret).verify(self.body, dict(self.headers))


@dataclass(slots=True)
class Receiver:
    """Records requests in `requests`, oldest first. Answers 204 unless `answer` says otherwise."""

    port: int = 0
    answer: Answering | None = None
    requests: list[Received] = field(default_factory=list)
    _arrival: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return self.url_by("127.0.0.1")

    def url_by(self, host: str) -> str:
        """Return the address under another host name."""
        return f"http://{host}:{self.port}"

    async def wait_for(self, number: int, within: float = PATIENCE_SECONDS) -> list[Received]:
        """Wait until `number` requests have come, and return them all."""
        try:
            async with asyncio.timeout(within), self._arrival:
                await self._arrival.wait_for(lambda: len(self.requests) >= number)
        except TimeoutError:
            raise AssertionError(
                f"{len(self.requests)} of {number} requests came within {within} s"
            ) from None
        return self.requests

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(Received(request.path_qs, dict(request.headers), await request.read()))
        async with self._arrival:
            self._arrival.notify_all()
        return web.Response(status=204) if self.answer is None else await self.answer(request)


def answering(status: int, body: bytes | str = b"", **headers: str) -> Answering:
    """Return a handler that always gives this answer."""
    raw = body.encode() if isinstance(body, str) else body

    async def answer(_: web.Request) -> web.Response:
        return web.Response(
            status=status, body=raw, headers={name.replace("_", "-"): headers[name] for name in headers}
        )

    return answer


def answering_json(body: bytes | str, status: int = 200) -> Answering:
    """Return a handler that always gives this JSON."""
    return answering(status, body, Content_Type="application/json")


async def hang(_: web.Request) -> web.Response:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def receiving(port: int | None = None) -> AsyncIterator[Receiver]:
    """Serve a receiver on loopback until the block ends."""
    receiver = Receiver()
    app = web.Application(client_max_size=MAX_BYTES)
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    async with TestServer(app, port=port) as server:
        receiver.port = server.port or 0
        yield receiver
