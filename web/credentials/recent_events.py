"""A bounded count of recent events by the network of the client that caused them."""

from collections import deque

MAX_NETWORKS = 50_000  # counted at once; beyond it the one that was quiet longest is forgotten


class RecentEvents:
    """The last events of each network within a window; times are monotonic seconds."""

    def __init__(self, max_events: int, window_seconds: float, max_networks: int = MAX_NETWORKS) -> None:
        self._max_events = max_events
        self._window_seconds = window_seconds
        self._max_networks = max_networks
        self._times: dict[str, deque[float]] = {}  # ordered by the last event

    def __len__(self) -> int:
        return len(self._times)

    def count(self, network: str, now: float) -> int:
        """Return how many events of the network, at most `max_events`, lie in the window."""
        return sum(1 for time in self._times.get(network, ()) if time > now - self._window_seconds)

    def wait_seconds(self, network: str, now: float) -> float:
        """Return how long the network must wait until it has fewer than `max_events`; 0 if it has."""
        times = self._times.get(network)
        if times is None or len(times) < self._max_events:
            return 0.0
        return max(0.0, times[0] + self._window_seconds - now)

    def add(self, network: str, now: float) -> None:
        """Add an event. Forget networks without one in the window, and the quietest beyond the maximum."""
        times = self._times.pop(network, None) or deque(maxlen=self._max_events)
        times.append(now)
        self._times[network] = times
        while self._times:
            quietest = next(iter(self._times))
            is_recent = self._times[quietest][-1] > now - self._window_seconds
            if is_recent and len(self._times) <= self._max_networks:
                break
            del self._times[quietest]
