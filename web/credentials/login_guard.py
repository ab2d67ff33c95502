"""Protection against guessing: limits on wrong attempts at passwords and codes.

One limit is for each account from each client network, so that a person who mistypes waits alone. The other
is for each network, whatever the accounts, against trying one password with many accounts. The first refuses
everybody. The second would keep out a neighbour of a guesser, so it leaves a way in: such an attempt is
`overdrawn`, and may still be checked if there is a reason to trust the client. Accounts that do not exist are
counted like others.
"""

import hashlib
import math
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from web.credentials.rate_limits import TokenBuckets
from web.errors import Throttled

KEY_BYTES = 16


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

    def refusal(self, wait_seconds: float) -> Throttled:
        """Return the error that names this limit."""
        limit = f"At most {self.attempts} wrong attempts {self.scope} are accepted, and one more"
        return Throttled(math.ceil(wait_seconds), f"{limit} every {self.seconds} seconds.")


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
        quota = self._of_pairs.take(pair, now)
        if not quota.is_granted:
            raise OF_PAIR.refusal(quota.more_in_seconds)
        counts_for_network = kind is not AttemptKind.SIGN_UP
        attempt = CountedAttempt(network)
        if counts_for_network:
            quota = self._of_networks.take(network, now)
            if not quota.is_granted:
                counts_for_network = False
                attempt.overdrawn = OF_NETWORK.refusal(quota.more_in_seconds)
        try:
            yield attempt
        finally:
            if not attempt.is_wrong:
                self._of_pairs.give_back(pair)
                if counts_for_network:
                    self._of_networks.give_back(network)


def account_key(text: str) -> bytes:
    """Return the key by which an e-mail address or an id is counted.

    Spellings that the database may take for one address have one key: case and accents do not count.
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(letter for letter in folded if not unicodedata.combining(letter))
    return hashlib.blake2b(letters.casefold().encode(), digest_size=KEY_BYTES).digest()
