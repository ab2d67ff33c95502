"""The memory for answers that clients have not taken yet."""

from collections import Counter
from typing import Protocol

from web.request.client_address import Network, is_within, network_of

MAX_BYTES = 268_435_456
MAX_SHARE = 4  # one client network may have a quarter, unless it is a trusted proxy


class SlowConnection(Protocol):
    """A connection whose client does not take its answer at once."""

    def cut_off(self) -> None: ...


class UnsentBytes:
    """The bytes that wait for slow readers, in all and by client network.

    Each answer has been built when its connection learns that the client is slow. So the connections that
    have waited longest are cut off to make room: those of the same network if that one exceeds its share,
    otherwise those of the network with the most bytes.
    """

    def __init__(self, trusted_proxies: tuple[Network, ...] = (), max_bytes: int = MAX_BYTES) -> None:
        self._trusted = trusted_proxies
        self._max_bytes = max_bytes
        self._sizes: dict[str, dict[SlowConnection, int]] = {}  # by network, the longest wait first
        self._by_network: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<UnsentBytes: {self._by_network.total()} of {self._max_bytes}>"

    def add(self, connection: SlowConnection, peer: str, size: int) -> None:
        """Count the bytes that wait in a connection, until `remove`. It may be cut off at once."""
        network = network_of(peer)
        self._sizes.setdefault(network, {})[connection] = size
        self._by_network[network] += size
        share = self._max_bytes if is_within(peer, self._trusted) else self._max_bytes // MAX_SHARE
        while self._by_network[network] > share:
            self._cut_off_oldest(network)
        while self._by_network.total() > self._max_bytes:
            self._cut_off_oldest(self._by_network.most_common(1)[0][0])

    def remove(self, connection: SlowConnection, peer: str) -> None:
        """Forget a connection; it may have been forgotten before."""
        network = network_of(peer)
        sizes = self._sizes.get(network, {})
        self._by_network[network] -= sizes.pop(connection, 0)
        if not sizes:
            self._sizes.pop(network, None)
            del self._by_network[network]

    def _cut_off_oldest(self, network: str) -> None:
        connection = next(iter(self._sizes[network]))
        self._by_network[network] -= self._sizes[network].pop(connection)
        connection.cut_off()
