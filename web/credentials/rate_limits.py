"""The rate limits of the HTTP interface: for each credential, and for each address without one."""

from collections.abc import Hashable

from web.credentials.token_buckets import WINDOW_SECONDS, Quota, TokenBuckets
from web.settings import LimitSettings

OF_CALLERS = "requests_per_minute"
OF_ADDRESSES = "anonymous_requests_per_minute"


class RateLimit:
    """One limit with its buckets. `name` is its key in the configuration, `policy` its name in headers."""

    def __init__(self, name: str, policy: str, per_minute: int, clients: str) -> None:
        self.name = name
        self.policy = f'"{policy}"'
        self.policy_header = f"{self.policy};q={per_minute};w={WINDOW_SECONDS:.0f}"
        self.clients = clients  # who has a bucket each
        self.refused = 0
        self.buckets = TokenBuckets(per_minute)

    def take(self, client: Hashable, now: float) -> Quota:
        """Take a token for one request of the client. Count a refusal."""
        quota = self.buckets.take(client, now)
        self.refused += not quota.is_granted
        return quota


class RateLimits:
    """The limits that are on; None for one that is off."""

    def __init__(self, limits: LimitSettings) -> None:
        self.of_callers: RateLimit | None = None
        self.of_addresses: RateLimit | None = None
        if limits.requests_per_minute:
            self.of_callers = RateLimit(
                OF_CALLERS, "default", limits.requests_per_minute, "API key, user or run"
            )
        if limits.anonymous_requests_per_minute:
            self.of_addresses = RateLimit(
                OF_ADDRESSES, "anonymous", limits.anonymous_requests_per_minute, "address"
            )

    def refused(self) -> dict[str, int]:
        """Return the number of refused requests by the name of the limit, 0 for one that is off."""
        limits = {OF_CALLERS: self.of_callers, OF_ADDRESSES: self.of_addresses}
        return {name: limit.refused if limit else 0 for name, limit in limits.items()}
