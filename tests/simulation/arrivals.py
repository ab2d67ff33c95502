"""When messages arrived, on the loop's clock: the length of a hold, whichever way the wall clock is set."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from storage.model import Notification

ROUNDING = timedelta(milliseconds=1)  # of a time computed after a step: the reads of the clocks take time
MAX_DELAY = timedelta(seconds=60)  # between the request of a client and its commit


@dataclass(frozen=True, slots=True)
class Arrival:
    """An activation: its stored time, the loop's time, and how often the wall clock had been set by then.

    `steps` is -1 if the stored time was not what the wall clock showed.
    """

    stored_at: datetime
    loop_time: float
    steps: int


def by_present_clock(moment: datetime, now: datetime) -> datetime:
    """Return when a request began; now, if the wall clock was set since it read that moment."""
    return moment if timedelta() <= now - moment < MAX_DELAY else now


class Arrivals:
    """The activations of all notifications but reminders."""

    def __init__(self) -> None:
        self._arrivals: dict[UUID, Arrival] = {}
        self._steps = 0

    def stepped(self) -> None:
        self._steps += 1

    def activated(self, one: Notification, now: datetime, loop_time: float) -> None:
        """Take note of an activation, whose stored time is at most a request's time old."""
        if one.activated_at is None:
            return
        delay = now - one.activated_at
        was_set = not timedelta() <= delay < MAX_DELAY
        seconds = 0.0 if was_set else delay.total_seconds()
        steps = -1 if was_set else self._steps
        self._arrivals[one.id] = Arrival(one.activated_at, loop_time - seconds, steps)

    def forgotten(self, queue: list[Notification], now: datetime, loop_time: float) -> None:
        """Let those of an agent's queue that lie ahead count as now, as a new process does."""
        for one in queue:
            if one.activated_at is not None and one.activated_at > now and one.id in self._arrivals:
                self._arrivals[one.id] = Arrival(one.activated_at, loop_time, -1)

    def are_exact(self, queue: Iterable[Notification]) -> bool:
        """Return whether the stored times are by the present wall clock, so that a hold ends by them."""
        found = (self._find(one) for one in queue)
        return all(one is None or one.steps == self._steps for one in found)

    def shown_at(self, one: Notification, now: datetime, loop_time: float) -> datetime:
        """Return when it arrived, by the present wall clock."""
        assert one.activated_at is not None
        found = self._find(one)
        if found is None or found.steps == self._steps:
            return one.activated_at
        return now - timedelta(seconds=loop_time - found.loop_time)

    def _find(self, one: Notification) -> Arrival | None:
        """Return the arrival; None for a reminder, or an activation that nobody reported."""
        found = self._arrivals.get(one.id)
        return found if found is not None and found.stored_at == one.activated_at else None
