"""The preferences of a client, as the headers Accept and Accept-Encoding state them."""

from aiohttp import web
from aiohttp.hdrs import ACCEPT, ACCEPT_ENCODING

HTML = "text/html"
JSON_NAMES = ("application/json", "application/*", "*/*")


def prefers_html(request: web.Request) -> bool:
    """Return whether the client asks for HTML rather than JSON, as a browser does that opens an address."""
    header = request.headers.get(ACCEPT, "")
    return _quality(header, HTML) > _quality(header, *JSON_NAMES)


def accepts_encoding(request: web.Request, encoding: str) -> bool:
    """Return whether the answer may be compressed by an encoding such as `gzip`."""
    return _quality(request.headers.get(ACCEPT_ENCODING, ""), encoding, "*") > 0


def _quality(header: str, *names: str) -> float:
    """Return the quality of the first of these names that the header contains, 0 if it contains none."""
    qualities = dict(map(_parse, header.split(",")))
    return next((qualities[name] for name in names if name in qualities), 0.0)


def _parse(item: str) -> tuple[str, float]:
    """Return the name of an item such as `text/html;q=0.9`, and its quality: 0 if that is no number."""
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key == "q":
            return name, float(value) if value.replace(".", "", 1).isdecimal() else 0.0
    return name, 1.0
