"""The rate limits of the HTTP interface: for each credential, and for each address without one."""

from collections.abc import Hashable, Iterator

from web.credentials.token_buckets import WINDOW_SECONDS, Quota, TokenBuckets
from web.settings import WebSettings


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

    def __init__(self, settings: WebSettings) -> None:
        self.of_callers: RateLimit | None = None
        self.of_addresses: RateLimit | None = None
        if settings.requests_per_minute:
            self.of_callers = RateLimit(
                "requests_per_minute", "default", settings.requests_per_minute, "API key, user or run"
            )
        if settings.anonymous_requests_per_minute:
            self.of_addresses = RateLimit(
                "anonymous_requests_per_minute",
                "anonymous",
                settings.anonymous_requests_per_minute,
                "address",
            )

    def refused(self) -> Iterator[tuple[str, int]]:
        """Yield the number of refused requests by the name of the limit."""
        for limit in (self.of_callers, self.of_addresses):
            if limit is not None:
                yield limit.name, limit.refused
