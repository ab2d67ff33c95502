"""What an attack measured, and the bar that the service is held to."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tests.attack.target import Target


@dataclass(frozen=True, slots=True)
class Finding:
    """One measurement and its bar. `held` is None if it could not be measured."""

    subject: str
    measured: str
    bar: str
    held: bool | None

    @property
    def verdict(self) -> str:
        return "not measured" if self.held is None else "held" if self.held else "FAILED"


AttackFunction = Callable[[Target], Awaitable[list[Finding]]]


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack: whether it has different sizes, and how long it waits for a time limit of the service."""

    run: AttackFunction
    is_sized: bool = False
    waits_seconds: float = 0

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def attempt(self) -> str:
        """Return what it attempts: the first line of the function's docstring."""
        return (self.run.__doc__ or "").partition("\n")[0]


def at_most(subject: str, value: float | None, bar: float, unit: str) -> Finding:
    """Return whether the value is at most the bar; None stands for a value that could not be measured."""
    measured = "-" if value is None else f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2f} {unit}"
    return Finding(subject, measured, f"≤ {bar:,g} {unit}", None if value is None else value <= bar)


def holds(subject: str, is_true: bool, otherwise: str = "") -> Finding:
    """Return whether a statement about the service is true. `otherwise` says what was seen instead."""
    return Finding(subject, "yes" if is_true else otherwise or "no", "yes", is_true)


def none_of(subject: str, breaches: Sequence[str], tried: int) -> Finding:
    """Return that none of the tried variants got through, naming at most three that did."""
    shown = "; ".join(breaches[:3]) + ("; …" if len(breaches) > 3 else "")
    measured = f"{len(breaches)} of {tried}" + (f": {shown}" if breaches else "")
    return Finding(subject, measured, f"0 of {tried}", not breaches and tried > 0)


def unmeasured(subject: str, why: str, bar: str = "") -> Finding:
    return Finding(subject, why, bar, None)
