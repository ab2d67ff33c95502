"""The wake rules: `decide` says what an agent does next, and nothing else starts a run.

Pure: the facts about an agent and the time in, a decision out. `transitions` says how its state changes. The
caps on spending, which postpone a wake, are at the end.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum

from storage.agent_facts import NO_LIMITS, ActivationPeriod, AgentFacts, Budget, PendingGroup, WakeLimits
from storage.model import AgentStatus, Organization, Source, Template, Unpriced
from supervisors.policy.limits import Delay, delay_of
from supervisors.policy.phases import Phase
from supervisors.settings import RunSettings, SupervisorSettings

MAX_REFUSALS_FOR_FAILED_CALLS = 2  # of sleep, in one run
QUARANTINE_AFTER_FAILURES = 5
QUARANTINE_ATTEMPT_INTERVAL = timedelta(seconds=60)
MAX_AHEAD = timedelta(seconds=1)  # of a message: one further ahead shows that the wall clock was set back


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's settings that the wake rules use."""

    conversational_sources: frozenset[Source]
    debounce_cap_seconds: int
    min_interval_seconds: float


def policy_of(supervisors: SupervisorSettings, runs: RunSettings) -> Policy:
    """Return the wake rules' part of the settings."""
    return Policy(
        conversational_sources=supervisors.conversational_sources,
        debounce_cap_seconds=supervisors.debounce_cap_seconds,
        min_interval_seconds=runs.min_interval_seconds,
    )


class WakeReason(StrEnum):
    """The recorded reasons of runs; `notification:<source>` is the only other one."""

    RUN_REQUESTED = "run_requested"
    REMINDER = "reminder"
    SLEEP_ELAPSED = "sleep_elapsed"
    RESTART_RECOVERY = "restart_recovery"
    RETRY_AFTER_FAILURE = "retry_after_failure"
    UNCLEARED_NOTIFICATIONS = "uncleared_notifications"


class WakeCause(StrEnum):
    """The kind of event that proposes a wake."""

    RUN_REQUEST = "run request"
    NOTIFICATION = "notification"
    HOLD = "hold"
    REMINDER = "reminder"
    SLEEP_UNTIL = "sleep until"
    RETRY = "retry"


BY_ACTIVATION = frozenset({WakeCause.NOTIFICATION, WakeCause.HOLD})


@dataclass(frozen=True, slots=True)
class Hold:
    """A wake that waits for a quiet moment: from the first held message to `due_at`."""

    window_seconds: int
    first_at: datetime
    last_at: datetime
    due_at: datetime
    count: int  # of its messages
    latest_at: datetime  # `due_at` if the conversation goes on

    @property
    def is_capped(self) -> bool:
        """Return whether the hold has reached its cap: another message no longer extends it."""
        return self.due_at < self.last_at + timedelta(seconds=self.window_seconds)


@dataclass(frozen=True, slots=True)
class Wake:
    """A start proposed for `at`, and the wake reason that it would record.

    `is_postponed`: a spent budget delays it; when the next day's budget begins, it is decided again.
    `is_urgent`: the limits on wakes do not delay it. `delay`: how they do otherwise.
    """

    at: datetime
    reason: str
    cause: WakeCause
    is_postponed: bool = False
    is_urgent: bool = False
    delay: Delay | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The phase of an agent, its earliest wake, and the hold, the spent budget or the limit that delays it.

    `held_by`: the delay of a wake that would be due now, or of a hold; None for one of a wake ahead.
    `changes_at`: when the decision becomes another one although nothing happens and nothing is due.
    """

    phase: Phase
    wake: Wake | None = None
    hold: Hold | None = None
    over_budget: Budget | None = None
    held_by: Delay | None = None
    changes_at: datetime | None = None

    @property
    def next_at(self) -> datetime | None:
        """Return when the agent has to be looked at again; None if only something new can change it."""
        moments = (self.wake.at if self.wake else None, self.changes_at)
        return min((moment for moment in moments if moment is not None), default=None)

    def due_wake(self, now: datetime) -> Wake | None:
        """Return the wake if it is due, so that the agent has to be started."""
        return self.wake if self.wake is not None and self.wake.at <= now else None


def decide(facts: AgentFacts, now: datetime, policy: Policy) -> Decision:
    """Decide what the agent does next: start at the earliest proposed wake, or rest."""
    state = facts.state
    if state.status is AgentStatus.ARCHIVED:
        return Decision(Phase.ARCHIVED)
    if state.run_id is not None:
        is_stopping = state.stopped_at is not None or facts.is_paused
        return Decision(Phase.STOPPING if is_stopping else Phase.RUNNING)
    if facts.is_paused:
        return Decision(Phase.PAUSED)
    hold = hold_of(facts, now, policy)
    proposed: Iterable[Wake] = _proposed_wakes(facts, hold, now, policy)
    over_budget = reached_budget(facts.budgets) if facts.budgets else None
    if over_budget is not None:
        proposed = _postpone(proposed, renewed_at(now))
    # Of wakes that a limit delays to the same moment, the one that was due first is told.
    wakes = sorted(proposed, key=lambda wake: wake.at)
    if facts.limits != NO_LIMITS:
        wakes = [_delay(facts.limits, wake, now) for wake in wakes]
    wake = _earliest(wakes, now)
    if over_budget is not None:
        renewal = renewed_at(now)
        phase = _phase_without_hold(facts, now)
        quarantine_ends_at = pending_retry_at(facts) if phase is Phase.QUARANTINED else None
        looks_again_at = min(renewal, quarantine_ends_at or renewal)
        return Decision(phase, wake, over_budget=over_budget, changes_at=looks_again_at)
    delays = [each.delay for each in wakes if each.delay is not None]
    changes_at = min((delay.due_at for delay in delays if delay.due_at > now), default=None)
    delay = wake.delay if wake else None
    if delay is None or (delay.due_at > now and hold is None):
        return Decision(_resting_phase(facts, hold), wake, hold, changes_at=changes_at)
    return Decision(_phase_without_hold(facts, now), wake, held_by=delay, changes_at=changes_at)


def hold_of(facts: AgentFacts, now: datetime, policy: Policy) -> Hold | None:
    """Return the hold over the conversation that reached the agent since its last start.

    If its messages lie ahead, the wall clock was set back since they came. Then the hold goes on for a window
    at most: `next_due_at` keeps the end that was decided first, so that no later look moves it.
    """
    window = window_of(facts)
    if window == 0:
        return None
    held = (group for group in facts.pending if _is_new(group) and _is_held(group, policy))
    hold = hold_for(held, window, policy.debounce_cap_seconds)
    queued_at = facts.state.queued_at
    if hold is None:
        return None
    if hold.last_at > now + MAX_AHEAD:
        decided_at = now if queued_at is not None else facts.state.next_due_at
        due_at = min(hold.due_at, now + timedelta(seconds=window), decided_at or hold.due_at)
        return replace(hold, due_at=due_at, latest_at=due_at)
    # A hold that led to a queued start does not begin again. One that could not have ended by `queued_at` did
    # not lead to that start: something else did.
    if queued_at is not None and hold.first_at + timedelta(seconds=window) <= queued_at:
        return replace(hold, due_at=min(hold.due_at, queued_at))
    return hold


def window_of(facts: AgentFacts) -> int:
    """Return the debounce window in seconds: the agent's, 0 included, else its template's."""
    window = facts.agent_window_seconds
    return (facts.template_window_seconds or 0) if window is None else window


def max_hold_seconds(window_seconds: int, cap_seconds: int) -> int:
    """Return the longest length of a hold: ten windows, at most the cap, but at least two windows."""
    return max(2 * window_seconds, min(10 * window_seconds, cap_seconds))


def hold_for(held: Iterable[PendingGroup], window_seconds: int, cap_seconds: int) -> Hold | None:
    """Return the hold over these conversational notifications; None without any, or with a window of 0.

    It ends one window after the last of them, but at most `max_hold_seconds` after the first.
    """
    groups = tuple(held)
    if not groups or window_seconds == 0:
        return None
    first_at, last_at = min(group.first_at for group in groups), max(group.last_at for group in groups)
    lasted, longest = last_at - first_at, timedelta(seconds=max_hold_seconds(window_seconds, cap_seconds))
    length = min(lasted + timedelta(seconds=window_seconds), longest)
    count = sum(group.count for group in groups)
    return Hold(window_seconds, first_at, last_at, first_at + length, count, first_at + longest)


def active_count(facts: AgentFacts) -> int:
    """Count the active notifications. Those from before a stop start no run, but still refuse sleep."""
    return sum(group.count for group in facts.pending if group.period is not ActivationPeriod.AHEAD)


def calls_that_refuse_sleep(
    failed: Collection[str], refusals: int, *, has_turn_left: bool
) -> tuple[str, ...]:
    """Return the tools because of whose failed calls sleep is refused; none: sleep is granted.

    `failed`: the tools whose calls failed in the turn that also calls sleep. The model must see their errors
    before its run ends, if it can still take a turn, but a call that always fails may not keep it awake.
    `refusals`: how often sleep was refused for that reason in this run.
    """
    if refusals >= MAX_REFUSALS_FOR_FAILED_CALLS or not has_turn_left:
        return ()
    return tuple(dict.fromkeys(failed))


def left_over_count(facts: AgentFacts) -> int:
    """Count the active notifications that the last run could have cleared."""
    seen = {ActivationPeriod.BEFORE, ActivationPeriod.DURING}
    return sum(group.count for group in facts.pending if group.period in seen and not _is_new(group))


def is_quarantined(facts: AgentFacts) -> bool:
    """Return whether too many runs in a row have failed; then notifications start the agent less often."""
    has_failed_often = facts.state.failures >= QUARANTINE_AFTER_FAILURES
    return has_failed_often and pending_retry_at(facts) is not None


def phase_after_failure(facts: AgentFacts) -> Phase:
    """Return the phase of an agent whose failure was counted without asking the rules."""
    if facts.is_paused:
        return Phase.PAUSED
    return Phase.QUARANTINED if is_quarantined(facts) else Phase.BACKING_OFF


def pending_retry_at(facts: AgentFacts) -> datetime | None:
    """Return the moment of the stored retry; None if what it was stored for no longer exists."""
    state = facts.state
    match state.retry_reason:
        case WakeReason.RETRY_AFTER_FAILURE | WakeReason.RESTART_RECOVERY:
            is_needed = True
        case WakeReason.UNCLEARED_NOTIFICATIONS:
            is_needed = left_over_count(facts) > 0
        case _:
            is_needed = next(_wakeable(facts), None) is not None
    return state.retry_at if is_needed else None


def _proposed_wakes(facts: AgentFacts, hold: Hold | None, now: datetime, policy: Policy) -> Iterator[Wake]:
    """Yield a wake for each reason that the agent has to start, in no order."""
    state = facts.state
    if state.run_requested_at is not None:
        requested_at = state.run_requested_at
        yield Wake(requested_at, WakeReason.RUN_REQUESTED, WakeCause.RUN_REQUEST, is_urgent=True)
    opens_at = None  # from then on notifications start a quarantined agent
    if is_quarantined(facts) and state.last_started_at is not None:
        opens_at = state.last_started_at + QUARANTINE_ATTEMPT_INTERVAL
    for wake in _wakes_by_activation(facts, hold, now, policy):
        yield wake if opens_at is None or wake.at >= opens_at else replace(wake, at=opens_at)
    retry_at = pending_retry_at(facts)
    if retry_at is not None:
        yield Wake(retry_at, state.retry_reason or _reason_of_latest(facts), WakeCause.RETRY)
        return  # left-over notifications and the end of a sleep wait for the retry
    if left_over_count(facts):
        yield Wake(now, WakeReason.UNCLEARED_NOTIFICATIONS, WakeCause.RETRY)
    if state.sleep_until is not None:
        at = state.sleep_until
        if state.last_started_at is not None:
            at = max(at, state.last_started_at + timedelta(seconds=policy.min_interval_seconds))
        yield Wake(at, WakeReason.SLEEP_ELAPSED, WakeCause.SLEEP_UNTIL)


def _postpone(wakes: Iterable[Wake], until: datetime) -> Iterator[Wake]:
    """Delay each wake that is earlier than `until`."""
    for wake in wakes:
        yield wake if wake.at >= until else replace(wake, at=until, is_postponed=True)


def _delay(limits: WakeLimits, wake: Wake, now: datetime) -> Wake:
    """Delay the wake until the limits allow it, unless it is urgent."""
    if wake.is_urgent:
        return wake
    delay = delay_of(limits, max(wake.at, now))
    return wake if delay is None else replace(wake, at=delay.until, delay=delay)


def _earliest(wakes: Collection[Wake], now: datetime) -> Wake | None:
    """Return the earliest wake.

    If several are due at once, for example after a pause, the notification activated last gives the reason,
    unless the earliest is a run request.
    """
    wake = min(wakes, key=lambda proposed: proposed.at, default=None)
    if wake is None or wake.at > now or wake.cause is WakeCause.RUN_REQUEST:
        return wake
    due = (proposed for proposed in wakes if proposed.at <= now and proposed.cause in BY_ACTIVATION)
    latest = next(due, wake)
    return wake if latest.reason == wake.reason else replace(wake, reason=latest.reason)


def _wakes_by_activation(
    facts: AgentFacts, hold: Hold | None, now: datetime, policy: Policy
) -> Iterator[Wake]:
    immediate = tuple(
        group for group in facts.pending if _is_new(group) and (hold is None or not _is_held(group, policy))
    )
    if immediate:
        first_at = min(group.first_at for group in immediate)
        # It is active now, even if the wall clock was set back to before its activation.
        is_urgent = any(group.urgent for group in immediate)
        at, reason = min(first_at, now), _reason_of_latest(facts)
        yield Wake(at, reason, WakeCause.NOTIFICATION, is_urgent=is_urgent)
    if hold is not None:
        is_urgent = any(
            group.urgent and _is_new(group) and _is_held(group, policy) for group in facts.pending
        )
        yield Wake(hold.due_at, _reason_of_latest(facts), WakeCause.HOLD, is_urgent=is_urgent)
    for group in facts.pending:
        if group.period is ActivationPeriod.AHEAD:
            yield Wake(group.first_at, WakeReason.REMINDER, WakeCause.REMINDER, is_urgent=group.urgent)


def _resting_phase(facts: AgentFacts, hold: Hold | None) -> Phase:
    if is_quarantined(facts):
        return Phase.QUARANTINED
    retry_at = pending_retry_at(facts)
    if hold is not None and (retry_at is None or hold.due_at <= retry_at):
        return Phase.HOLDING
    return Phase.ASLEEP if retry_at is None else Phase.BACKING_OFF


def _phase_without_hold(facts: AgentFacts, now: datetime) -> Phase:
    """Return the phase of an agent held by its budget or limits: a quarantine shows, a backoff does not."""
    retry_at = pending_retry_at(facts)
    is_ahead = retry_at is not None and retry_at > now
    return Phase.QUARANTINED if is_ahead and is_quarantined(facts) else Phase.ASLEEP


def _is_new(group: PendingGroup) -> bool:
    """Return whether the group is new: from after the last run, or from others during it."""
    if group.period is ActivationPeriod.DURING:
        return group.source is not Source.AGENT or group.reminder
    return group.period is ActivationPeriod.SINCE


def _wakeable(facts: AgentFacts) -> Iterator[PendingGroup]:
    """Return the active groups that may start the agent; those from before a stop once the stop is over."""
    excluded = {ActivationPeriod.AHEAD}
    if facts.state.stopped_at is not None:
        excluded.add(ActivationPeriod.STOPPED)
    return (group for group in facts.pending if group.period not in excluded)


def _is_held(group: PendingGroup, policy: Policy) -> bool:
    return group.source in policy.conversational_sources and not group.reminder


def _reason_of_latest(facts: AgentFacts) -> str:
    latest = max(_wakeable(facts), key=lambda group: group.last_at)
    return WakeReason.REMINDER if latest.reminder else f"notification:{latest.source}"


def reached_budget(budgets: Collection[Budget]) -> Budget | None:
    """Return the budget that is spent, of several the one with the lowest cap; None if money is left."""
    spent = (budget for budget in budgets if budget.is_reached)
    return min(spent, key=lambda budget: budget.cap_usd, default=None)


def renewed_at(now: datetime) -> datetime:
    """Return the UTC midnight at which the next day's budgets begin."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)


def refusing_cap(
    agent_cap_usd: Decimal | None,
    agent_rule: Unpriced | None,
    template: Template | None,
    organization: Organization,
) -> str:
    """Return whose cap refuses models without a known price: agent, template or organization; blank: none's.

    `agent_cap_usd` and `agent_rule` are the agent's own; where they are None, those of its template count.
    """
    rule = agent_rule or (template.unpriced if template else Unpriced.REFUSE)
    inherited_usd = template.max_cost_usd_per_day if template else None
    if rule is Unpriced.REFUSE and agent_cap_usd is not None:
        return "agent"
    if rule is Unpriced.REFUSE and inherited_usd is not None:
        return "template"
    is_capped = organization.max_cost_usd_per_day is not None
    return "organization" if is_capped and organization.unpriced is Unpriced.REFUSE else ""
