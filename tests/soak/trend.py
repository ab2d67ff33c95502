"""Samples of a process over time, and whether they grow."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

TEN_MINUTES = 600.0
WARM_UP_SHARE = 1 / 3

# The largest growth in ten minutes that counts as flat.
MAX_GROWTH = {"rss_mb": 1.0, "descriptors": 3.0, "tasks": 3.0, "threads": 1.0}


@dataclass(frozen=True, slots=True)
class Sample:
    """The size of the process at one moment, between two faults."""

    seconds: float  # since the start of the load
    rss_mb: float
    descriptors: int
    tasks: int
    threads: int


@dataclass(frozen=True, slots=True)
class Trend:
    """How one figure developed after the warm-up."""

    name: str
    first: float
    last: float
    growth: float  # in ten minutes

    @property
    def is_flat(self) -> bool:
        return self.growth < MAX_GROWTH[self.name]


def trends(samples: Sequence[Sample], round_length: int) -> list[Trend]:
    """Return the trend of each figure over the rounds of faults, by the least of each round.

    A leak raises the least; what an allocator keeps for a while, or a request in flight, does not. The first
    third of the samples is the warm-up, and does not count.
    """
    counted = samples[int(len(samples) * WARM_UP_SHARE) :]
    starts = range(0, len(counted) - round_length + 1, round_length)  # of whole rounds
    rounds = [counted[start : start + round_length] for start in starts] or [counted]
    times = [each[0].seconds for each in rounds]
    found = []
    for name in MAX_GROWTH:
        values = [min(float(getattr(sample, name)) for sample in each) for each in rounds]
        found.append(Trend(name, values[0], values[-1], slope(times, values) * TEN_MINUTES))
    return found


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the median slope between all pairs (Theil-Sen), which single outliers do not change."""
    pairs = combinations(zip(times, values, strict=True), 2)
    slopes = [(later - earlier) / (end - start) for (start, earlier), (end, later) in pairs if end > start]
    return median(slopes) if slopes else 0.0
