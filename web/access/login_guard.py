"""Protection against guessing: limits on wrong attempts at passwords and codes, and on sign-ups.

One limit is for each account from each client network, so that a person who mistypes waits alone. The other
is for each network, whatever the accounts, against trying one password with many accounts. The first refuses
everybody. The second would keep out a neighbour of a guesser, so it leaves a way in: such an attempt is
`overdrawn`, and may still be checked if there is a reason to trust the client. Accounts that do not exist are
counted like others.

Wrong attempts are counted in the database, for all nodes together; attempts in progress by each node.
"""

import asyncio
import hashlib
import math
import unicodedata
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from aiohttp import web

from storage.errors import StorageError
from storage.identity.throttle import ThrottleBuckets
from storage.model import User
from web.app_keys import CLOCK, PASSWORDS, REFUSALS, SETTINGS, SIGNUPS, STORAGE
from web.errors import UNAVAILABLE, Throttled
from web.request.client_address import address_of, client_network

KEY_BYTES = 16
NOBODY = UUID(int=0)  # no user's id
UNCOUNTED = (
    "Wrong attempts cannot be counted at the moment, so only people who logged in here lately may log in."
)
UNCOUNTED_SECONDS = 5


class AttemptKind(Enum):
    """The thing that is guessed. Each kind is counted apart for an account."""

    PASSWORD = auto()
    CODE = auto()
    MAIL = auto()  # a request to send a code, each of which counts as wrong
    SIGN_UP = auto()  # a guess whether an e-mail address has an account, apart from the limit of a network


class Limit(NamedTuple):
    """A number of wrong attempts that are accepted at once, and the seconds until one more is."""

    attempts: int
    seconds: int
    scope: str  # which attempts are counted together

    @property
    def interval(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def refusal(self, wait: timedelta, in_progress: int) -> Throttled | None:
        """Return the refusal, which names this limit, of one attempt too many.

        `wait` is how long it takes until no wrong attempt counts any more; `in_progress` counts the others.
        """
        seconds = (wait + (in_progress + 1 - self.attempts) * self.interval).total_seconds()
        if seconds <= 0:
            return None
        limit = f"At most {self.attempts} wrong attempts {self.scope} are accepted, and one more"
        return Throttled(math.ceil(seconds), f"{limit} every {self.seconds} seconds.")


OF_PAIR = Limit(10, 60, "at one account from one address")
OF_NETWORK = Limit(30, 10, "from one address")
NONE = timedelta()


@dataclass(slots=True, eq=False)
class CountedAttempt:
    """An attempt in progress. It costs nothing unless it is counted as wrong."""

    guard: "LoginGuard"
    kind: AttemptKind
    network: str  # of the client
    pair: bytes
    began_at: datetime
    overdrawn: Throttled | None = None  # the refusal, unless there is a reason to trust the client
    network_wait: timedelta = NONE  # until no wrong attempt of the network before this one counts any more

    @property
    def counts_for_network(self) -> bool:
        return self.kind is not AttemptKind.SIGN_UP and self.overdrawn is None

    async def count_wrong(self) -> None:
        """Count the attempt as wrong. Raise Throttled if it is overdrawn, like one that is not checked.

        Raise StorageError if it cannot be counted.
        """
        await self.guard.count(self)
        if self.overdrawn is not None:
            raise self.overdrawn


class LoginGuard:
    """The wrong attempts, which all nodes count together, and those that are in progress here.

    An attempt in progress counts like a wrong one, so attempts that are sent at once gain nothing.
    """

    def __init__(self, buckets: ThrottleBuckets) -> None:
        self._buckets = buckets
        self._in_progress: dict[str, list[CountedAttempt]] = {}  # by network
        self._can_count = True

    def has_guessed(self, network: str) -> bool:
        """Return whether a network with attempts in progress made wrong ones before, or has several."""
        attempts = self._in_progress.get(network, ())
        wrong = max((attempt.network_wait for attempt in attempts), default=NONE) / OF_NETWORK.interval
        return sum(attempt.counts_for_network for attempt in attempts) + math.ceil(wrong) > 1

    @asynccontextmanager
    async def attempt(
        self, kind: AttemptKind, network: str, account: str, now: datetime
    ) -> AsyncIterator[CountedAttempt]:
        """Count an attempt while the block runs.

        Raise Throttled if the network has made too many wrong attempts at the account.
        """
        attempt = CountedAttempt(self, kind, network, _pair_key(kind, network, account), now)
        others = list(self._in_progress.get(network, ()))
        of_pair = sum(other.pair == attempt.pair for other in others)
        if refusal := OF_PAIR.refusal(NONE, of_pair):
            raise refusal
        self._in_progress.setdefault(network, []).append(attempt)
        try:
            # The others were counted before this read, so one that ends during it is not missed.
            full_at = await self._buckets.list_full_at([attempt.pair, _network_key(network)], now)
            if refusal := OF_PAIR.refusal(full_at.get(attempt.pair, now) - now, of_pair):
                raise refusal
            attempt.network_wait = full_at.get(_network_key(network), now) - now
            if kind is not AttemptKind.SIGN_UP:
                attempt.overdrawn = self._overdrawn(attempt, others)
            yield attempt
        finally:
            self._in_progress[network].remove(attempt)
            if not self._in_progress[network]:
                del self._in_progress[network]

    def _overdrawn(self, attempt: CountedAttempt, others: list[CountedAttempt]) -> Throttled | None:
        if not self._can_count:
            return Throttled(UNCOUNTED_SECONDS, UNCOUNTED)
        return OF_NETWORK.refusal(attempt.network_wait, sum(other.counts_for_network for other in others))

    async def count(self, attempt: CountedAttempt) -> None:
        """Store the attempt as a wrong one. While that fails, all attempts are overdrawn."""
        tokens = {attempt.pair: OF_PAIR.interval}
        if attempt.counts_for_network:
            tokens[_network_key(attempt.network)] = OF_NETWORK.interval
        try:
            await self._buckets.take(tokens, attempt.began_at)
            self._can_count = True
        except StorageError:
            self._can_count = False
            raise


def _network_key(network: str) -> bytes:
    return _digest(network)


def _pair_key(kind: AttemptKind, network: str, account: str) -> bytes:
    return _digest(f"{kind.name} {network} {account_key(account).hex()}")


def account_key(text: str) -> bytes:
    """Return the key by which an e-mail address or an id is counted.

    Spellings that the database may take for one address have one key: case and accents do not count.
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(letter for letter in folded if not unicodedata.combining(letter))
    return _digest(letters.casefold())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


LOGIN_GUARD: web.AppKey[LoginGuard] = web.AppKey("login_guard")


def counted_attempt(
    request: web.Request, kind: AttemptKind, account: str = ""
) -> AbstractAsyncContextManager[CountedAttempt]:
    """Count the request as an attempt in progress while the block runs.

    `account` is an e-mail address, or the id of a user or an invitation. Raise Throttled if the client's
    network has made too many wrong attempts at it.
    """
    network, now = client_network(request), request.app[CLOCK].now()
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
            await attempt.count_wrong()  # raises Throttled
    is_right = await passwords.verify(password, user.password_hash if user else None, attempt.network)
    if user is None or not is_right:
        # At the same time, so that an entry takes no time by which an account can be told.
        await asyncio.gather(_record_refusal(request, user.id if user else NOBODY), attempt.count_wrong())
        return False
    return True


async def _record_refusal(request: web.Request, user_id: UUID) -> None:
    """Record for the audit log that a password was wrong: of many attempts at an account, one a minute."""
    app = request.app
    if app[REFUSALS].take(user_id, app[CLOCK].monotonic()).is_granted:
        with suppress(*UNAVAILABLE):
            await app[STORAGE].login_networks.record_refusal(user_id, app[CLOCK].now(), address_of(request))


async def record_login(request: web.Request, user_id: UUID) -> None:
    """Remember the client's network as one from which the user has logged in, if the database takes writes.

    Log-ins work while it does not.
    """
    networks = request.app[STORAGE].login_networks
    with suppress(*UNAVAILABLE):
        now, address = request.app[CLOCK].now(), address_of(request)
        await networks.record(user_id, client_network(request), now, address)
