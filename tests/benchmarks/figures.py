"""The result of a row of the benchmarks: figures with their bars, and the text that shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any


class Unit(StrEnum):
    """The unit of a figure. Only ratios and processor times are worth comparing from day to day."""

    RATIO = "x"
    CPU = "ms CPU"
    MS = "ms"
    SECONDS = "s"
    PER_SECOND = "/s"
    KIB = "KiB"
    MB = "MB"
    PERCENT = "%"
    COUNT = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value, with the bar that it has to reach or may not exceed, if it is judged."""

    name: str
    value: float
    unit: Unit
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    @property
    def verdict(self) -> str:
        """Return the bar and whether it is met, or an empty text for a figure without a bar."""
        bars = (("at least", self.at_least), ("at most", self.at_most))
        texts = [f"{words} {bar:g}" for words, bar in bars if bar is not None]
        return f"{', '.join(texts)}: {'met' if self.met else 'NOT MET'}" if texts else ""


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one row of the benchmarks."""

    row: str
    title: str
    figures: Sequence[Figure]

    @property
    def met(self) -> bool:
        return all(figure.met for figure in self.figures)

    def as_json(self) -> dict[str, Any]:
        figures = [
            {
                "name": figure.name,
                "value": round(figure.value, 4),
                "unit": figure.unit,
                "at_least": figure.at_least,
                "at_most": figure.at_most,
                "met": figure.met,
            }
            for figure in self.figures
        ]
        return {"row": self.row, "title": self.title, "met": self.met, "figures": figures}


def show(result: Result) -> str:
    """Return the text of a row: one line for each figure, with its bar."""
    lines = [f"{result.row}: {result.title}"]
    for figure in result.figures:
        line = f"  {figure.name:<44}{_number(figure.value):>9} {figure.unit:<6}  {figure.verdict}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def percentile(share: float, values: Sequence[float]) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)  # rounded up
    return ordered[max(int(rank), 1) - 1]


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of rounds that were measured side by side."""
    return median(one / other for one, other in zip(ours, theirs, strict=True))


def times(name: str, values_ms: Sequence[float], p99_at_most: float | None = None) -> list[Figure]:
    """Return the figures of durations in milliseconds: p50, p99 and the worst."""
    return [
        Figure(f"{name}, p50", percentile(0.5, values_ms), Unit.MS),
        Figure(f"{name}, p99", percentile(0.99, values_ms), Unit.MS, at_most=p99_at_most),
        Figure(f"{name}, worst", max(values_ms), Unit.MS),
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
