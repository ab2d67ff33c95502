"""The API's description for programs, and Swagger UI over it for people; both from the package alone."""

from importlib.resources import files
from typing import Any

from aiohttp import web

from web.json import JSON_TYPE
from web.keys import API_DOCUMENT
from web.routes import for_anyone

PAGES = "/api/docs/"
SWAGGER_UI = files("web").joinpath("static", "swagger_ui")
PAGE_TYPES = {
    "": "text/html",
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def get_schema(request: web.Request) -> web.Response:
    return web.Response(body=request.app[API_DOCUMENT], headers={"Content-Type": JSON_TYPE})


def add_pages(app: web.Application) -> None:
    """Swagger UI, each of its files read once."""
    for name, content_type in PAGE_TYPES.items():
        app.router.add_get(PAGES + name, _page(name or "index.html", content_type))


def _page(name: str, content_type: str) -> Any:
    body = SWAGGER_UI.joinpath(name).read_bytes()
    charset = None if content_type.startswith("image/") else "utf-8"

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type, charset=charset, headers=PAGE_HEADERS)

    return page


ROUTES = (
    for_anyone("GET", "/api/schema/", get_schema, "This document, as OpenAPI 3.1", answer=dict[str, Any]),
)
