"""The settings of supervisors and runs."""

from dataclasses import dataclass
from typing import Literal

from storage.model import Source

CONVERSATIONAL = frozenset(
    {Source.EMAIL, Source.SMS, Source.MMS, Source.SMS_PROVIDER_A, Source.SMS_PROVIDER_B},
)

YEAR_SECONDS = 365 * 86_400  # the longest duration, so that no timer or timestamp can overflow
MAX_CONTEXT_TOKENS = 100_000  # selecting and answering more would hold up the event loop


def require_between(name: str, value: float, minimum: float, maximum: float) -> None:
    """Raise ValueError, which names the setting, if the value is out of range or NaN."""
    if not minimum <= value <= maximum:
        raise ValueError(f"{name} must be between {minimum} and {maximum}, got {value}")


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """The settings of supervisors: debounce, due scan, idle time and mailbox."""

    conversational_sources: frozenset[Source] = CONVERSATIONAL
    debounce_cap_seconds: int = 300
    scan_interval_seconds: float = 5.0
    idle_seconds: float = 60.0
    mailbox_limit: int = 256

    def __post_init__(self) -> None:
        require_between("debounce_cap_seconds", self.debounce_cap_seconds, 0, YEAR_SECONDS)
        # Two scans fit into the timer queue's horizon: the scans set the timers for what lies beyond it.
        require_between("scan_interval_seconds", self.scan_interval_seconds, 0.1, 60)
        require_between("idle_seconds", self.idle_seconds, 0, YEAR_SECONDS)
        require_between("mailbox_limit", self.mailbox_limit, 1, 1_000_000)


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """The settings of traces: whether they keep what models were told and answered, and export it."""

    content: Literal["full", "none"] = "full"
    exported_content: Literal["full", "none"] = "none"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of runs: how many at once, how long each may take, how one is stopped."""

    max_concurrent: int = 100
    max_seconds: float = 3600.0
    max_turns: int = 50
    stop_grace_seconds: float = 5.0
    min_interval_seconds: float = 1.0
    default_provider: str = "builtin"
    context_tokens: int = 4000
    transcript_tokens: int = 16_000

    def __post_init__(self) -> None:
        require_between("max_concurrent", self.max_concurrent, 1, 1_000_000)
        require_between("max_seconds", self.max_seconds, 0.1, YEAR_SECONDS)
        require_between("max_turns", self.max_turns, 1, 2**31 - 1)
        require_between("stop_grace_seconds", self.stop_grace_seconds, 0, 3600)
        require_between("min_interval_seconds", self.min_interval_seconds, 0.01, 3600)
        require_between("context_tokens", self.context_tokens, 500, MAX_CONTEXT_TOKENS)
        require_between("transcript_tokens", self.transcript_tokens, 1000, 1_000_000)
        if not self.default_provider.strip() or "/" in self.default_provider:
            raise ValueError(
                f"default_provider must be the name of a model provider, got {self.default_provider!r}"
            )

    def qualify(self, model: str) -> str:
        """Return `<provider>/<name>`, also for a model of the default provider without its prefix."""
        return model if "/" in model else f"{self.default_provider}/{model}"
