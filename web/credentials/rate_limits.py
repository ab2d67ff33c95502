"""Token buckets, and the rate limits by credential, and by address without one."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from web.settings import LimitSettings

WINDOW_SECONDS = 60.0
MAX_CLIENTS = 50_000
EXAMINED = 4  # buckets for each new client, so that full ones are dropped faster than clients come
ROUNDING_SECONDS = 1e-6
OF_CALLERS = "requests_per_minute"
OF_ADDRESSES = "anonymous_requests_per_minute"


class Quota(NamedTuple):
    """The answer to a client that asks for a token."""

    is_granted: bool
    remaining: int  # tokens left in the bucket
    more_in_seconds: float  # until it gets the next one


@dataclass(slots=True, eq=False)
class TokenBuckets:
    """A bucket of tokens for each client; times are monotonic seconds.

    A bucket holds `size` tokens, and is filled evenly within `fill_seconds`. So a client may send that many
    requests at once, and then as many as flow in. A bucket is stored as the moment when it will be full
    again: a full one needs no entry. The table is bounded. If it is full, a new client takes the place of the
    one with the fullest bucket among a few, so a flood of addresses drops addresses of the flood, not busy
    clients.

    The nodes share out a `quota`: the buckets of each hold an equal part, and at least one token.
    """

    quota: int  # of all nodes together
    fill_seconds: float = WINDOW_SECONDS
    max_clients: int = MAX_CLIENTS
    node_count: Callable[[], int] = lambda: 1
    _full_at: OrderedDict[Hashable, float] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._full_at)

    @property
    def size(self) -> int:
        """Return how many tokens a bucket of this node holds."""
        return max(1, self.quota // self.node_count())

    @property
    def _token_seconds(self) -> float:
        """Return the time in which one token flows in."""
        return self.fill_seconds / self.size

    def take(self, client: Hashable, now: float) -> Quota:
        """Take a token from the client's bucket, if there is one."""
        full_at = self._full_at.get(client)
        if full_at is None:
            self._make_room(now)
            full_at = now
        after = max(full_at, now) + self._token_seconds
        missing_seconds = after - now - self.fill_seconds
        if missing_seconds > ROUNDING_SECONDS:
            return Quota(is_granted=False, remaining=0, more_in_seconds=missing_seconds)
        self._full_at[client] = after
        return self._quota(after - now)

    def peek(self, client: Hashable, now: float) -> Quota:
        """Return what is left in the client's bucket, and take nothing."""
        return self._quota(max(0.0, self._full_at.get(client, now) - now))

    def _quota(self, seconds_to_full: float) -> Quota:
        token_seconds = self._token_seconds
        tokens = (self.fill_seconds - seconds_to_full + ROUNDING_SECONDS) / token_seconds
        remaining = max(0, int(tokens))
        return Quota(True, remaining, (remaining + 1 - tokens) * token_seconds)

    def _make_room(self, now: float) -> None:
        """Drop full buckets among the oldest; if the table is full, drop at least the fullest of them."""
        has_room = len(self._full_at) < self.max_clients
        examined = [self._full_at.popitem(last=False) for _ in range(min(EXAMINED, len(self._full_at)))]
        kept = [(client, full_at) for client, full_at in examined if full_at > now]
        if not has_room and len(kept) == len(examined):
            kept.remove(min(kept, key=itemgetter(1)))
        self._full_at.update(kept)  # behind all others


class RateLimit:
    """One limit with its buckets. `name` is its key in the configuration, `policy` its name in headers."""

    def __init__(
        self, name: str, policy: str, per_minute: int, clients: str, node_count: Callable[[], int]
    ) -> None:
        self.name = name
        self.per_minute = per_minute  # over all nodes
        self.policy = f'"{policy}"'
        self.clients = clients  # who has a bucket each
        self.refused = 0
        self.buckets = TokenBuckets(per_minute, node_count=node_count)

    @property
    def policy_header(self) -> str:
        """Return what this node grants."""
        return f"{self.policy};q={self.buckets.size};w={WINDOW_SECONDS:.0f}"

    @property
    def allowed(self) -> str:
        """Return the limit in words."""
        allowed, here = f"{self.per_minute} for each {self.clients}", self.buckets.size
        return allowed if here == self.per_minute else f"{allowed}, of which each node grants {here}"

    def take(self, client: Hashable, now: float) -> Quota:
        """Take a token for one request of the client. Count a refusal."""
        quota = self.buckets.take(client, now)
        self.refused += not quota.is_granted
        return quota


class RateLimits:
    """The limits that are on; None for one that is off. They can be changed."""

    def __init__(self, limits: LimitSettings, node_count: Callable[[], int] = lambda: 1) -> None:
        self._limits = (
            RateLimit(OF_CALLERS, "default", 0, "API key, user or run", node_count),
            RateLimit(OF_ADDRESSES, "anonymous", 0, "address", node_count),
        )
        self.adopt(limits)

    def adopt(self, limits: LimitSettings) -> None:
        """Change the limits. Who has sent requests before keeps the part of the bucket that is left."""
        for limit in self._limits:
            limit.per_minute = limit.buckets.quota = getattr(limits, limit.name)
        self.of_callers, self.of_addresses = (limit if limit.per_minute else None for limit in self._limits)

    def refused(self) -> dict[str, int]:
        """Return the number of refused requests by the name of the limit."""
        return {limit.name: limit.refused for limit in self._limits}
