"""The open connections: how many there may be, whose they are, and which is closed for a new one."""

import asyncio
from collections import Counter
from enum import Enum, auto
from heapq import nsmallest
from itertools import islice
from operator import itemgetter

import structlog

from supervisors.counts import decrement
from web.request.client_address import is_within, network_of
from web.server.head_limit import HeadLimit
from web.server.settings import ConnectionSettings

MAX_SHARE = 2  # one client network may have half of all connections
EVICTED_SHARE = 16  # of the connections are closed at once: finding them examines many
MAX_EXAMINED = 10_000  # which takes 10 ms
FRUITLESS_SECONDS = 0.1  # between two attempts to find connections to close, if there were none
OPERATOR_PLACES = 16  # beyond the maximum, for health checks and the status
REPORT_SECONDS = 60.0

log = structlog.get_logger(__name__)


class Place(Enum):
    """What a new connection may do."""

    ANY_REQUEST = auto()
    OPERATORS_REQUEST = auto()  # one health check or status request, because all other places are taken
    NONE_FOR_NETWORK = auto()  # refused: its network has its share
    NONE = auto()


class Connections:
    """The open connections, at most `max_connections` and a few for the operator."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._max = settings.max_connections
        self._share = max(1, settings.max_connections // MAX_SHARE)
        self._trusted = settings.trusted_proxies
        self._networks: dict[HeadLimit, str] = {}
        self._by_network: Counter[str] = Counter()
        self._evicted = self._refused = 0  # since the last report
        self._next_report = self._next_eviction = 0.0
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._networks)

    def place_for(self, peer: str) -> Place:
        """Return what a new connection of `peer` may do. If all places are taken, some may be freed."""
        if self._by_network[network_of(peer)] >= self._share and not is_within(peer, self._trusted):
            return self._refuse(Place.NONE_FOR_NETWORK)
        if len(self) >= self._max and self._loop.time() >= self._next_eviction:
            self.evict()
        if len(self) < self._max:
            return Place.ANY_REQUEST
        if len(self) < self._max + OPERATOR_PLACES:
            return Place.OPERATORS_REQUEST
        return self._refuse(Place.NONE)

    def add(self, connection: HeadLimit, peer: str) -> None:
        network = network_of(peer)
        self._networks[connection] = network
        self._by_network[network] += 1

    def remove(self, connection: HeadLimit) -> None:
        """Forget a connection that has ended; it may have been forgotten before."""
        network = self._networks.pop(connection, None)
        if network is not None:
            decrement(self._by_network, network)

    def evict(self) -> None:
        """Close a few connections whose request has not arrived completely.

        Honest clients send their first request at once, and open a new connection when an idle one has ended.
        """
        oldest = islice(self._networks, MAX_EXAMINED)
        keys = ((connection.order_of_ending(), connection) for connection in oldest)
        candidates = ((key, connection) for key, connection in keys if key is not None)
        chosen = nsmallest(max(1, self._max // EVICTED_SHARE), candidates, key=itemgetter(0))
        for _, connection in chosen:
            self.remove(connection)
            connection.force_close()
        self._evicted += len(chosen)
        now = self._loop.time()
        self._next_eviction = now if chosen else now + FRUITLESS_SECONDS
        self._report(now)

    def _refuse(self, place: Place) -> Place:
        self._refused += 1
        self._report(self._loop.time())
        return place

    def _report(self, now: float) -> None:
        """Log at most once a minute."""
        if now < self._next_report:
            return
        self._next_report = now + REPORT_SECONDS
        network, most = max(self._by_network.items(), key=lambda item: item[1], default=("", 0))
        log.warning(
            "too many connections: idle ones are closed, and new ones refused; "
            "see server.max_connections and server.trusted_proxies",
            open=len(self),
            evicted=self._evicted,
            refused=self._refused,
            most_by=network,
            most=most,
        )
        self._evicted = self._refused = 0
