"""Protection against guessing: limits on wrong attempts at passwords and codes, and on sign-ups.

One limit is for each account from each client network, so that a person who mistypes waits alone. The other
is for each network, whatever the accounts, against trying one password with many accounts. The first refuses
everybody. The second would keep out a neighbour of a guesser, so it leaves a way in: such an attempt is
`overdrawn`, and may still be checked if there is a reason to trust the client. Accounts that do not exist are
counted like others.
"""

import hashlib
import math
import unicodedata
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from aiohttp import web

from storage.model import User
from web.app_keys import CLOCK, PASSWORDS, SETTINGS, SIGNUPS, STORAGE
from web.credentials.rate_limits import TokenBuckets
from web.errors import UNAVAILABLE, Throttled
from web.request.client_address import client_network

KEY_BYTES = 16
NOBODY = UUID(int=0)  # no user's id


class AttemptKind(Enum):
    """The thing that is guessed. Each kind is counted apart for an account."""

    PASSWORD = auto()
    CODE = auto()
    SIGN_UP = auto()  # a guess whether an e-mail address has an account, apart from the limit of a network


class Limit(NamedTuple):
    """A number of wrong attempts that are accepted at once, and the seconds until one more is."""

    attempts: int
    seconds: int
    scope: str  # which attempts are counted together

    def buckets(self) -> TokenBuckets:
        return TokenBuckets(self.attempts, float(self.attempts * self.seconds))

    def take(self, buckets: TokenBuckets, client: Hashable, now: float) -> Throttled | None:
        """Count an attempt of the client. Return the refusal, which names this limit, of one too many."""
        quota = buckets.take(client, now)
        if quota.is_granted:
            return None
        limit = f"At most {self.attempts} wrong attempts {self.scope} are accepted, and one more"
        return Throttled(math.ceil(quota.more_in_seconds), f"{limit} every {self.seconds} seconds.")


OF_PAIR = Limit(10, 60, "at one account from one address")
OF_NETWORK = Limit(30, 10, "from one address")


@dataclass(slots=True)
class CountedAttempt:
    """An attempt in progress. It costs nothing unless it is counted as wrong."""

    network: str  # of the client
    overdrawn: Throttled | None = None  # the refusal, unless there is a reason to trust the client
    is_wrong: bool = field(default=False, init=False)

    def count_wrong(self) -> None:
        """Count the attempt as wrong. Raise Throttled if it is overdrawn, like one that is not checked."""
        self.is_wrong = True
        if self.overdrawn is not None:
            raise self.overdrawn


class LoginGuard:
    """The recent wrong attempts; times are monotonic seconds. The tables are bounded.

    An attempt in progress counts like a wrong one, so attempts that are sent at once gain nothing.
    """

    def __init__(self) -> None:
        self._of_pairs = OF_PAIR.buckets()
        self._of_networks = OF_NETWORK.buckets()

    def has_guessed(self, network: str, now: float) -> bool:
        """Return whether the network has made wrong attempts lately, or has several in progress."""
        return self._of_networks.peek(network, now).remaining < OF_NETWORK.attempts - 1

    @contextmanager
    def attempt(self, kind: AttemptKind, network: str, account: str, now: float) -> Iterator[CountedAttempt]:
        """Count an attempt while the block runs, and afterwards if it was wrong.

        Raise Throttled if the network has made too many wrong attempts at the account.
        """
        pair = (kind, network, account_key(account))
        refusal = OF_PAIR.take(self._of_pairs, pair, now)
        if refusal is not None:
            raise refusal
        attempt, counts_for_network = CountedAttempt(network), kind is not AttemptKind.SIGN_UP
        if counts_for_network:
            attempt.overdrawn = OF_NETWORK.take(self._of_networks, network, now)
        try:
            yield attempt
        finally:
            if not attempt.is_wrong:
                self._of_pairs.give_back(pair)
                if counts_for_network and attempt.overdrawn is None:
                    self._of_networks.give_back(network)


def account_key(text: str) -> bytes:
    """Return the key by which an e-mail address or an id is counted.

    Spellings that the database may take for one address have one key: case and accents do not count.
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(letter for letter in folded if not unicodedata.combining(letter))
    return hashlib.blake2b(letters.casefold().encode(), digest_size=KEY_BYTES).digest()


LOGIN_GUARD: web.AppKey[LoginGuard] = web.AppKey("login_guard")


def counted_attempt(
    request: web.Request, kind: AttemptKind, account: str = ""
) -> AbstractContextManager[CountedAttempt]:
    """Count the request as an attempt in progress while the block runs.

    `account` is an e-mail address, or the id of a user or an invitation. Raise Throttled if the client's
    network has made too many wrong attempts at it.
    """
    network, now = client_network(request), request.app[CLOCK].monotonic()
    return request.app[LOGIN_GUARD].attempt(kind, network, account, now)


def count_signup(request: web.Request) -> None:
    """Count a sign-up. Raise Throttled if the client's network has made too many within an hour."""
    app, maximum = request.app, request.app[SETTINGS].limits.signups_per_hour
    if not maximum:
        return
    quota = app[SIGNUPS].take(client_network(request), app[CLOCK].monotonic())
    if not quota.is_granted:
        limit = f"At most {maximum} sign-ups an hour are accepted from one address (limits.signups_per_hour)."
        raise Throttled(math.ceil(quota.more_in_seconds), limit)


async def verify_password(
    request: web.Request, attempt: CountedAttempt, user: User | None, password: str
) -> bool:
    """Return whether the password is that of the user, and count a wrong one.

    An overdrawn attempt is only checked if the user has logged in from the client's network lately. If it is
    not checked, or the password is wrong, Throttled is raised, after the same time and whether or not there
    is a user. Raise Unavailable if too many passwords wait.
    """
    app, passwords = request.app, request.app[PASSWORDS]
    if attempt.overdrawn is not None:
        user_id = user.id if user else NOBODY  # asks for nobody, too
        if not await app[STORAGE].login_networks.contains(user_id, attempt.network, app[CLOCK].now()):
            await app[CLOCK].sleep(passwords.usual_seconds)
            attempt.count_wrong()  # raises Throttled
    is_right = await passwords.verify(password, user.password_hash if user else None, attempt.network)
    if user is None or not is_right:
        attempt.count_wrong()
        return False
    return True


async def record_login(request: web.Request, user_id: UUID) -> None:
    """Remember the client's network as one from which the user has logged in, if the database takes writes.

    Log-ins work while it does not.
    """
    networks = request.app[STORAGE].login_networks
    with suppress(*UNAVAILABLE):
        await networks.record(user_id, client_network(request), request.app[CLOCK].now())
