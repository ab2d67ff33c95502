"""Attempts at a password or a code, and sign-ups: limited for each client network."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from web.app_keys import CLOCK, PASSWORDS, SETTINGS, SIGNUPS, THROTTLE
from web.errors import Throttled
from web.request.client_address import client_network


@contextmanager
def login_attempt(request: web.Request) -> Iterator[None]:
    """Count the request as an attempt in progress while the block runs.

    Raise Throttled if too many attempts of the client's network are in progress or were refused lately.
    """
    with request.app[THROTTLE].attempt(client_network(request), request.app[CLOCK].monotonic()):
        yield


def count_signup(request: web.Request) -> None:
    """Count a sign-up. Raise Throttled if the client's network has made too many within an hour."""
    app, network, now = request.app, client_network(request), request.app[CLOCK].monotonic()
    maximum = app[SETTINGS].signups_per_hour
    if not maximum:
        return
    if (wait := app[SIGNUPS].wait_seconds(network, now)) > 0:
        limit = f"At most {maximum} sign-ups an hour are accepted from one address (limits.signups_per_hour)."
        raise Throttled(math.ceil(wait), limit)
    app[SIGNUPS].add(network, now)


def count_refusal(request: web.Request) -> None:
    """Count a refused attempt against the client's network."""
    request.app[THROTTLE].count_refusal(client_network(request), request.app[CLOCK].monotonic())


async def hash_password(request: web.Request, password: str) -> str:
    """Return the hash of a new password. Raise Unavailable if too many passwords wait."""
    return await request.app[PASSWORDS].hash(password, _recent_attempts(request))


async def verify_password(request: web.Request, password: str, password_hash: str | None) -> bool:
    """Return whether the password is right; a wrong one counts as a refusal.

    Without a hash the answer is False, after the same time. Raise Unavailable if too many passwords wait.
    """
    recent = _recent_attempts(request)
    is_right = await request.app[PASSWORDS].verify(password, password_hash, recent)
    if password_hash is None or not is_right:
        count_refusal(request)
        return False
    return True


def _recent_attempts(request: web.Request) -> int:
    return request.app[THROTTLE].recent_attempts(client_network(request), request.app[CLOCK].monotonic())
