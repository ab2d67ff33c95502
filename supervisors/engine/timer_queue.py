"""The timers of all agents: one heap, and one timer of the event loop for its head.

Deadlines are given on the wall clock, and waited for on the monotonic clock. The two clocks are compared
whenever the loop's timer fires, at least once a minute. If the wall clock was set, the monotonic times are
computed again, but none gets later: a supervisor that is told too early sets its timer again.
"""

import heapq
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from supervisors.clock import Clock, Timer

MAX_WAIT_SECONDS = 60.0
CLOCK_DRIFT_SECONDS = 0.01
LATENESS_SAMPLES = 1000
MAX_STALE_ENTRIES = 1000  # replaced or cancelled entries that the heap may hold before it is rebuilt
HORIZON = timedelta(seconds=120)  # later deadlines are scheduled by the due scan when their time is near


class TimerEntry(NamedTuple):
    """The time when one agent is due, on both clocks."""

    at: datetime
    monotonic_at: float


class TimerQueue:
    """At most one timer for each agent; `on_due` is called synchronously when it fires."""

    def __init__(self, clock: Clock, on_due: Callable[[UUID], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._entries: dict[UUID, TimerEntry] = {}
        self._heap: list[tuple[float, UUID]] = []  # monotonic time and agent; stale unless `_entries` agrees
        self._timer: Timer | None = None
        self._fires_at = 0.0  # on the monotonic clock, while there is a timer
        self._offset = self._wall_clock_offset()
        self.lateness_seconds: deque[float] = deque(maxlen=LATENESS_SAMPLES)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, agent_id: UUID) -> bool:
        return agent_id in self._entries

    def get(self, agent_id: UUID) -> datetime | None:
        """Return when the agent's timer fires; None if it has none."""
        entry = self._entries.get(agent_id)
        return entry.at if entry is not None else None

    def schedule(self, agent_id: UUID, at: datetime) -> None:
        """Set the agent's timer to `at`, in place of an earlier one.

        A time beyond the horizon is left to the due scan, which schedules it when it is near.
        """
        if at - self._clock.now() <= HORIZON:
            self._push(agent_id, TimerEntry(at, self._monotonic(at)))
            self._arm_timer()
        else:
            self.cancel(agent_id)

    def cancel(self, agent_id: UUID) -> None:
        """Remove the agent's timer."""
        self._entries.pop(agent_id, None)

    def close(self) -> None:
        """Remove all timers."""
        self._entries.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._adjust_to_wall_clock()
        fired_at = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= fired_at:
            monotonic_at, agent_id = heapq.heappop(self._heap)
            if not self._is_current(monotonic_at, agent_id):
                continue
            del self._entries[agent_id]
            self.lateness_seconds.append(fired_at - monotonic_at)
            self._on_due(agent_id)
        self._arm_timer()

    def _arm_timer(self) -> None:
        """Set the loop's timer for the head of the heap."""
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        if not self._heap:
            return
        fires_at = min(self._heap[0][0], self._clock.monotonic() + MAX_WAIT_SECONDS)
        if self._timer is not None:
            if self._fires_at <= fires_at:
                return
            self._timer.cancel()
        self._fires_at = fires_at
        self._timer = self._clock.call_at(fires_at, self._fire)

    def _adjust_to_wall_clock(self) -> None:
        """Compute the monotonic times again if the wall clock was set, or has drifted."""
        offset = self._wall_clock_offset()
        if abs(offset - self._offset) <= CLOCK_DRIFT_SECONDS:
            return
        self._offset = offset
        entries, self._entries, self._heap = self._entries, {}, []
        for agent_id, entry in entries.items():
            monotonic_at = min(entry.monotonic_at, self._monotonic(entry.at))
            self._push(agent_id, TimerEntry(entry.at, monotonic_at))

    def _push(self, agent_id: UUID, entry: TimerEntry) -> None:
        self._entries[agent_id] = entry
        heapq.heappush(self._heap, (entry.monotonic_at, agent_id))
        if len(self._heap) > MAX_STALE_ENTRIES + 2 * len(self._entries):
            self._heap = [(entry.monotonic_at, agent_id) for agent_id, entry in self._entries.items()]
            heapq.heapify(self._heap)

    def _is_current(self, monotonic_at: float, agent_id: UUID) -> bool:
        entry = self._entries.get(agent_id)
        return entry is not None and entry.monotonic_at == monotonic_at

    def _wall_clock_offset(self) -> float:
        """Return the wall clock minus the monotonic clock, in seconds."""
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _monotonic(self, at: datetime) -> float:
        remaining = at - self._clock.now()  # read before the monotonic clock, so that no timer is early
        return self._clock.monotonic() + remaining.total_seconds()
