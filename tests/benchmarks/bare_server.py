"""The reference to measure against: aiohttp and asyncpg with one statement per request, and nothing else.

    python -m tests.benchmarks.bare_server DATABASE_URL ORGANIZATION_ID

It uses the same tables, but neither asks who calls nor checks what was sent. Event loop, JSON library, pool
size, server settings and the pool's no-op reset are those of the service.
"""

import asyncio
import socket
import sys
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import uvloop
from aiohttp import web

from storage.ids import new_id
from storage.postgres.connections import SERVER_SETTINGS
from storage.postgres.pool import DatabaseSettings

PATH = "/notification/"
JSON_TYPE = "application/json"

INSERT = """
INSERT INTO notification (id, organization_id, agent_id, title, body, priority, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
SELECT = {
    "agent": "SELECT * FROM agent WHERE id = $1",
    "contact": "SELECT * FROM contact WHERE id = $1",
    "document": "SELECT * FROM document WHERE id = $1",
    "message": "SELECT * FROM message WHERE id = $1",
    "notification": "SELECT * FROM notification WHERE id = $1",
    "run": "SELECT * FROM run WHERE id = $1",
    "template": "SELECT * FROM template WHERE id = $1",
    "trace": "SELECT * FROM trace WHERE id = $1",
}
LIST = """
SELECT * FROM notification WHERE organization_id = $1 ORDER BY created_at DESC, id DESC LIMIT 100
"""


class BareHandlers:
    """One statement each."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", organization_id: UUID) -> None:
        self._pool = pool
        self._organization_id = organization_id

    async def create(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        notification_id = new_id()
        await self._pool.execute(
            INSERT,
            notification_id,
            self._organization_id,
            UUID(body["agent"]),
            body["title"],
            body["body"],
            body["priority"],
            datetime.now(UTC),
        )
        answer = orjson.dumps({"id": str(notification_id)})
        return web.Response(body=answer, status=201, content_type=JSON_TYPE)

    async def get(self, request: web.Request) -> web.Response:
        found = request.match_info
        row = await self._pool.fetchrow(SELECT[found["table"]], UUID(found["id"]))
        if row is None:
            raise web.HTTPNotFound
        return web.Response(body=orjson.dumps(dict(row), default=str), content_type=JSON_TYPE)

    async def list(self, _: web.Request) -> web.Response:
        rows = await self._pool.fetch(LIST, self._organization_id)
        answer = orjson.dumps([dict(row) for row in rows], default=str)
        return web.Response(body=answer, content_type=JSON_TYPE)


async def serve(database_url: str, organization_id: UUID) -> None:
    """Serve until the process ends."""
    settings = DatabaseSettings(database_url)
    async with asyncpg.create_pool(
        settings.url,
        min_size=settings.pool_size,
        max_size=settings.pool_size,
        server_settings=SERVER_SETTINGS,
        reset=_keep_session,
    ) as pool:
        handlers = BareHandlers(pool, organization_id)
        app = web.Application()
        app.router.add_post(PATH, handlers.create)
        app.router.add_get(PATH, handlers.list)
        app.router.add_get("/{table}/{id}/", handlers.get)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        await web.SockSite(runner, listener).start()
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
        await asyncio.Event().wait()


async def _keep_session(_: Any) -> None:
    """Keep the session as it is: asyncpg's own reset costs a round trip, and the service omits it, too."""


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], UUID(sys.argv[2])))
