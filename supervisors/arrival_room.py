"""The room for arrivals: requests whose writes are not yet committed, bounded in number and fair."""

from collections import Counter
from collections.abc import Callable
from math import inf
from uuid import UUID

from supervisors.counts import decrement
from supervisors.errors import ServiceBusy

MIN_BURST = 250  # places that even a low rate lets be taken at once: about as many runs may end at once
BURST_SECONDS = 1.0


class ArrivalRoom:
    """Places for requests that bring something new, while they wait for their commit.

    An organization may take a place while it has fewer than are free, and always a first one. So one alone
    gets half of them, and no flood keeps another out. The number of places and how many may be taken a second
    move with the load of the service (see `set_pace`).
    """

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self.limit = limit
        self.per_second = inf
        self.refused = 0
        self._monotonic = monotonic
        self._tokens = 0.0  # places that may be taken now by the rate, if there is one
        self._refilled_at = 0.0
        self._taken: Counter[UUID] = Counter()
        self._total = 0
        self._moved_at = 0.0  # when a request last left, or entered the empty room

    def __repr__(self) -> str:
        return f"<ArrivalRoom: {self._total} of {self.limit} places taken>"

    @property
    def stall_seconds(self) -> float:
        """Return for how long no request has left although some are there."""
        return self._monotonic() - self._moved_at if self._total else 0.0

    def set_pace(self, limit: int, per_second: float) -> None:
        """Set how many places there are, and how many may be taken a second."""
        now = self._monotonic()
        if per_second < inf:
            refill = per_second * (now - self._refilled_at)
            self._tokens = min(max(MIN_BURST, per_second * BURST_SECONDS), self._tokens + refill)
        else:
            self._tokens = 0.0  # the next rate will follow a burst, and allow no further one
        self._refilled_at = now
        self.limit, self.per_second = limit, per_second

    def require(self, organization_id: UUID) -> None:
        """Raise ServiceBusy if there is no place for the organization now."""
        taken = self._taken[organization_id]
        has_turn = self.per_second == inf or self._tokens >= 1
        if taken and not (has_turn and taken < self.limit - self._total):
            self.refused += 1
            raise ServiceBusy("Too many requests wait for their commit.")

    def take(self, organization_id: UUID) -> "Place":
        """Return a place, held while it is entered. Entering raises ServiceBusy if there is none."""
        return Place(self, organization_id)

    def hold(self, organization_id: UUID) -> None:
        """Take a place. Raise ServiceBusy if there is none for the organization."""
        self.require(organization_id)
        if not self._total:
            self._moved_at = self._monotonic()
        if self.per_second < inf:
            self._tokens = max(-MIN_BURST, self._tokens - 1)  # a first place is given in any case
        self._total += 1
        self._taken[organization_id] += 1

    def release(self, organization_id: UUID) -> None:
        """Give a place back."""
        self._total -= 1
        decrement(self._taken, organization_id)
        self._moved_at = self._monotonic()


class Place:
    """The context of `ArrivalRoom.take`. Every arrival enters one, and a generator takes twice as long."""

    __slots__ = ("_organization_id", "_room")

    def __init__(self, room: ArrivalRoom, organization_id: UUID) -> None:
        self._room = room
        self._organization_id = organization_id

    def __enter__(self) -> None:
        self._room.hold(self._organization_id)

    def __exit__(self, *_: object) -> None:
        self._room.release(self._organization_id)
