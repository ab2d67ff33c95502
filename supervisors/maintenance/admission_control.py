"""The admission control: it measures the load, and lets starts and arrivals give way while it is too high."""

from collections import deque

import structlog

from storage.postgres.group_commit import SharedPace
from supervisors.arrival_room import ArrivalRoom
from supervisors.clock import Clock
from supervisors.engine.run_slots import RunSlots
from supervisors.maintenance.loop_lag import LoopLagProbe
from supervisors.policy.admission import SAMPLE_SECONDS, Admission, Load, next_admission

log = structlog.get_logger()

SHARE_KEPT_FREE = 10  # a tenth of the slots
RATE_SECONDS = 1.0  # the rate of starts is their mean over about this time
QUIET_SECONDS = 10.0  # an overload is over when nothing has been held back or refused for so long
REPORT_SECONDS = 60.0  # between two lines about an overload that goes on


class AdmissionControl:
    """Applies the control rule to the run slots and the room for arrivals after each probe of the loop.

    It also sets the pace of runs: they give way to requests, unless starts wait for earlier ones. Then it
    matters more how much the service does.
    """

    def __init__(
        self, slots: RunSlots, arrivals: ArrivalRoom, pace: SharedPace, probe: LoopLagProbe, clock: Clock
    ) -> None:
        self._slots = slots
        self._arrivals = arrivals
        self._pace = pace
        self._probe = probe
        self._admission = Admission(slots.limit)
        self._clock = clock
        self._refused = 0  # by the last sample
        self._starts: deque[tuple[float, int]] = deque(maxlen=round(RATE_SECONDS / SAMPLE_SECONDS))
        self._overload = OverloadLog(slots, arrivals, clock)

    async def run_once(self) -> None:
        self.apply(await self._probe.run_once())

    def apply(self, lag_seconds: float) -> None:
        """Apply the rule to the present load, with this lag of the event loop."""
        slots, arrivals = self._slots, self._arrivals
        backlog, is_refusing = slots.backlog, arrivals.refused > self._refused
        self._refused = arrivals.refused
        load = Load(lag_seconds, backlog.seconds, backlog.agents, arrivals.stall_seconds, is_refusing)
        # While all runs are short, some slots stay free for organizations that have none.
        max_starts = slots.limit - slots.limit // SHARE_KEPT_FREE
        self._admission = next_admission(self._admission, load, max_starts)
        starts_per_second = self._rate_of_starts()
        arrivals_per_second = self._admission.arrivals_per_second(starts_per_second, backlog.agents)
        arrivals.set_pace(int(self._admission.arrivals), arrivals_per_second)
        slots.set_pace(int(self._admission.starts), starts_per_second)
        self._pace.gives_way = not (backlog.agents or self._admission.is_standing)
        self._overload.note(lag_seconds)

    def _rate_of_starts(self) -> float:
        now, started = self._clock.monotonic(), self._slots.started
        self._starts.append((now, started))
        since, started_before = self._starts[0]
        return (started - started_before) / (now - since) if now > since else 0.0


class OverloadLog:
    """Logs when an overload begins, every minute while it goes on, and when it is over."""

    def __init__(self, slots: RunSlots, arrivals: ArrivalRoom, clock: Clock) -> None:
        self._slots = slots
        self._arrivals = arrivals
        self._clock = clock
        self._began_at: float | None = None  # on the monotonic clock, like the next two
        self._busy_at = 0.0
        self._reported_at = 0.0
        self._refused = 0  # by its last note
        self._refused_before = 0  # by its beginning

    def note(self, lag_seconds: float) -> None:
        """Take note of the limits that were just set."""
        slots, refused, now = self._slots, self._arrivals.refused, self._clock.monotonic()
        if refused > self._refused or (slots.waiting and slots.is_throttled):
            self._busy_at = now
            if self._began_at is None:
                self._began_at = now
                self._refused_before = self._refused
                self._report(lag_seconds, 0)
        self._refused = refused
        if self._began_at is None:
            return
        if now - self._busy_at >= QUIET_SECONDS:
            seconds = round(self._busy_at - self._began_at, 1)
            log.info("the service is no longer busy", seconds=seconds, refused=refused - self._refused_before)
            self._began_at = None
        elif now - self._reported_at >= REPORT_SECONDS:
            self._report(lag_seconds, round(now - self._began_at))

    def _report(self, lag_seconds: float, seconds: int) -> None:
        self._reported_at = self._clock.monotonic()
        log.warning(
            "the service is busy",
            seconds=seconds,
            starting_limit=self._slots.starting_limit,
            queued=self._slots.waiting,
            arrivals_limit=self._arrivals.limit,
            refused=self._arrivals.refused - self._refused_before,
            lag_ms=round(lag_seconds * 1000, 1),
        )
