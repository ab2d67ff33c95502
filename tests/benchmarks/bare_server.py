"""The reference to measure against: aiohttp and asyncpg with one insert per request, and nothing else.

    python -m tests.benchmarks.bare_server DATABASE_URL ORGANIZATION_ID

It writes the same row into the same table, but neither asks who calls nor checks what was sent. Event loop,
JSON library, pool size, server settings and the pool's no-op reset are those of the service.
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

PATH = "/notifications/"

INSERT = """
INSERT INTO notification (id, organization_id, agent_id, title, body, priority, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""


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

        async def create(request: web.Request) -> web.Response:
            body = orjson.loads(await request.read())
            notification_id = new_id()
            await pool.execute(
                INSERT,
                notification_id,
                organization_id,
                UUID(body["agent"]),
                body["title"],
                body["body"],
                body["priority"],
                datetime.now(UTC),
            )
            answer = orjson.dumps({"id": str(notification_id)})
            return web.Response(body=answer, status=201, content_type="application/json")

        app = web.Application()
        app.router.add_post(PATH, create)
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
