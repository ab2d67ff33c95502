"""Attempts at a password or a code, limited for each client address."""

from aiohttp import web

from web.app_keys import CLOCK, PASSWORDS, SETTINGS, THROTTLE
from web.credentials.throttle import client_address


def check_attempts(request: web.Request) -> None:
    """Raise TooManyAttempts if too many attempts from the client's address were refused lately."""
    request.app[THROTTLE].check(_address(request), request.app[CLOCK].monotonic())


def count_refusal(request: web.Request) -> None:
    """Count a refused attempt against the client's address."""
    request.app[THROTTLE].count(_address(request), request.app[CLOCK].monotonic())


async def verify_password(request: web.Request, password: str, password_hash: str | None) -> bool:
    """Return whether the password is right; a wrong one counts as a refusal.

    Raise TooManyAttempts if the address is locked out after the hash was computed: guesses may have been
    sent all at once. Without a hash the answer is False, after the same time.
    """
    is_right = await request.app[PASSWORDS].verify(password, password_hash) and password_hash is not None
    check_attempts(request)
    if not is_right:
        count_refusal(request)
    return is_right


def _address(request: web.Request) -> str:
    forwarded = request.headers.getall("X-Forwarded-For", ())
    return client_address(request.remote or "", forwarded, request.app[SETTINGS].trusted_proxies)
