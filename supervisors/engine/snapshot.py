"""The values that the status endpoints show: one agent in full, and all agents in numbers."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.model import AgentStatus, Outcome
from supervisors.policy.phases import Phase


@dataclass(frozen=True, slots=True)
class NextWake:
    at: datetime
    because: str


@dataclass(frozen=True, slots=True)
class CurrentRun:
    id: UUID
    trace: UUID
    started_at: datetime | None
    turn: int
    max_sleep_until: datetime | None


@dataclass(frozen=True, slots=True)
class DebounceResponse:
    window_seconds: int
    first_at: datetime
    last_at: datetime
    due_at: datetime


@dataclass(frozen=True, slots=True)
class MailboxResponse:
    depth: int
    limit: int


@dataclass(frozen=True, slots=True)
class FailuresResponse:
    consecutive: int
    last_error: str
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecentMessage:
    at: datetime
    message: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One agent: where it is, since when and why, what wakes it next, and what keeps it from sleeping."""

    agent: UUID
    name: str
    organization: UUID
    status: AgentStatus
    phase: Phase
    since: datetime | None  # the earliest time that is known, if any
    why: str
    next_wake: NextWake | None
    run: CurrentRun | None
    debounce: DebounceResponse | None
    blockers: tuple[UUID, ...]
    mailbox: MailboxResponse
    failures: FailuresResponse
    recent: tuple[RecentMessage, ...]


@dataclass(frozen=True, slots=True)
class MailboxesResponse:
    depth: int
    deepest: int


@dataclass(frozen=True, slots=True)
class SupervisorsResponse:
    """The supervisors alive in this process."""

    active: int
    by_phase: dict[str, int]
    mailbox: MailboxesResponse
    restarts: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class AgentsResponse:
    running: int
    sleeping: int
    archived: int


@dataclass(frozen=True, slots=True)
class RunsResponse:
    running: int
    queued: int
    limit: int


@dataclass(frozen=True, slots=True)
class RunTotals:
    """Runs that began in this process since its start, and how many of them ended how."""

    started: int
    ended: dict[Outcome, int]


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds, over the last several hundred measurements; None before the first."""

    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class TimersResponse:
    pending: int
    next_due_at: datetime | None
    lateness_ms: Spread


@dataclass(frozen=True, slots=True)
class Overview:
    """All agents in numbers, counted at most one scan interval ago."""

    supervisors: SupervisorsResponse
    agents: AgentsResponse
    runs: RunsResponse
    timers: TimersResponse
    oldest_uncleared_high_seconds: float | None
    loop_lag_ms: Spread
    run_totals: RunTotals
