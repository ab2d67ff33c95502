"""The facts from which the rules decide what an agent does next, and the updates that they decide on."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from storage.events.model import NewEvent
from storage.model import AgentStatus, Outcome, Receipt, Source

MOMENT = timedelta(microseconds=1)  # the shortest time between two activations


@dataclass(frozen=True, slots=True)
class AgentState:
    """The narrow row that a supervisor owns; the migrations describe each column."""

    agent_id: UUID
    status: AgentStatus = AgentStatus.SLEEPING
    run_id: UUID | None = None
    run_started_at: datetime | None = None
    last_wake_reason: str = ""
    last_wake_interrupted_sleep_until: datetime | None = None
    sleep_until: datetime | None = None
    max_sleep_until: datetime | None = None
    last_started_at: datetime | None = None
    last_ended_at: datetime | None = None
    stopped_at: datetime | None = None
    run_requested_at: datetime | None = None
    queued_at: datetime | None = None
    failures: int = 0
    retries: int = 0
    left_over: int = 0
    retry_at: datetime | None = None
    retry_reason: str = ""
    last_error: str = ""
    wake_seq: int = 0
    next_due_at: datetime | None = None
    seen_until: datetime | None = None
    stop_reason: str = ""  # of the stop at `stopped_at`
    phase: str = "asleep"  # with the next two: what the event log says of the agent
    phase_since: datetime | None = None
    why_digest: int = 0
    paused: bool = False  # unlike the pause of an organization, a pause of this agent alone
    node_id: int | None = None  # the node that attends the agent while it is awake
    lingers: bool = False  # its last run is over, and something of it goes on in the process of that node
    version: int = field(default=0, compare=False)  # number of updates; says nothing about the agent

    def activation_at(self, at: datetime, last_activated_at: datetime | None) -> datetime:
        """Return when a notification of this time becomes active: after all that the agent went through."""
        before = (
            last_activated_at,
            self.last_started_at,
            self.last_ended_at,
            self.stopped_at,
            self.seen_until,
        )
        return max([at, *(each + MOMENT for each in before if each is not None)])


class ActivationPeriod(StrEnum):
    """The time at which a high, uncleared notification became active, relative to the last stop and run."""

    STOPPED = "stopped"  # at or before the stop: starts nothing
    BEFORE = "before"  # at or before the last run's start
    DURING = "during"  # after that start, at or before its end
    SINCE = "since"  # after that end, or there has been no run
    AHEAD = "ahead"  # not yet: a reminder that is not due


IN_ORDER = tuple(ActivationPeriod)


@dataclass(frozen=True, slots=True)
class PendingGroup:
    """High, uncleared notifications of one agent that the rules treat alike: their number and times."""

    source: Source
    reminder: bool
    period: ActivationPeriod
    count: int
    first_at: datetime
    last_at: datetime
    urgent: bool = False


class ActiveTimes:
    """When uncleared high-priority notifications became or become active, in order, for each kind of them."""

    def __init__(self) -> None:
        self._moments: dict[tuple[Source, bool, bool], list[datetime]] = {}

    def add(self, source: Source, at: datetime, scheduled_for: datetime | None, *, urgent: bool) -> None:
        """Add one, which is a reminder if it becomes active when it is scheduled for."""
        insort(self._moments.setdefault((source, at == scheduled_for, urgent), []), at)

    def remove(self, source: Source, at: datetime, scheduled_for: datetime | None, *, urgent: bool) -> None:
        """Remove one that was added with these values."""
        moments = self._moments[source, at == scheduled_for, urgent]
        del moments[bisect_left(moments, at)]

    def grouped(self, state: AgentState, now: datetime) -> tuple[PendingGroup, ...]:
        """Group them as the statement that reads an agent's facts does."""
        kinds = self._moments.items()
        return tuple(group for kind, moments in kinds for group in _grouped(*kind, moments, state, now))


def _grouped(
    source: Source, reminder: bool, urgent: bool, moments: list[datetime], state: AgentState, now: datetime
) -> Iterator[PendingGroup]:
    """Yield a group for each period in which some of the moments lie."""

    def place(at: datetime) -> int:
        return IN_ORDER.index(_period(at, state, now, is_reminder=reminder))

    first = 0
    while first < len(moments):
        period = place(moments[first])
        after = bisect_right(moments, period, lo=first, key=place)
        first_at, last_at = moments[first], moments[after - 1]
        yield PendingGroup(source, reminder, IN_ORDER[period], after - first, first_at, last_at, urgent)
        first = after


def _period(at: datetime, state: AgentState, now: datetime, *, is_reminder: bool) -> ActivationPeriod:
    if is_reminder and at > now:
        return ActivationPeriod.AHEAD
    if state.stopped_at is not None and at <= state.stopped_at:
        return ActivationPeriod.STOPPED
    if state.seen_until is not None and at <= state.seen_until and not is_reminder:
        return ActivationPeriod.BEFORE if state.stopped_at is None else ActivationPeriod.STOPPED
    if state.last_started_at is None:
        return ActivationPeriod.SINCE
    if at <= state.last_started_at:
        return ActivationPeriod.BEFORE
    if state.last_ended_at is not None and at > state.last_ended_at and state.run_id is None:
        return ActivationPeriod.SINCE
    return ActivationPeriod.DURING


@dataclass(frozen=True, slots=True)
class Budget:
    """The cap and today's spending, by UTC day, of one agent or of its whole organization."""

    of_organization: bool
    cap_usd: Decimal
    spent_usd: Decimal
    allows_unpriced: bool = False  # calls of models whose price is not known

    @property
    def is_reached(self) -> bool:
        return self.spent_usd >= self.cap_usd


@dataclass(frozen=True, slots=True)
class WakeLimits:
    """How often an agent may wake, and the starts that fill these limits: the last hour's, the last day's.

    With `max_wakes_per_hour` of 3, `fills_hour_at` is the start of the third last run, if that was within the
    hour. `fills_day_at` is the same for a day, which is one of the agent's time zone.
    """

    max_wakes_per_hour: int | None = None
    max_wakes_per_day: int | None = None
    quiet_hours: str = ""
    timezone: str = "UTC"
    fills_hour_at: datetime | None = None
    fills_day_at: datetime | None = None


WAKE_LIMITS = ("max_wakes_per_hour", "max_wakes_per_day", "quiet_hours")  # an agent's, else its template's
NO_LIMITS = WakeLimits()


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """The facts from which the rules decide what one agent does next, read in one database snapshot."""

    organization_id: UUID
    state: AgentState
    created_at: datetime
    name: str
    organization_paused: bool
    max_sleep_hours: int | None
    agent_window_seconds: int | None
    template_window_seconds: int | None
    budgets: tuple[Budget, ...] = ()  # empty if nothing caps the spending
    pending: tuple[PendingGroup, ...] = ()
    pending_at_start: int = 0  # notifications that were active when the active run started
    interrupted_sleep_until: datetime | None = None  # end of the sleep that the active run cut short
    wake_reason: str = ""  # of the active run, blank if there is none
    model: str = ""
    limits: WakeLimits = NO_LIMITS
    instance_paused_at: datetime | None = None
    instance_paused_because: str = ""

    @property
    def is_paused(self) -> bool:
        """Return whether the agent, its organization or the instance is paused, so that nothing starts."""
        return self.instance_paused_at is not None or self.organization_paused or self.state.paused

    def without_pause(self) -> "AgentFacts":
        """Return the facts as they would be if nothing that it belongs to were paused."""
        state = replace(self.state, paused=False) if self.state.paused else self.state
        return replace(self, organization_paused=False, instance_paused_at=None, state=state)


@dataclass(frozen=True, slots=True)
class RunStart:
    """The run that a state update starts, and its trace with it."""

    run_id: UUID
    wake_reason: str
    interrupted_sleep_until: datetime | None
    max_sleep_until: datetime | None
    started_at: datetime
    trace_name: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run that a state update ends, and its trace with it.

    `journal` is a JSON object, to which the update adds titles and messages; blank: no journal is stored.
    """

    run_id: UUID
    outcome: Outcome
    ended_at: datetime
    turns: int
    error: str
    journal: str = ""
    output: str = ""  # the text of the final answer


@dataclass(frozen=True, slots=True)
class SystemNotice:
    """A low `system` notification that a state update adds to the queue of its agent unless its id is there.

    `budget` is the data of the event `budget.reached` that is stored with it; blank: there is none.
    """

    id: UUID
    title: str
    body: str
    created_at: datetime
    budget: str = ""


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """One step of one agent: from the state that was read to the next, with the run it starts or ends.

    It takes effect only if the agent has not been updated since `before` was read and, when `guarded`, no
    notification has become active since then.
    """

    before: AgentState
    after: AgentState
    guarded: bool
    start: RunStart | None = None
    end: RunEnd | None = None
    receipt: Receipt | None = None
    notice: SystemNotice | None = None
    events: tuple[NewEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class AttendedAgent:
    """An agent and the node that attends it; None if it sleeps."""

    agent_id: UUID
    node_id: int | None


@dataclass(frozen=True, slots=True)
class DueAgent(AttendedAgent):
    """An agent that is due at a moment."""

    next_due_at: datetime


@dataclass(frozen=True, slots=True)
class RowVersion:
    """How often the row of an agent was updated, and how often a notification of it was activated."""

    agent_id: UUID
    version: int
    wake_seq: int


@dataclass(frozen=True, slots=True)
class Orphan:
    """An agent with a run, or else a queued start, that no node has in memory."""

    agent_id: UUID
    had_run: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of agents, timers and pending notifications at one moment."""

    running: int
    sleeping: int
    archived: int
    quarantined: frozenset[UUID]  # a supervisor in memory may know a newer state
    timers: int
    next_due_at: datetime | None
    oldest_active_at: datetime | None
    held_by_limits: int = 0
