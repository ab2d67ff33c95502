"""The settings of supervisors and runs."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast

from storage.model import Source

CONVERSATIONAL = frozenset(
    {Source.EMAIL, Source.SMS, Source.MMS, Source.SMS_PROVIDER_A, Source.SMS_PROVIDER_B},
)

YEAR_SECONDS = 365 * 86_400  # the longest duration, so that no timer or timestamp can overflow
BOUNDS = "bounds"
MAX_CONTEXT_TOKENS = 100_000  # selecting and answering more would hold up the event loop


def require_between(name: str, value: float, minimum: float, maximum: float) -> None:
    """Raise ValueError, which names the setting, if the value is out of range or NaN."""
    if not minimum <= value <= maximum:
        raise ValueError(f"{name} must be between {minimum} and {maximum}, got {value}")


def between(default: float, minimum: float, maximum: float) -> Any:
    """Return a field of `Bounded` with this default and these bounds."""
    return field(default=default, metadata={BOUNDS: (minimum, maximum)})


class Bounded:
    """Settings whose numbers are between bounds. A ValueError names the first that is not."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(cast(Any, self)):
            if bounds := each.metadata.get(BOUNDS):
                require_between(each.name, getattr(self, each.name), *bounds)


@dataclass(frozen=True, slots=True)
class SupervisorSettings(Bounded):
    """The settings of supervisors: debounce, due scan, idle time and mailbox."""

    conversational_sources: frozenset[Source] = CONVERSATIONAL
    debounce_cap_seconds: int = between(300, 0, YEAR_SECONDS)
    # Two scans fit into the timer queue's horizon: the scans set the timers for what lies beyond it.
    scan_interval_seconds: float = between(5.0, 0.1, 60)
    idle_seconds: float = between(60.0, 0, YEAR_SECONDS)
    mailbox_limit: int = between(256, 1, 1_000_000)


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """The settings of traces: whether they keep what models were told and answered, and export it."""

    content: Literal["full", "none"] = "full"
    exported_content: Literal["full", "none"] = "none"


@dataclass(frozen=True, slots=True)
class RunSettings(Bounded):
    """The settings of runs: how many at once, how long each may take, how one is stopped."""

    max_concurrent: int = between(100, 1, 1_000_000)
    max_seconds: float = between(3600.0, 0.1, YEAR_SECONDS)
    max_turns: int = between(50, 1, 2**31 - 1)
    stop_grace_seconds: float = between(5.0, 0, 3600)
    min_interval_seconds: float = between(1.0, 0.01, 3600)
    default_provider: str = "builtin"
    context_tokens: int = between(4000, 500, MAX_CONTEXT_TOKENS)
    transcript_tokens: int = between(16_000, 1000, 1_000_000)

    def __post_init__(self) -> None:
        Bounded.__post_init__(self)
        if not self.default_provider.strip() or "/" in self.default_provider:
            raise ValueError(
                f"default_provider must be the name of a model provider, got {self.default_provider!r}"
            )

    def qualify(self, model: str) -> str:
        """Return `<provider>/<name>`, also for a model of the default provider without its prefix."""
        return model if "/" in model else f"{self.default_provider}/{model}"
