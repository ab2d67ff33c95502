"""The room for arrivals: requests whose writes are not yet committed, bounded in number and fair."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from supervisors.counts import decrement
from supervisors.errors import ServiceBusy


class ArrivalRoom:
    """Places for requests that bring something new, while they wait for their commit.

    An organization may take a place while it has fewer than are free, and always a first one. So one alone
    gets half of them, and no flood keeps another out. `limit` moves with the load of the service.
    """

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self.limit = limit
        self.refused = 0
        self._monotonic = monotonic
        self._taken: Counter[UUID] = Counter()
        self._total = 0
        self._moved_at = 0.0  # when a request last left, or entered the empty room

    def __repr__(self) -> str:
        return f"<ArrivalRoom: {self._total} of {self.limit} places taken>"

    @property
    def stall_seconds(self) -> float:
        """Return for how long no request has left although some are there."""
        return self._monotonic() - self._moved_at if self._total else 0.0

    def require(self, organization_id: UUID) -> None:
        """Raise ServiceBusy if there is no place for the organization now."""
        if self._taken[organization_id] >= max(1, self.limit - self._total):
            self.refused += 1
            raise ServiceBusy("Too many requests wait for their commit.")

    @contextmanager
    def take(self, organization_id: UUID) -> Iterator[None]:
        """Hold a place while the block runs. Raise ServiceBusy if there is none for the organization."""
        self.require(organization_id)
        if not self._total:
            self._moved_at = self._monotonic()
        self._total += 1
        self._taken[organization_id] += 1
        try:
            yield
        finally:
            self._total -= 1
            decrement(self._taken, organization_id)
            self._moved_at = self._monotonic()
