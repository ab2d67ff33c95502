"""The settings of the HTTP interface."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

MIN_SECRET_BYTES = 32
MAX_ATTACHMENT_BYTES = 25 * 1_048_576  # twice as much is less than one organization may have in memory
SPAN_BODY_BYTES = 8 * 1_048_576  # a request may hold many spans, and a span a screenshot

AT_LEAST_ONE = (
    "token_days",
    "body_bytes",
    "attachment_bytes",
    "span_metadata_bytes",
    "streams_per_caller",
    "streams",
    "event_streams_per_caller",
    "tags_per_agent",
)

AT_LEAST_ZERO = (
    "signups_per_hour",
    "organizations_per_user",
    "requests_per_minute",
    "anonymous_requests_per_minute",
)


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The settings. Secrets that the configuration leaves out come from the database, so none is blank.

    `base_url` is the address that clients use; if blank, links use that of the current request.
    """

    token_secret: str = field(repr=False)
    operator_token: str = field(repr=False)
    open_metrics: bool = False
    signup_open: bool = True
    signups_per_hour: int = 60  # and new organizations, from one client network; 0: any number
    organizations_per_user: int = 100  # that a user owns; 0: any number
    token_days: int = 30
    body_bytes: int = 1_048_576
    attachment_bytes: int = 10 * 1_048_576  # of all files that are uploaded with one message
    body_seconds: float = 60.0
    span_metadata_bytes: int = 1_048_576
    streams_per_caller: int = 8
    streams: int = 64
    event_streams_per_caller: int = 100
    tags_per_agent: int = 1000
    requests_per_minute: int = 0  # of each key, user or run; 0: not limited
    anonymous_requests_per_minute: int = 0  # of each address
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    base_url: str = ""

    def __post_init__(self) -> None:
        if len(self.token_secret.encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"token_secret must have at least {MIN_SECRET_BYTES} bytes")
        if not self.operator_token.strip():
            raise ValueError("operator_token must not be blank")
        for name in AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.attachment_bytes > MAX_ATTACHMENT_BYTES:
            message = f"attachment_bytes must be at most {MAX_ATTACHMENT_BYTES}, got {self.attachment_bytes}"
            raise ValueError(message)
        for name in AT_LEAST_ZERO:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if self.body_seconds <= 0:
            raise ValueError(f"body_seconds must be more than 0, got {self.body_seconds}")
