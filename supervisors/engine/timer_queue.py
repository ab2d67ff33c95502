"""Tells which agent is due, at its moment. One heap, one timer of the loop at its head.

Deadlines are of the wall clock; waiting is done on the monotonic one. The two are compared at every ring,
at least once a minute, and when the wall clock was set meanwhile, everything but what keeps its length is
reckoned anew.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from supervisors.clock import Clock, Timer

MAX_WAIT_SECONDS = 60.0
CLOCK_DRIFT_SECONDS = 0.01
LATENESS_SAMPLES = 1000
MAX_STALE_ENTRIES = 1000  # entries that no longer count, before the heap is built anew without them
HORIZON = timedelta(seconds=120)  # what lies further ahead is found by the due scan in time


@dataclass(frozen=True, slots=True)
class TimerEntry:
    """When one agent is due: by the wall clock, and on the loop's clock."""

    at: datetime
    monotonic_at: float
    keeps_length: bool


class TimerQueue:
    """At most one alarm for each agent; `on_due` is called, synchronously, when it rings."""

    def __init__(self, clock: Clock, on_due: Callable[[UUID], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._alarms: dict[UUID, TimerEntry] = {}
        self._heap: list[tuple[float, UUID]] = []  # an entry counts only while its agent's alarm agrees
        self._timer: Timer | None = None
        self._rings_at = 0.0  # on the loop's clock, while there is a timer
        self._offset = self._wall_clock_ahead()
        self.lateness_seconds: deque[float] = deque(maxlen=LATENESS_SAMPLES)

    def __repr__(self) -> str:
        return f"<AlarmClock {len(self._alarms)} set>"

    def __len__(self) -> int:
        return len(self._alarms)

    def __contains__(self, agent_id: UUID) -> bool:
        return agent_id in self._alarms

    def schedule(self, agent_id: UUID, at: datetime, monotonic_at: float | None = None) -> None:
        """Ring for this agent at `at`, instead of whenever it was set for before.

        With `monotonic_at` it rings then, however the wall clock is set meanwhile: a hold keeps its length.
        Anything else beyond the horizon is left to the due scan, which sets it when its time is near.
        """
        if monotonic_at is not None:
            self._push(agent_id, TimerEntry(at, monotonic_at, keeps_length=True))
        elif at - self._clock.now() <= HORIZON:
            self._push(agent_id, TimerEntry(at, self._monotonic(at), keeps_length=False))
        else:
            self.cancel(agent_id)
        self._arm_timer()

    def cancel(self, agent_id: UUID) -> None:
        """Do not ring for this agent."""
        self._alarms.pop(agent_id, None)

    def close(self) -> None:
        """Ring for nobody any more."""
        self._alarms.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._follow_the_wall_clock()
        moment = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= moment:
            monotonic_at, agent_id = heapq.heappop(self._heap)
            alarm = self._alarms.get(agent_id)
            if alarm is None or alarm.monotonic_at != monotonic_at:
                continue
            del self._alarms[agent_id]
            self.lateness_seconds.append(moment - monotonic_at)
            self._on_due(agent_id)
        self._arm_timer()

    def _arm_timer(self) -> None:
        """Let one timer stand at the head of the heap."""
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        if not self._heap:
            return
        moment = min(self._heap[0][0], self._clock.monotonic() + MAX_WAIT_SECONDS)
        if self._timer is not None:
            if self._rings_at <= moment:
                return
            self._timer.cancel()
        self._rings_at = moment
        self._timer = self._clock.call_at(moment, self._fire)

    def _follow_the_wall_clock(self) -> None:
        """Reckon the alarms anew if the wall clock was set, or has drifted, since they were reckoned."""
        offset = self._wall_clock_ahead()
        if abs(offset - self._offset) <= CLOCK_DRIFT_SECONDS:
            return
        self._offset = offset
        alarms, self._alarms, self._heap = self._alarms, {}, []
        for agent_id, alarm in alarms.items():
            monotonic_at = alarm.monotonic_at if alarm.keeps_length else self._monotonic(alarm.at)
            self._push(agent_id, TimerEntry(alarm.at, monotonic_at, alarm.keeps_length))

    def _push(self, agent_id: UUID, alarm: TimerEntry) -> None:
        self._alarms[agent_id] = alarm
        heapq.heappush(self._heap, (alarm.monotonic_at, agent_id))
        if len(self._heap) > MAX_STALE_ENTRIES + 2 * len(self._alarms):
            self._heap = [(alarm.monotonic_at, agent_id) for agent_id, alarm in self._alarms.items()]
            heapq.heapify(self._heap)

    def _counts(self, entry: tuple[float, UUID]) -> bool:
        alarm = self._alarms.get(entry[1])
        return alarm is not None and alarm.monotonic_at == entry[0]

    def _wall_clock_ahead(self) -> float:
        """Wall clock minus monotonic clock, in seconds."""
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _monotonic(self, at: datetime) -> float:
        return self._clock.monotonic() + (at - self._clock.now()) / timedelta(seconds=1)
