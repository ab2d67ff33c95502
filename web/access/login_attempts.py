"""Attempts at a password or a code, limited for each client address."""

from aiohttp import web

from web.app_keys import CLOCK, SETTINGS, THROTTLE
from web.credentials.throttle import client_address


def check_attempts(request: web.Request) -> None:
    """Raise TooManyAttempts if too many attempts from the client's address were refused lately."""
    request.app[THROTTLE].check(_address(request), request.app[CLOCK].monotonic())


def count_refusal(request: web.Request) -> None:
    """Count a refused attempt against the client's address."""
    request.app[THROTTLE].count(_address(request), request.app[CLOCK].monotonic())


def _address(request: web.Request) -> str:
    forwarded = request.headers.getall("X-Forwarded-For", ())
    return client_address(request.remote or "", forwarded, request.app[SETTINGS].trusted_proxies)
