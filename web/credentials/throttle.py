"""Protection against guessing: limits on wrong attempts at passwords and codes.

Three limits are separate. One is for each account from each client network, so that a person who mistypes
waits alone. One is for each network, whatever the accounts, against trying one password with many accounts.
One is for each account, whatever the networks, against guessers with many addresses.

The first refuses everybody. The others would keep out a neighbour of a guesser, or the owner of the account.
So they leave a way in: such an attempt is `overdrawn`, and may still be checked if there is a reason to trust
the client. Accounts that do not exist are counted like others.
"""

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from supervisors.fair_slots import decrement
from web.credentials.token_buckets import TokenBuckets
from web.errors import Throttled

MAX_IN_PROGRESS = 4
RETRY_SECONDS = 1  # after which one of the attempts in progress has probably ended
AT_ONCE = f"At most {MAX_IN_PROGRESS} attempts at one account are accepted at once from one address."
KEY_BYTES = 16


class AttemptKind(Enum):
    """The thing that is guessed.

    Each kind is counted apart, except that passwords and codes share the limit of a network.
    """

    PASSWORD = auto()
    CODE = auto()  # too long to be guessed, so a limit of an account would only keep its owner out
    SIGN_UP = auto()  # a guess whether an e-mail address has an account, counted for the network alone


class Limit(NamedTuple):
    """A number of wrong attempts that are accepted at once, and the seconds until one more is.

    `scope` says which attempts are counted together.
    """

    attempts: int
    seconds: int
    scope: str

    def buckets(self) -> TokenBuckets:
        return TokenBuckets(self.attempts, float(self.attempts * self.seconds))

    def refusal(self, wait_seconds: float) -> Throttled:
        """Return the error that names this limit."""
        limit = f"At most {self.attempts} wrong attempts {self.scope} are accepted, and one more"
        return Throttled(math.ceil(wait_seconds), f"{limit} every {self.seconds} seconds.")


OF_PAIR = Limit(10, 60, "at one account from one address")
OF_NETWORK = Limit(30, 10, "from one address")
OF_ACCOUNT = Limit(30, 20, "at one account")

Pair = tuple[AttemptKind, str, bytes]


@dataclass(slots=True)
class CountedAttempt:
    """An attempt in progress. It costs nothing unless it is counted as wrong."""

    rank: int  # of its check among those of others: the recent wrong attempts of the network
    overdrawn: Throttled | None = None  # the refusal, unless there is a reason to trust the client
    is_wrong: bool = field(default=False, init=False)

    def count_wrong(self) -> None:
        """Count the attempt as wrong. Raise Throttled if it is overdrawn, like one that is not checked."""
        self.is_wrong = True
        if self.overdrawn is not None:
            raise self.overdrawn


class Throttle:
    """The recent wrong attempts; times are monotonic seconds. The tables are bounded.

    An attempt in progress counts like a wrong one, so attempts that are sent at once gain nothing.
    """

    def __init__(self) -> None:
        self._of_pairs = OF_PAIR.buckets()
        self._of_networks = OF_NETWORK.buckets()
        self._of_accounts = OF_ACCOUNT.buckets()
        self._in_progress: Counter[Pair] = Counter()

    def __repr__(self) -> str:
        counts = f"{len(self._of_networks)} networks, {len(self._of_accounts)} accounts"
        return f"<Throttle: {counts}, {self._in_progress.total()} in progress>"

    @contextmanager
    def attempt(
        self, kind: AttemptKind, network: str, account: bytes, now: float
    ) -> Iterator[CountedAttempt]:
        """Count an attempt while the block runs, and afterwards if it was wrong.

        Raise Throttled if the network has made too many wrong attempts at the account, or has too many in
        progress.
        """
        pair = (kind, network, account)
        if self._in_progress[pair] >= MAX_IN_PROGRESS:
            raise Throttled(RETRY_SECONDS, AT_ONCE)
        quota = self._of_pairs.take(pair, now)
        if not quota.is_granted:
            raise OF_PAIR.refusal(quota.more_in_seconds)
        rank = OF_NETWORK.attempts - self._of_networks.peek(network, now).remaining
        overdrawn = self._take_shared(kind, network, account, now)
        attempt = CountedAttempt(rank + OF_PAIR.attempts - 1 - quota.remaining, overdrawn)
        self._in_progress[pair] += 1
        try:
            yield attempt
        finally:
            decrement(self._in_progress, pair)
            if not attempt.is_wrong:
                self._of_pairs.give_back(pair)
                if overdrawn is None:
                    self._give_back_shared(kind, network, account)

    def _take_shared(self, kind: AttemptKind, network: str, account: bytes, now: float) -> Throttled | None:
        """Take a token for the network and one for the account; if one is missing, none, and say why."""
        if kind is AttemptKind.SIGN_UP:
            return None
        of_network = self._of_networks.take(network, now)
        if not of_network.is_granted:
            return OF_NETWORK.refusal(of_network.more_in_seconds)
        if kind is AttemptKind.CODE:
            return None
        of_account = self._of_accounts.take(account, now)
        if not of_account.is_granted:
            self._of_networks.give_back(network)
            return OF_ACCOUNT.refusal(of_account.more_in_seconds)
        return None

    def _give_back_shared(self, kind: AttemptKind, network: str, account: bytes) -> None:
        if kind is not AttemptKind.SIGN_UP:
            self._of_networks.give_back(network)
        if kind is AttemptKind.PASSWORD:
            self._of_accounts.give_back(account)


def account_key(text: str) -> bytes:
    """Return the key by which an e-mail address or an id is counted.

    Spellings that the database may take for one address have one key: case and accents do not count.
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(letter for letter in folded if not unicodedata.combining(letter))
    return hashlib.blake2b(letters.casefold().encode(), digest_size=KEY_BYTES).digest()
