"""Attempts at a password or a code, and sign-ups: limited for each client network and each account."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from aiohttp import web

from storage.model import User
from web.app_keys import CLOCK, LOGIN_GUARD, PASSWORDS, SETTINGS, SIGNUPS, STORAGE
from web.credentials.login_guard import AttemptKind, CountedAttempt
from web.errors import UNAVAILABLE, Throttled
from web.request.client_address import client_network

NOBODY = UUID(int=0)  # no user's id


@contextmanager
def counted_attempt(request: web.Request, kind: AttemptKind, account: str = "") -> Iterator[CountedAttempt]:
    """Count the request as an attempt in progress while the block runs.

    `account` is an e-mail address, or the id of a user or an invitation. Raise Throttled if the client's
    network has made too many wrong attempts at it.
    """
    network, now = client_network(request), request.app[CLOCK].monotonic()
    with request.app[LOGIN_GUARD].attempt(kind, network, account, now) as attempt:
        yield attempt


def count_signup(request: web.Request) -> None:
    """Count a sign-up. Raise Throttled if the client's network has made too many within an hour."""
    app, maximum = request.app, request.app[SETTINGS].limits.signups_per_hour
    if not maximum:
        return
    quota = app[SIGNUPS].take(client_network(request), app[CLOCK].monotonic())
    if not quota.is_granted:
        limit = f"At most {maximum} sign-ups an hour are accepted from one address (limits.signups_per_hour)."
        raise Throttled(math.ceil(quota.more_in_seconds), limit)


async def hash_password(request: web.Request, attempt: CountedAttempt, password: str) -> str:
    """Return the hash of a new password. Raise Unavailable if too many passwords wait."""
    return await request.app[PASSWORDS].hash(password, attempt.network)


async def verify_password(
    request: web.Request, attempt: CountedAttempt, user: User | None, password: str
) -> bool:
    """Return whether the password is that of the user, and count a wrong one.

    An overdrawn attempt is only checked if the user has logged in from the client's network lately. If it is
    not checked, or the password is wrong, Throttled is raised, after the same time and whether or not there
    is a user. Raise Unavailable if too many passwords wait.
    """
    passwords = request.app[PASSWORDS]
    if attempt.overdrawn is not None and not await _has_logged_in(request, attempt, user):
        await request.app[CLOCK].sleep(passwords.usual_seconds)
        attempt.count_wrong()  # raises Throttled
    is_right = await passwords.verify(password, user.password_hash if user else None, attempt.network)
    if user is None or not is_right:
        attempt.count_wrong()
        return False
    return True


async def _has_logged_in(request: web.Request, attempt: CountedAttempt, user: User | None) -> bool:
    """Return whether the user has logged in from the client's network lately; ask for nobody, too."""
    networks, user_id = request.app[STORAGE].login_networks, user.id if user else NOBODY
    return await networks.contains(user_id, attempt.network, request.app[CLOCK].now())


async def record_login(request: web.Request, user_id: UUID) -> None:
    """Remember the client's network as one from which the user has logged in, if the database takes writes.

    Log-ins work while it does not.
    """
    networks = request.app[STORAGE].login_networks
    with suppress(*UNAVAILABLE):
        await networks.record(user_id, client_network(request), request.app[CLOCK].now())
