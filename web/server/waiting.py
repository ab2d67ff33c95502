"""The application of a process that may not join yet: it says for which nodes it waits."""

from aiohttp import web

from web.json import json_response

RETRY_AFTER_SECONDS = "5"


def build_waiting_app(reason: str) -> web.Application:
    """Build an application that answers `/healthz`, and 503 with the reason to everything else."""

    async def is_alive(_: web.Request) -> web.Response:
        return json_response({"status": "ok"})

    async def is_not_serving(_: web.Request) -> web.Response:
        detail = f"This node waits: {reason}."
        return json_response({"detail": detail}, status=503, headers={"Retry-After": RETRY_AFTER_SECONDS})

    app = web.Application()
    app.router.add_get("/healthz", is_alive)
    app.router.add_route("*", "/{path:.*}", is_not_serving)
    return app
