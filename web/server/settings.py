"""The limits on connections."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The limits; `is_https` says whether clients reach the service by HTTPS, through a proxy.

    `has_access_log`: whether each request has a line in the log.
    """

    max_connections: int = 10_000
    head_seconds: float = 15.0  # for a whole request head, from the connection or from its first byte
    reader_seconds: float = 30.0  # how long a client may take nothing of an answer
    keepalive_seconds: float = 630.0  # longer than load balancers keep an idle connection, which is 600
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    is_https: bool = False
    has_access_log: bool = False

    def __post_init__(self) -> None:
        if self.max_connections < 1:
            raise ValueError(f"max_connections must be at least 1, got {self.max_connections}")
        for name in ("head_seconds", "reader_seconds", "keepalive_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0, got {getattr(self, name)}")
