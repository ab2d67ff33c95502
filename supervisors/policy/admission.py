"""The rule for overload: how many runs may be starting, and how many arrivals may be uncommitted. Pure.

Both limits are at their maximum while the service keeps up. When it does not, they shrink by a share of what
they are, and grow again once the load allows it, so that they settle near the load that the service can bear.
They follow the lag of the event loop, which delays every answer; that of arrivals also falls while the
database commits nothing.

While a backlog stands, that is, while starts have been waiting for earlier ones for some time, or very many
do, arrivals have a rate, too: as many are taken in as keep a short queue of starts. A longer queue would
finish no more runs, and leave less time for them: many of the notifications would be for agents that wait.
"""

from dataclasses import dataclass, replace
from math import ceil, inf

SAMPLE_SECONDS = 0.05  # between two applications of the rule
SMOOTHING = 0.2  # the weight of the latest sample in the mean lag

LEAST_SHARE = 3  # starts keep a third of their maximum: with fewer, each would gain little and all lose much
START_LAG_SECONDS = 0.02  # of the mean: from here on fewer runs start
START_RELIEF_SECONDS = 0.01  # below it more do

MIN_ARRIVALS = 64  # one organization gets half of them: about what the database commits in 0.03 seconds
MAX_ARRIVALS = 1000
ARRIVAL_LAG_SECONDS = 0.04  # of the mean
ARRIVAL_RELIEF_SECONDS = 0.02

BACKLOG_SECONDS = 0.1  # a start that waits longer for earlier ones is part of a backlog
STANDING_SECONDS = 1.0  # a backlog that has gone on for so long stands; a shorter one is a burst
CALM_SECONDS = 0.25  # a standing backlog is over after so long without one
MAX_BURST_STARTS = 300  # if more starts wait, the backlog stands at once
QUEUE_SECONDS = 0.15  # the queue of starts that is kept while a backlog stands
CORRECTION_SECONDS = 0.5  # in which a longer or shorter queue becomes as long
MIN_ARRIVALS_PER_SECOND = 20.0
STALL_SECONDS = 1.0  # for so long the database may commit nothing

DECREASE = 0.9
INCREASE = 1.05
STEP = 1.0

SHORT_WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Load:
    """The signals of one sample; times are in seconds.

    `lag`: how late the event loop is. `backlog`: how long the first start in line has waited, if it waits for
    runs that start, 0 if for runs that take long. `queued`: how many starts wait so. `stall`: for how long
    the database has committed no arrival although some wait. `is_refusing`: arrivals have been refused since
    the last sample.
    """

    lag: float
    backlog: float = 0.0
    queued: int = 0
    stall: float = 0.0
    is_refusing: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """What the rule has decided, and what it remembers of the last samples. Fractions of the limits count.

    `starts`: how many runs may be starting. `arrivals`: how many arrivals may wait for their commit.
    `lag`: the mean. `backlog_for`: for how long there has been a backlog, less the time without one, which
    counts more once the backlog stands. `is_standing`: it stands, until it has been away for `CALM_SECONDS`.
    If arrivals are refused and a start waits, it is not away: without the rate it would be back at once.
    """

    starts: float
    arrivals: float = MAX_ARRIVALS
    lag: float = 0.0
    backlog_for: float = 0.0
    is_standing: bool = False

    def arrivals_per_second(self, starts_per_second: float, queued: int) -> float:
        """Return how many arrivals may be taken in a second, so that a standing backlog becomes short."""
        if not self.is_standing:
            return inf
        missing = QUEUE_SECONDS * starts_per_second - queued
        return max(MIN_ARRIVALS_PER_SECOND, starts_per_second + missing / CORRECTION_SECONDS)


def next_admission(last: Admission, load: Load, max_starts: int) -> Admission:
    """Return what follows from the last decision and another sample."""
    lag = last.lag + SMOOTHING * (load.lag - last.lag)
    is_stalled = load.stall > STALL_SECONDS
    is_returning = last.is_standing and load.is_refusing and load.queued > 0
    has_backlog = load.backlog > BACKLOG_SECONDS or is_returning
    relief = STANDING_SECONDS / CALM_SECONDS if last.is_standing else 1.0
    step = SAMPLE_SECONDS if has_backlog else -SAMPLE_SECONDS * relief
    if load.queued > MAX_BURST_STARTS:
        step = STANDING_SECONDS
    backlog_for = round(min(STANDING_SECONDS, max(0.0, last.backlog_for + step)), 6)  # steps add up exactly
    return replace(
        last,
        starts=_moved(
            last.starts,
            min_starts(max_starts),
            max_starts,
            is_high=lag > START_LAG_SECONDS,
            is_low=lag < START_RELIEF_SECONDS,
        ),
        arrivals=_moved(
            last.arrivals,
            MIN_ARRIVALS,
            MAX_ARRIVALS,
            is_high=lag > ARRIVAL_LAG_SECONDS or is_stalled,
            is_low=lag < ARRIVAL_RELIEF_SECONDS,
        ),
        lag=lag,
        backlog_for=backlog_for,
        is_standing=backlog_for >= STANDING_SECONDS or (last.is_standing and backlog_for > 0),
    )


def min_starts(max_starts: int) -> int:
    """Return how many runs may be starting however high the load is."""
    return ceil(max_starts / LEAST_SHARE)


def _moved(limit: float, minimum: float, maximum: float, *, is_high: bool, is_low: bool) -> float:
    if is_high:
        limit *= DECREASE
    elif is_low:
        limit = limit * INCREASE + STEP
    return max(minimum, min(maximum, limit))


def wait_estimate(ahead: int, starts_per_second: float) -> float | None:
    """Return in how many seconds a start comes that `ahead` others precede; None if nothing starts."""
    return (ahead + 1) / starts_per_second if starts_per_second > 0 else None


def is_short_wait(estimate: float | None) -> bool:
    """Return whether a start comes so soon that it need not be stored that it waits."""
    return estimate is not None and estimate <= SHORT_WAIT_SECONDS
