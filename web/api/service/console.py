"""The console: its page, which every address below /console/ answers, and the files that the page loads."""

from aiohttp import web

from web.console.assets import PREFIX, Asset, read_console
from web.errors import NotFound
from web.json import json_response
from web.request.preferences import accepts_encoding

CONSOLE = "/console/"
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cache-Control": "no-cache",
}
ASSET_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
OUTDATED = "This file belongs to another version of the console. Reload the page."


def add_files(app: web.Application) -> None:
    """Add the page and its files. They need no credential, and count for no rate limit."""
    app.router.add_get(PREFIX + "{digest}/{path:.+}", get_asset)
    app.router.add_get(PREFIX + "{path:.*}", refuse_unknown)
    app.router.add_get(CONSOLE + "{path:.*}", get_page)


async def get_page(_: web.Request) -> web.Response:
    """Return the page. Its script shows the screen that belongs to the address."""
    files = read_console()
    files.begin_compressing()
    return web.Response(body=files.page, content_type="text/html", charset="utf-8", headers=PAGE_HEADERS)


async def get_asset(request: web.Request) -> web.Response:
    """Return a file. The files of an earlier version are gone, and the answer says so."""
    files = read_console()
    if request.match_info["digest"] != files.digest:
        return json_response({"detail": OUTDATED}, 404)
    asset = files.assets.get(request.match_info["path"])
    if asset is None:
        raise NotFound
    encoding, body = _encode(request, asset)
    headers = {**ASSET_HEADERS, "Content-Encoding": encoding} if encoding else ASSET_HEADERS
    return web.Response(body=body, content_type=asset.content_type, charset="utf-8", headers=headers)


def _encode(request: web.Request, asset: Asset) -> tuple[str, bytes]:
    """Return the smallest form of a file that the client takes and that is ready, and its encoding."""
    if asset.by_brotli is not None and accepts_encoding(request, "br"):
        return "br", asset.by_brotli
    return ("gzip", asset.by_gzip) if accepts_encoding(request, "gzip") else ("", asset.body)


async def refuse_unknown(_: web.Request) -> web.Response:
    """Answer 404: no file has such a path, and the page is not a file."""
    raise NotFound
