"""A server that answers paths with JSON, in the place of a service."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


@asynccontextmanager
async def serving_json(answers: Mapping[str, Any], token: str = "") -> AsyncIterator[str]:
    """Yield the URL of a server with an answer for each path: a status code, or a body that comes with 200.

    With a token, requests without it get 401; `/healthz` and `/readyz` need none. A 503 has a `detail`.
    """

    async def answer(request: web.Request) -> web.Response:
        is_known = (
            request.path in {"/healthz", "/readyz"}
            or request.headers.get("Authorization") == f"Bearer {token}"
        )
        found = answers.get(request.path_qs, 404)
        status = 401 if token and not is_known else found if isinstance(found, int) else 200
        return web.json_response(found if status == 200 else {"detail": f"It is {status}."}, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")
