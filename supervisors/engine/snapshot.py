"""The values that the status endpoints show: one agent in full, and all agents in numbers."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

from storage.agent_facts import AgentFacts
from storage.histogram import Histogram
from storage.model import AgentStatus
from supervisors.policy.decisions import Policy
from supervisors.policy.explanations import StartLimits
from supervisors.policy.phases import Phase, ShownPhase


@dataclass(frozen=True, slots=True)
class NextWake:
    """The next moment at which the agent wakes by itself."""

    at: datetime
    """When it wakes, unless something else wakes it earlier."""
    because: str
    """The cause, as a sentence."""


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """The active run."""

    id: UUID
    """The id of the run."""
    trace: UUID
    """The id of the run's trace, which is the same."""
    started_at: datetime
    """When the run started."""
    turn: int
    """The number of the current turn; 0 before the first, always in a process harness, and if the run works
    in another node than the one that answers."""
    max_sleep_until: datetime | None
    """The latest moment that the run may sleep until; null: no limit."""


@dataclass(frozen=True, slots=True)
class DebounceResponse:
    """The wait for a conversation to pause."""

    window_seconds: int
    """How many seconds must pass without a further message."""
    first_at: datetime
    """When the first message of the conversation became active."""
    last_at: datetime
    """When the latest message of the conversation became active."""
    due_at: datetime
    """When the agent is woken if no further message comes."""


@dataclass(frozen=True, slots=True)
class MailboxResponse:
    """The requests that wait for the agent's supervisor."""

    depth: int
    """How many requests wait in the node that answers; 0 if it has no supervisor of the agent."""
    limit: int
    """How many may wait; the next one is refused with 503."""


@dataclass(frozen=True, slots=True)
class FailuresResponse:
    """The failures since the last run that did not fail."""

    consecutive: int
    """How many runs have failed in a row; from five on the agent is quarantined."""
    last_error: str
    """The latest error; "" if there is none."""
    retry_at: datetime | None
    """When the next retry is due; null if none is planned."""


@dataclass(frozen=True, slots=True)
class RecentMessage:
    """A message to the supervisor."""

    at: datetime
    """When the supervisor handled it."""
    message: str
    """The kind of message, such as `run request` or `notified`."""
    outcome: str
    """The result, such as the phase that followed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One agent: where it is, since when and why, what wakes it next, and what keeps it from sleeping."""

    agent: UUID
    """The id of the agent."""
    name: str
    """The name of the agent."""
    organization: UUID
    """The organization that the agent belongs to."""
    status: AgentStatus
    """The status that the agent's own resource shows."""
    phase: Phase
    """The state of the agent as its supervisor sees it."""
    since: datetime | None  # the earliest time that is known, if any
    """When the phase began, as far as it is known; null if it is not."""
    why: str
    """Why the agent is in this phase, in a sentence or two for people."""
    next_wake: NextWake | None
    """When and why it wakes next by itself; null if only something new can wake it."""
    run: CurrentRun | None
    """The active run; null if there is none."""
    debounce: DebounceResponse | None
    """The wait for a conversation to pause; null unless the phase is `holding`."""
    blockers: tuple[UUID, ...]
    """The active notifications that keep it from sleeping, at most 100."""
    mailbox: MailboxResponse
    """The requests that wait for its supervisor."""
    failures: FailuresResponse
    """Its failures in a row, and the next retry."""
    recent: tuple[RecentMessage, ...]
    """The last messages to its supervisor in the node that answers, oldest first, at most 32. They are lost
    when the supervisor leaves memory."""
    node: str | None
    """The name of the node that attends the agent, in which its run works; null while no node does."""


@dataclass(frozen=True, slots=True)
class Present:
    """Everything that the rules read to decide what an agent does next, at the moment `now`.

    `has_room`: a run slot is free for it. `run_is_stopping`: its run was asked to stop.
    """

    facts: AgentFacts
    now: datetime
    policy: Policy
    limits: StartLimits
    has_room: bool = True
    run_is_stopping: bool = False


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """One agent in a list for people; the fields mean the same as those of `Snapshot`."""

    status: AgentStatus
    phase: ShownPhase
    since: datetime | None
    why: str
    next_wake: NextWake | None
    run: UUID | None
    uncleared_high: int
    node: str | None


@dataclass(frozen=True, slots=True)
class SnapshotFilters:
    """The agents to show; None shows all. `name` is compared ignoring case."""

    phase: Phase | None = None
    status: AgentStatus | None = None
    organization_id: UUID | None = None
    name: str | None = None

    def show(self, snapshot: Snapshot) -> bool:
        """Return whether the filters by what an agent is doing show this one."""
        return self.phase in {None, snapshot.phase} and self.status in {None, snapshot.status}


@dataclass(frozen=True, slots=True)
class MailboxesResponse:
    """The requests that wait for supervisors."""

    depth: int
    """How many wait in all."""
    deepest: int
    """How many wait for the supervisor that has the most."""


@dataclass(frozen=True, slots=True)
class SupervisorsResponse:
    """The supervisors in memory of all nodes. An agent that is idle and was not addressed for a minute has
    none; one that was addressed through several nodes has one in each."""

    active: int
    """How many there are."""
    by_phase: dict[str, int]
    """How many are in each phase; a phase without any is left out."""
    mailbox: MailboxesResponse
    """The requests that wait for them."""
    restarts: int
    """How many crashed and were started again, since the start of the nodes that live."""
    quarantined: int
    """How many agents are in quarantine, with or without a supervisor in memory."""


@dataclass(frozen=True, slots=True)
class QuarantinedAgent:
    """An agent that is in quarantine after too many failures."""

    agent: UUID
    """The agent; `/status/supervisors/{id}/` explains it."""
    name: str
    """Its name."""
    organization: UUID
    """The organization that it belongs to."""
    failures: int
    """How many runs have failed in a row."""
    last_error: str
    """The beginning of the latest error, at most 200 characters."""
    until: datetime | None
    """When the next retry is due; null if none is. A run request starts the agent earlier."""


@dataclass(frozen=True, slots=True)
class AgentsResponse:
    """The agents of all organizations, by status."""

    running: int
    """How many have an active run."""
    sleeping: int
    """How many are neither running nor archived."""
    archived: int
    """How many are archived."""
    held_by_limits: int
    """How many of the sleeping wait until they may wake again, or until their quiet hours end."""


@dataclass(frozen=True, slots=True)
class RunsResponse:
    """The run slots."""

    running: int
    """How many are taken."""
    queued: int
    """How many starts wait for one."""
    limit: int
    """How many there are: the sum of `runs.max_concurrent` over all nodes."""


MODEL_SECONDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)  # upper bounds


@dataclass(slots=True)
class ModelCalls:
    """The calls of one provider's models."""

    durations: Histogram = field(default_factory=partial(Histogram, MODEL_SECONDS))
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution in milliseconds over the last several hundred measurements, null before the first."""

    p50: float | None
    """The median; null before the first measurement."""
    p99: float | None
    """The value that one in a hundred exceeds; null before the first measurement."""
    max: float | None
    """The greatest value; null before the first measurement."""


@dataclass(frozen=True, slots=True)
class TimersResponse:
    """The moments at which agents must act next."""

    pending: int
    """How many agents have such a moment."""
    next_due_at: datetime | None
    """The earliest of them; null if there is none."""
    lateness_ms: Spread
    """How late timers have fired."""


@dataclass(frozen=True, slots=True)
class ServiceNumbers:
    """All agents in numbers, counted at most one scan interval ago."""

    supervisors: SupervisorsResponse
    quarantined: tuple[QuarantinedAgent, ...]
    agents: AgentsResponse
    runs: RunsResponse
    timers: TimersResponse
    oldest_uncleared_high_seconds: float | None
    loop_lag_ms: Spread
