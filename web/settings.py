"""The settings of the HTTP interface: its limits, its accounts and its connections."""

from dataclasses import dataclass, field
from importlib.metadata import version
from ipaddress import IPv4Network, IPv6Network

from storage.history.spans import MAX_SPANS_PER_TRACE
from storage.organization_limits import StorageLimits
from supervisors.settings import YEAR_SECONDS, Bounded, between

VERSION = version("hostsvc")  # of the service, as answers name it
MIN_SECRET_BYTES = 32
MIN_SECONDS = 0.001
MAX_ATTACHMENT_BYTES = 25 * 1_048_576  # twice as much is less than one organization may have in memory
SPAN_BODY_BYTES = 8 * 1_048_576  # a request may hold many spans, and a span a screenshot


@dataclass(frozen=True, slots=True)
class LimitSettings(StorageLimits, Bounded):
    """The most that a client or an organization may send, store or ask for.

    Sizes are in bytes. 0 stands for no limit where the configuration file says so.
    """

    body_bytes: int = between(1_048_576, 1024, 2**30)
    attachment_bytes: int = between(10 * 2**20, 1, MAX_ATTACHMENT_BYTES)
    span_metadata_bytes: int = between(1_048_576, 1024, SPAN_BODY_BYTES)
    signups_per_hour: int = between(60, 0, 10_000)
    organizations_per_user: int = between(100, 0, 1_000_000)
    event_streams_per_caller: int = between(100, 1, 10_000)
    spans_per_trace: int = between(MAX_SPANS_PER_TRACE, 1, 10**7)
    tags_per_agent: int = between(1000, 1, 1000)
    requests_per_minute: int = between(0, 0, 10**6)
    anonymous_requests_per_minute: int = between(600, 0, 10**6)
    agents: int = between(100_000, 0, 10**9)
    waiting_notifications: int = between(1_000_000, 0, 10**9)
    document_bytes: int = between(10 * 2**30, 0, 2**60)
    secrets: int = between(1000, 0, 10**9)
    webhooks: int = between(100, 1, 1000)
    concurrent_runs: int = between(0, 0, 10**9)


@dataclass(slots=True)  # not frozen: the limits are replaced when the configuration is read again
class WebSettings:
    """The settings. Secrets that the configuration leaves out come from the database, so none is blank.

    `base_url` is the address that clients use; if blank, links use that of the current request.
    """

    token_secret: str = field(repr=False)
    operator_token: str = field(repr=False)
    limits: LimitSettings = field(default_factory=LimitSettings)
    open_metrics: bool = False
    signup_open: bool = True
    token_days: int = 30
    body_seconds: float = 60.0
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    base_url: str = ""

    def __post_init__(self) -> None:
        if len(self.token_secret.encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"token_secret must have at least {MIN_SECRET_BYTES} bytes")
        if not self.operator_token.strip():
            raise ValueError("operator_token must not be blank")


@dataclass(frozen=True, slots=True)
class ConnectionSettings(Bounded):
    """The limits; `is_https` says whether clients reach the service by HTTPS, through a proxy.

    `has_access_log`: whether each request has a line in the log.
    """

    max_connections: int = between(10_000, 1, 1_000_000)
    # For a whole request head, from the connection or from its first byte.
    head_seconds: float = between(15.0, MIN_SECONDS, YEAR_SECONDS)
    # How long a client may take nothing of an answer.
    reader_seconds: float = between(30.0, MIN_SECONDS, YEAR_SECONDS)
    # Longer than load balancers keep an idle connection, which is 600.
    keepalive_seconds: float = between(630.0, MIN_SECONDS, YEAR_SECONDS)
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    is_https: bool = False
    has_access_log: bool = False
