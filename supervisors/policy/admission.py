"""The rule for overload: how many runs may be starting, and how many arrivals may be uncommitted. Pure.

Both limits are at their maximum while the service keeps up. When it does not, they shrink by a share of what
they are, and grow again more slowly once the load allows it (additive increase, multiplicative decrease), so
that they settle near the load that the service can bear. The limit of starts follows the lag of the event
loop, which delays every answer. The limit of arrivals also follows what accepted work waits for: starts that
wait only for earlier ones, and a database that commits nothing.
"""

from dataclasses import dataclass

SAMPLE_SECONDS = 0.05  # between two applications of the rule

MIN_STARTS = 4
START_LAG_SECONDS = 0.04  # from here on fewer runs start
START_RELIEF_SECONDS = 0.02  # below it more do

MIN_ARRIVALS = 8
MAX_ARRIVALS = 1000
ARRIVAL_LAG_SECONDS = 0.06
ARRIVAL_RELIEF_SECONDS = 0.03
BACKLOG_SECONDS = 1.0  # a start may wait so long for earlier ones before arrivals are refused
STALL_SECONDS = 1.0  # the same for the database, while it commits nothing

DECREASE = 0.8
INCREASE = 1.05
STEP = 1.0

SHORT_WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Load:
    """The signals of one sample, in seconds.

    `lag`: how late the event loop is. `backlog`: how long the first start in line has waited, if it waits for
    runs that start, 0 if for runs that take long. `stall`: for how long the database has committed no arrival
    although some wait.
    """

    lag: float
    backlog: float = 0.0
    stall: float = 0.0


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """How many runs may be starting, and how many arrivals may wait for their commit; fractions count."""

    starts: float
    arrivals: float = MAX_ARRIVALS


def next_limits(limits: AdmissionLimits, load: Load, max_starts: int) -> AdmissionLimits:
    """Return the limits that follow from those of the last sample and the present load."""
    return AdmissionLimits(
        _moved(
            limits.starts,
            min(MIN_STARTS, max_starts),
            max_starts,
            is_high=load.lag > START_LAG_SECONDS,
            is_low=load.lag < START_RELIEF_SECONDS,
        ),
        _moved(
            limits.arrivals,
            MIN_ARRIVALS,
            MAX_ARRIVALS,
            is_high=load.lag > ARRIVAL_LAG_SECONDS
            or load.backlog > BACKLOG_SECONDS
            or load.stall > STALL_SECONDS,
            is_low=load.lag < ARRIVAL_RELIEF_SECONDS
            and load.backlog < BACKLOG_SECONDS / 2
            and load.stall < STALL_SECONDS / 2,
        ),
    )


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
