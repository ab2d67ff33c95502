"""Durations of one kind, counted by bucket, for the histograms of the metrics."""

from bisect import bisect_left

SHORT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)  # upper bounds
LONG_SECONDS = (0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0)


class Histogram:
    """Counts by upper bound, one more for longer durations, and the sum of all."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: tuple[float, ...] = SHORT_SECONDS) -> None:
        self.bounds, self.seconds = bounds, 0.0
        self.counts: list[float] = [0] * (len(bounds) + 1)

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds
