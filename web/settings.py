"""What an operator can set about the HTTP interface."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

MIN_SECRET_BYTES = 32
SPAN_BODY_BYTES = 8 * 1_048_576  # spans come many at a time, and may hold screenshots


@dataclass(frozen=True, slots=True)
class WebSettings:
    """No secret is blank here: where the configuration has none, it is the one kept in the database.

    `base_url` is where clients reach the service; if blank, where the request at hand reached it.
    """

    token_secret: str = field(repr=False)
    operator_token: str = field(repr=False)
    open_metrics: bool = False
    signup_open: bool = True
    token_days: int = 30
    body_bytes: int = 1_048_576
    body_seconds: float = 60.0
    span_metadata_bytes: int = 1_048_576
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    base_url: str = ""

    def __post_init__(self) -> None:
        if len(self.token_secret.encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"token_secret takes at least {MIN_SECRET_BYTES} bytes")
        if not self.operator_token.strip():
            raise ValueError("operator_token takes a token, not a blank")
        if self.token_days < 1:
            raise ValueError(f"token_days takes at least 1, not {self.token_days}")
        if self.body_bytes < 1:
            raise ValueError(f"body_bytes takes at least 1, not {self.body_bytes}")
        if self.body_seconds <= 0:
            raise ValueError(f"body_seconds takes more than 0, not {self.body_seconds}")
        if self.span_metadata_bytes < 1:
            raise ValueError(f"span_metadata_bytes takes at least 1, not {self.span_metadata_bytes}")
