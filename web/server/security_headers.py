"""The headers that protect browsers and caches, on every answer; and no banner that names the software."""

from collections.abc import Mapping, MutableMapping

from multidict import istr

SERVER = istr("Server")
HEADERS: Mapping[str, str] = {
    istr("X-Content-Type-Options"): "nosniff",
    istr("X-Frame-Options"): "DENY",
    istr("Referrer-Policy"): "no-referrer",
    istr("Cross-Origin-Resource-Policy"): "same-origin",
    istr("Content-Security-Policy"): "default-src 'none'; frame-ancestors 'none'",
    istr("Cache-Control"): "no-store",
}
HTTPS_HEADERS: Mapping[str, str] = {istr("Strict-Transport-Security"): "max-age=31536000"}


def headers_for(*, is_https: bool) -> Mapping[str, str]:
    """Return the headers of answers to clients that use HTTPS, or HTTP."""
    return {**HEADERS, **HTTPS_HEADERS} if is_https else HEADERS


def secure(answer: MutableMapping[str, str], headers: Mapping[str, str]) -> None:
    """Add the headers that an answer lacks, and remove the framework's banner."""
    answer.pop(SERVER, None)
    for name, value in headers.items():
        answer.setdefault(name, value)
