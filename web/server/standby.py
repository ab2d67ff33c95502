"""The application of an instance that does not serve: another one leads, or it is still starting."""

from aiohttp import web

from web.json import json_response

RETRY_AFTER_SECONDS = "1"


def build_standby_app() -> web.Application:
    """Build an application that answers `/healthz`, and 503 to everything else."""
    app = web.Application()
    app.router.add_get("/healthz", _is_alive)
    app.router.add_route("*", "/{path:.*}", _is_not_serving)
    return app


async def _is_alive(_: web.Request) -> web.Response:
    return json_response({"status": "ok"})


async def _is_not_serving(_: web.Request) -> web.Response:
    detail = "This instance is standing by; another one serves, or this one soon will."
    return json_response({"detail": detail}, status=503, headers={"Retry-After": RETRY_AFTER_SECONDS})
