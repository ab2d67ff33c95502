"""Rounds of several sides, measured in turn, so that a slow minute of the machine meets all of them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import TypeVar

from tests.benchmarks.figures import Figure, Unit, median_ratio

BARE = "bare"  # the side that is the reference for bars


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a round of each side takes, and how many rounds there are."""

    seconds: float = 4.0
    rounds: int = 4
    warm_up_seconds: float = 2.0


QUICK = Pace(seconds=1.5, rounds=3, warm_up_seconds=0.7)


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one side, with the processor times (user and system, in seconds) of all its operations.

    `rate` is in operations a second, and `busy` the share of the time in which the generator used a core.
    """

    rate: float
    operations: int
    server_cpu: float
    postgres_cpu: float
    busy: float

    @property
    def server_ms(self) -> float:
        """Return the server's milliseconds of an operation."""
        return 1000 * self.server_cpu / self.operations

    @property
    def postgres_ms(self) -> float:
        """Return PostgreSQL's milliseconds of an operation."""
        return 1000 * self.postgres_cpu / self.operations

    @property
    def cpu_ms(self) -> float:
        return self.server_ms + self.postgres_ms


Side = TypeVar("Side")
Samples = Mapping[str, Sequence[Sample]]
Measure = Callable[[float], Awaitable[Sample]]  # measures for so many seconds


async def interleave(sides: Mapping[str, Measure], pace: Pace) -> Samples:
    """Measure all sides in each round, in the order A B, B A, A B, …, after a warm-up of each."""
    for measure in sides.values():
        await measure(pace.warm_up_seconds)
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    for names in orders(list(sides), pace.rounds):
        for name in names:
            samples[name].append(await sides[name](pace.seconds))
    return samples


def orders(sides: Sequence[Side], rounds: int) -> list[Sequence[Side]]:
    """Return the order of the sides in each round: every other round is reversed."""
    return [sides if number % 2 == 0 else sides[::-1] for number in range(rounds)]


def compare(
    samples: Samples, rate_bar: float | None = None, cpu_bar: float | None = None, prefix: str = ""
) -> list[Figure]:
    """Return the ratios of the first side to each other, and all costs.

    `rate_bar` judges the rate against the bare handler, `cpu_bar` the processor time against another commit.
    """
    main, *others = samples
    ratios: list[Figure] = []
    for other in others:
        rates, costs_ms = (
            [[read(one) for one in samples[name]] for name in (main, other)]
            for read in (attrgetter("rate"), attrgetter("cpu_ms"))
        )
        at_least, at_most = (rate_bar, None) if other == BARE else (None, cpu_bar)
        names = f"{main} / {other}"
        ratios += [
            Figure(f"{prefix}rate, {names}", median_ratio(*rates), Unit.RATIO, at_least=at_least),
            Figure(f"{prefix}CPU, {names}", median_ratio(*costs_ms), Unit.RATIO, at_most=at_most),
        ]
    return [*ratios, *costs(samples, prefix)]


def costs(samples: Samples, prefix: str = "") -> list[Figure]:
    """Return the rate of each side, and the processor time of an operation."""
    figures = []
    for name, rounds in samples.items():
        figures += [
            Figure(f"{prefix}{name}: rate", median(one.rate for one in rounds), Unit.PER_SECOND),
            Figure(f"{prefix}{name}: server", median(one.server_ms for one in rounds), Unit.CPU),
            Figure(f"{prefix}{name}: PostgreSQL", median(one.postgres_ms for one in rounds), Unit.CPU),
        ]
    busiest = max(one.busy for rounds in samples.values() for one in rounds)
    return [*figures, Figure(f"{prefix}load generator busy, at most", 100 * busiest, Unit.PERCENT)]
