"""Protection against guessing: limits on the attempts of one client at passwords and codes."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from supervisors.counts import decrement
from web.credentials.recent_events import RecentEvents
from web.errors import Throttled

MAX_REFUSED = 10
WINDOW_SECONDS = 300.0
MAX_IN_PROGRESS = 4
RETRY_SECONDS = 1  # after which one of the attempts in progress has probably ended


class Throttle:
    """The attempts of each client network: those refused lately, and those in progress.

    Times are monotonic seconds. Ten attempts for each network also bound the attempts for each network and
    e-mail. An attempt in progress counts like a refused one, so attempts sent at once gain nothing.
    """

    def __init__(self) -> None:
        self._refused = RecentEvents(MAX_REFUSED, WINDOW_SECONDS)
        self._in_progress: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Throttle: {len(self._refused)} networks refused, {self._in_progress.total()} in progress>"

    @contextmanager
    def attempt(self, network: str, now: float) -> Iterator[None]:
        """Count an attempt as in progress while the block runs.

        Raise Throttled after ten refused attempts within five minutes, or if four are in progress.
        """
        if (wait := self._refused.wait_seconds(network, now)) > 0:
            raise Throttled(math.ceil(wait))
        in_progress = self._in_progress[network]
        if in_progress >= min(MAX_IN_PROGRESS, MAX_REFUSED - self._refused.count(network, now)):
            raise Throttled(RETRY_SECONDS)
        self._in_progress[network] += 1
        try:
            yield
        finally:
            decrement(self._in_progress, network)

    def count_refusal(self, network: str, now: float) -> None:
        """Count a refused attempt."""
        self._refused.add(network, now)

    def recent_attempts(self, network: str, now: float) -> int:
        """Return how many attempts of the network are in progress or were refused lately."""
        return self._in_progress[network] + self._refused.count(network, now)
