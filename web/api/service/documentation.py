"""The OpenAPI document for programs and Swagger UI for people, served without outside resources."""

from functools import cache
from importlib.resources import files
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from web.app_keys import API_DOCUMENT
from web.json import JSON_TYPE
from web.routes import Access, Routes

routes = Routes(Access.ANYONE)

PAGES = "/api/docs/"
SWAGGER_UI = files("web").joinpath("static", "swagger_ui")
FILE_TYPES = {
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}


@routes.get("/api/schema/", answer=dict[str, Any])
async def get_schema(request: web.Request) -> web.Response:
    """Return this document. It needs no credential."""
    return web.Response(body=await request.app[API_DOCUMENT](), headers={"Content-Type": JSON_TYPE})


@routes.get(PAGES, answer=str, media_types=("text/html",))
async def get_docs(_: web.Request) -> web.Response:
    """Return a page that shows this document and can send requests. It loads nothing from elsewhere."""
    return _file_response(_read_file("index.html"), "text/html")


def add_files(app: web.Application) -> None:
    """Add the routes of the files that the page loads. Each file is read once, when it is first asked for."""
    for name, content_type in FILE_TYPES.items():
        app.router.add_get(PAGES + name, _build_file_handler(name, content_type))


def _build_file_handler(name: str, content_type: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return _file_response(_read_file(name), content_type)

    return answer


@cache
def _read_file(name: str) -> bytes:
    return SWAGGER_UI.joinpath(name).read_bytes()


def _file_response(body: bytes, content_type: str) -> web.Response:
    charset = None if content_type.startswith("image/") else "utf-8"
    return web.Response(body=body, content_type=content_type, charset=charset, headers=PAGE_HEADERS)
