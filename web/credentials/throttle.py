"""Protection against guessing: an address with many refused attempts must wait before the next one."""

import math
from collections import deque
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from itertools import takewhile

from web.errors import TooManyAttempts

MAX_REFUSED = 10
WINDOW_SECONDS = 300.0

Network = IPv4Network | IPv6Network


class Throttle:
    """Refused attempts by address; times are monotonic seconds.

    Ten attempts for each address also bound the attempts for each address and e-mail.
    """

    def __init__(self) -> None:
        self._refused: dict[str, deque[float]] = {}  # ordered by the last refusal

    def __repr__(self) -> str:
        return f"<Throttle: {len(self._refused)} addresses>"

    def check(self, address: str, now: float) -> None:
        """Raise TooManyAttempts if ten attempts were refused within the last five minutes."""
        times = self._refused.get(address)
        if times is not None and len(times) == MAX_REFUSED and (wait := times[0] + WINDOW_SECONDS - now) > 0:
            raise TooManyAttempts(math.ceil(wait))

    def count(self, address: str, now: float) -> None:
        """Count a refused attempt, and forget addresses without one in the last five minutes."""
        times = self._refused.pop(address, None) or deque(maxlen=MAX_REFUSED)
        times.append(now)
        self._refused[address] = times
        for quiet in list(takewhile(lambda known: self._is_quiet(known, now), self._refused)):
            del self._refused[quiet]

    def _is_quiet(self, address: str, now: float) -> bool:
        return self._refused[address][-1] <= now - WINDOW_SECONDS


def client_address(peer: str, forwarded: Iterable[str], trusted: tuple[Network, ...]) -> str:
    """Return the address of the client: the last hop of X-Forwarded-For that is not a trusted proxy.

    X-Forwarded-For counts only if the peer itself is a trusted proxy.
    """
    hops = ",".join(forwarded).split(",")
    address = peer
    while hops and _is_within(address, trusted):
        hop = hops.pop().strip()
        if _parse(hop) is None:
            break
        address = hop
    return address


def _is_within(address: str, networks: tuple[Network, ...]) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(parsed in network for network in networks)


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed
