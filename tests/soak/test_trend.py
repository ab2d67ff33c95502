"""Growth is told from noise."""

from random import Random

import pytest

from tests.soak.trend import Sample, slope, trends

ROUND = 8


def samples(mb_per_ten_minutes: float, noise: float = 0.0, jump: float = 0.0) -> list[Sample]:
    """Return half an hour of samples: a warm-up of ten minutes with 30 MB, then steady growth."""
    random = Random(7)  # noqa: S311
    return [
        Sample(
            seconds,
            100
            + min(seconds, 600) / 20
            + max(0, seconds - 600) / 600 * mb_per_ten_minutes
            + random.uniform(-noise, noise)
            + (jump if seconds == 1200 else 0),
            descriptors=40 + random.randrange(3),
            tasks=20,
            threads=8,
        )
        for seconds in range(0, 1800, 10)
    ]


@pytest.mark.parametrize(
    ("grown", "flat"),
    [
        (samples(0), True),
        (samples(0.8), True),
        (samples(1.2), False),
        (samples(0, noise=0.5, jump=500), True),
        (samples(4, noise=3), False),
        (samples(-3), True),
    ],
)
def test_growth_after_warm_up_is_judged(grown: list[Sample], flat: bool) -> None:
    memory, *others = trends(grown, ROUND)
    assert (memory.name, memory.is_flat) == ("rss_mb", flat)
    assert all(trend.is_flat for trend in others)


def test_least_of_each_round_counts() -> None:
    sawtooth = [Sample(10 * n, 100 + 20 * (n % ROUND), 40, 20 + n % ROUND, 8) for n in range(120)]
    assert [(trend.first, trend.growth) for trend in trends(sawtooth, ROUND)] == [
        (100, 0),
        (40, 0),
        (20, 0),
        (8, 0),
    ]


def test_slope_ignores_outliers() -> None:
    assert slope([0, 1, 2, 3, 4], [0, 2, 4, 6, 8]) == 2
    assert slope([0, 1, 2, 3, 4], [0, 2, 99, 6, 8]) == pytest.approx(2, abs=0.5)
    assert slope([1], [1]) == 0
