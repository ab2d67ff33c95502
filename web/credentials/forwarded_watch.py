"""A warning for the operator: a proxy sets X-Forwarded-For, but the service does not trust it."""

import structlog

from web.credentials.recent_events import RecentEvents

WARNINGS = 1
WINDOW_SECONDS = 60.0
MAX_PEERS = 10  # named in one window

log = structlog.get_logger(__name__)


class ForwardedWatch:
    """Warns at most once a minute for each peer, and of at most ten peers a minute."""

    def __init__(self) -> None:
        self._warned = RecentEvents(WARNINGS, WINDOW_SECONDS, MAX_PEERS)
        self._quiet_until = 0.0

    def report(self, peer: str, now: float) -> None:
        """Warn that `peer` sent X-Forwarded-For and is no trusted proxy; `now` is in monotonic seconds."""
        if now < self._quiet_until or self._warned.wait_seconds(peer, now) > 0:
            return
        self._warned.add(peer, now)
        if len(self._warned) >= MAX_PEERS:
            self._quiet_until = now + WINDOW_SECONDS
        log.warning(
            "X-Forwarded-For ignored: the peer is no trusted proxy; if it is a proxy of yours, "
            "add its network to server.trusted_proxies, or all its clients share one limit",
            peer=peer,
        )
