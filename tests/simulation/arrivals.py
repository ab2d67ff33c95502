"""When messages arrived, on the loop's clock: a hold has its length whichever way the wall clock is set."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from storage.model import Notification

ROUNDING = timedelta(milliseconds=1)  # of a time computed after a step: the reads of the clocks take time
MAX_DELAY = timedelta(seconds=60)  # between the request of a client and its commit


@dataclass(frozen=True, slots=True)
class Arrival:
    """An activation: its stored time, the loop's time, and how often the wall clock had been set by then."""

    stored_at: datetime
    loop_time: float
    steps: int


def by_present_clock(moment: datetime, now: datetime) -> datetime:
    """Return when a request began; now, if the wall clock was set since it read that moment."""
    return moment if timedelta() <= now - moment < MAX_DELAY else now


class Arrivals:
    """The activations of all notifications but reminders. A new process knows only their stored times."""

    def __init__(self) -> None:
        self._arrivals: dict[UUID, Arrival] = {}
        self._vague: set[UUID] = set()
        self._steps = 0

    def stepped(self) -> None:
        self._steps += 1

    def activated(self, one: Notification, now: datetime, loop_time: float) -> None:
        """Take note of an activation, whose stored time is at most a request's time old."""
        if one.activated_at is None:
            return
        delay = now - one.activated_at
        was_set = not timedelta() <= delay < MAX_DELAY
        steps = -1 if was_set else self._steps  # the stored time is not what the wall clock shows now
        seconds = 0.0 if was_set else delay.total_seconds()
        self._arrivals[one.id] = Arrival(one.activated_at, loop_time - seconds, steps)
        self._vague.discard(one.id)

    def forgotten(self, queue: list[Notification], now: datetime, loop_time: float) -> None:
        """Let the stored times of an agent's queue count, as for a process that has just started.

        If some lie ahead of the wall clock, the last one counts as now.
        """
        stored = [one.activated_at for one in queue if one.activated_at and one.id in self._arrivals]
        ahead = max((at - now for at in stored if at > now), default=timedelta())
        for one in queue:
            at = one.activated_at
            if at is not None and one.id in self._arrivals:
                shown = at - ahead if at > now else at
                age = (now - shown).total_seconds()
                steps = self._steps if shown == at else -1
                self._arrivals[one.id] = Arrival(at, loop_time - age, steps)
                if shown != at:
                    self._vague.add(one.id)

    def is_vague(self, one: Notification, now: datetime) -> bool:
        """Return whether the process knows no more than that it arrived: its stored time lies ahead."""
        return one.id in self._vague and one.activated_at is not None and one.activated_at > now

    def shown_at(self, one: Notification, now: datetime, loop_time: float) -> datetime:
        """Return when it arrived, by the present wall clock."""
        assert one.activated_at is not None
        found = self._arrivals.get(one.id)
        if found is None or found.stored_at != one.activated_at or found.steps == self._steps:
            return one.activated_at
        return now - timedelta(seconds=loop_time - found.loop_time)
