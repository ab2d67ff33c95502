"""The application of an instance that does not serve: another one leads, or it is still starting."""

from aiohttp import web

from web.json import json_response
from web.request.preferences import prefers_html

RETRY_AFTER_SECONDS = "1"
DETAIL = "This instance is standing by; another one serves, or this one soon will."
PAGE = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>hostsvc is standing by</title>
<p>{DETAIL} This page asks again every few seconds.</p>
"""
PAGE_HEADERS = {"Retry-After": RETRY_AFTER_SECONDS, "Refresh": "3", "Vary": "Accept"}


def build_standby_app() -> web.Application:
    """Build an application that answers `/healthz`, and 503 to everything else."""
    app = web.Application()
    app.router.add_get("/healthz", _is_alive)
    app.router.add_route("*", "/{path:.*}", _is_not_serving)
    return app


async def _is_alive(_: web.Request) -> web.Response:
    return json_response({"status": "ok"})


async def _is_not_serving(request: web.Request) -> web.Response:
    if prefers_html(request):
        return web.Response(
            text=PAGE, status=503, content_type="text/html", charset="utf-8", headers=PAGE_HEADERS
        )
    headers = {"Retry-After": RETRY_AFTER_SECONDS, "Vary": "Accept"}
    return json_response({"detail": DETAIL}, status=503, headers=headers)
