"""Explanations: sentences that say why an agent is in its phase, and what wakes it next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal

from storage.agent_facts import AgentFacts, AgentState, Budget
from storage.model import Notification, Priority
from storage.notifications.notifications import NewNotification
from supervisors.policy.decisions import (
    QUARANTINE_AFTER_FAILURES,
    Decision,
    Wake,
    WakeCause,
    WakeReason,
    left_over_count,
    renewed_at,
)
from supervisors.policy.phases import HELD_BY_LIMITS, Phase
from supervisors.policy.phases import OVER_BUDGET as OVER_BUDGET_PHASE
from supervisors.text import excerpt

QUARANTINED = "Quarantined after too many failures in a row"
OVER_BUDGET = "Over budget"
UNPRICED = "A model without a known price"
MAX_REASON_LENGTH = 200  # of a reason or an error that a sentence quotes
WHY_ASLEEP = "Asleep until a high-priority notification, a reminder or a run request wakes it."
WHY_PAUSED = "Its organization is paused; nothing starts until the pause ends."
WHY_AGENT_PAUSED = "It is paused; nothing starts until its field paused is set to false."
WHY_BOTH_PAUSED = "It is paused, and so is its organization; nothing starts until both pauses have ended."
WHY_STOPPING_FOR_AGENT_PAUSE = "It is paused; its run was asked to stop and has not ended yet."
WHY_STOPPING_FOR_PAUSE = "Its organization is paused; its run was asked to stop and has not ended yet."
ITS_RUN_STOPS = "Its run was asked to stop and has not ended yet."
WHY_STOPPING_BEFORE_NEXT = (
    "Its run was asked to stop and has not ended yet; anything that is due then starts the next run."
)
NO_STARTS = (
    "no run may start: the database does not confirm this node, it is shutting down, or no node starts runs"
)

REASONS: dict[str, str] = {
    WakeReason.RUN_REQUESTED: "a run request",
    WakeReason.REMINDER: "a reminder",
    WakeReason.SLEEP_ELAPSED: "the end of the sleep",
    WakeReason.RESTART_RECOVERY: "the recovery after a restart",
    WakeReason.RETRY_AFTER_FAILURE: "a retry after a failure",
    WakeReason.UNCLEARED_NOTIFICATIONS: "notifications that an earlier run left uncleared",
}


def phase_of(facts: AgentFacts, decision: Decision, now: datetime, *, run_is_stopping: bool = False) -> Phase:
    """Return the phase to show: an agent with a due start that waits for a run slot is queued.

    `run_is_stopping`: the run was asked to stop, but the state no longer says so.
    """
    if facts.state.queued_at is not None and decision.due_wake(now) is not None:
        return Phase.QUEUED
    if decision.phase is Phase.RUNNING and run_is_stopping:
        return Phase.STOPPING
    return decision.phase


def recorded_name(decision: Decision, phase: Phase) -> str:
    """Return the name that the event log has for a phase: one held by a budget is not merely asleep."""
    if phase is Phase.ASLEEP and decision.over_budget is not None:
        return OVER_BUDGET_PHASE
    return HELD_BY_LIMITS if phase is Phase.ASLEEP and decision.held_by is not None else phase


def since(
    facts: AgentFacts, decision: Decision, phase: Phase, pause_seen_at: datetime | None = None
) -> datetime | None:
    """Return when the agent entered this phase; None if it is not known.

    `pause_seen_at`: when its supervisor saw a pause begin or end. A pause of its organization is no change of
    the agent, so its moment is not stored with the agent.
    """
    if phase is Phase.PAUSED:
        moments = (stored_since(facts, decision, phase) if facts.state.paused else None, pause_seen_at)
        return min(filter(None, moments), default=None)
    began_at = stored_since(facts, decision, phase)
    return began_at if pause_seen_at is None else max(began_at, pause_seen_at)


def stored_since(facts: AgentFacts, decision: Decision, phase: Phase) -> datetime:
    """Return when the agent entered this phase, apart from pauses of its organization.

    This is the moment in the event log. An agent whose phase is not there yet may have been in it for less
    long.
    """
    state = facts.state
    if state.phase_since is not None and state.phase == recorded_name(decision, phase):
        return state.phase_since
    match phase:
        case Phase.RUNNING:
            moment = state.last_started_at
        case Phase.STOPPING | Phase.ARCHIVED:
            moment = state.stopped_at
        case Phase.QUEUED:
            moment = state.queued_at
        case _:
            # Held messages may have come earlier, during a run or a pause.
            held_since = decision.hold.first_at if phase is Phase.HOLDING and decision.hold else None
            moments = (held_since, state.last_ended_at, state.stopped_at)
            moment = max(filter(None, moments), default=None)
    return moment or facts.created_at


@dataclass(frozen=True, slots=True)
class StartLimits:
    """What a due start may have to wait for: run slots, and leave to start at all.

    `slots`: their number. `organization_slots`: that of the agent's organization, if it has all of them now.
    """

    slots: int
    organization_slots: int | None = None
    may_start: bool = True


def why(
    facts: AgentFacts,
    decision: Decision,
    phase: Phase,
    now: datetime,
    *,
    since: datetime | None,
    limits: StartLimits,
    waits: Sequence[tuple[str, float]] = (),
    node: str = "",
) -> str:
    """Explain in a sentence or two why the agent is in this phase, which began at `since`.

    `waits`: what its run waits for and since how many seconds, the longest wait first. `node`: the name of
    the node in which it runs, if it is to be said. Neither is in the sentence that the event log keeps.
    """
    state = facts.state
    match phase:
        case Phase.RUNNING:
            waiting = _waiting(waits) if waits else ""
            woken_by = describe_reason(facts.wake_reason)
            place = f" on node {node}" if node else ""
            return f"Running since {when(state.last_started_at)}{place}, woken by {woken_by}{waiting}."
        case Phase.STOPPING:
            return _why_stopping(facts)
        case Phase.ARCHIVED:
            return f"Archived since {when(state.stopped_at)}; nothing wakes it until it is restored."
        case Phase.PAUSED:
            return _why_paused(facts)
        case Phase.QUEUED:
            return f"Waiting for a run slot since {when(state.queued_at)}; {_why_no_start(limits)}."
        case Phase.HOLDING | Phase.BACKING_OFF | Phase.QUARANTINED | Phase.ASLEEP:
            due = decision.due_wake(now)
            if due is not None and not limits.may_start:
                return f"Due since {when(due.at)}, but {NO_STARTS}. {describe_cause(due)}"
            if due is not None:
                return f"About to start, due since {when(due.at)}. {describe_cause(due)}"
            return _why_waiting(facts, decision, now, since)


def why_quarantined(state: AgentState) -> str:
    """Explain a quarantine. The same sentence is a notification to the agent when the quarantine begins."""
    return (
        f"Quarantined until {when(state.retry_at)} after {state.failures} failures in a row, the last one: "
        f"{_as_sentence(state.last_error)} A run request starts it at once, "
        "a high-priority notification at most once a minute."
    )


def why_over_budget(budget: Budget, now: datetime) -> str:
    """Explain a spent budget, without the amount, which may still grow while the agent rests."""
    moment = "at all" if never_starts(budget) else f"before {when(renewed_at(now))}"
    cap = f"{dollars(budget.cap_usd)} USD a day"
    return f"Over {name_of(budget)} of {cap}; it starts no run {moment}, unless the cap is raised."


def name_of(budget: Budget) -> str:
    """Return whose budget it is, seen from the agent."""
    return "its organization's budget" if budget.of_organization else "its budget"


def dollars(amount: Decimal) -> str:
    """Write an amount in full, with at least two decimals: 5.00, 0.000001."""
    whole, _, decimals = f"{amount:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def why_unpriced(qualified_model: str) -> str:
    """Say that the spending of an agent with this model is not known."""
    return f"The price of its model {qualified_model} is not known, so its calls count as 0 USD."


def why_refused(error: str) -> str:
    """Explain why a budget has ended a run that had money left."""
    return (
        f"A run was ended: {error}. Set the price in the service's configuration, or let the cap allow such "
        "models with unpriced, or change the model."
    )


def why_silent(reminder: Notification | NewNotification, now: datetime, whom: str) -> str:
    """Say that a reminder will not wake the agent, because it is low; blank for any other notification."""
    is_ahead = reminder.scheduled_for is not None and reminder.scheduled_for > now
    if reminder.cleared or reminder.priority is not Priority.LOW or not is_ahead:
        return ""
    return f"It will not wake {whom}: its priority is low."


def next_wake(decision: Decision) -> Wake | None:
    """Return the wake to show: None for a budget of 0, whose wake at midnight would start nothing."""
    budget = decision.over_budget
    return decision.wake if budget is None or not never_starts(budget) else None


def never_starts(budget: Budget) -> bool:
    """Return whether the cap is 0, so that no day allows a run."""
    return budget.cap_usd == 0


def describe_cause(wake: Wake) -> str:
    """Explain what wakes the agent."""
    if wake.delay is not None:
        return f"Its limits allow it to wake again. {_cause_of(wake)}"
    return f"Its budget is renewed. {_cause_of(wake)}" if wake.is_postponed else _cause_of(wake)


def when(moment: datetime | None, zone: tzinfo = UTC) -> str:
    """Write a moment for people, in a time zone, with seconds only if they are not 0."""
    if moment is None:
        return "an unknown time"
    moment = moment.astimezone(zone)
    has_seconds = moment.second or moment.microsecond
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}" if has_seconds else f"{moment:%Y-%m-%d %H:%M %Z}"


def _cause_of(wake: Wake) -> str:
    match wake.cause:
        case WakeCause.RUN_REQUEST:
            return "A run was requested."
        case WakeCause.NOTIFICATION:
            return f"It is woken by {describe_reason(wake.reason)}."
        case WakeCause.HOLD:
            return "The debounce window over its messages ends."
        case WakeCause.REMINDER:
            return "A reminder falls due."
        case WakeCause.SLEEP_UNTIL:
            return "The sleep it was given ends."
        case WakeCause.RETRY if wake.reason == WakeReason.RETRY_AFTER_FAILURE:
            return "It tries again after a failure."
        case WakeCause.RETRY if wake.reason == WakeReason.RESTART_RECOVERY:
            return "It repeats the run that a restart of the service interrupted."
        case WakeCause.RETRY if wake.reason == WakeReason.UNCLEARED_NOTIFICATIONS:
            return "It tries again to clear the notifications that its last run left."
        case WakeCause.RETRY:
            return "It was restored while notifications were active."


def _why_no_start(limits: StartLimits) -> str:
    """Say what a due start waits for."""
    if not limits.may_start:
        return f"at present {NO_STARTS}"
    if limits.organization_slots is not None:
        return f"its organization has as many concurrent runs as it may have: {limits.organization_slots}"
    return f"all {limits.slots} were taken"


def _why_waiting(facts: AgentFacts, decision: Decision, now: datetime, since: datetime | None) -> str:
    if decision.over_budget is not None:
        return _why_held_by_budget(facts.state, decision, decision.over_budget, now)
    match decision.phase:
        case Phase.HOLDING:
            return _why_holding(decision, since)
        case Phase.BACKING_OFF:
            return _why_backing_off(facts) + _but_earlier(decision)
        case Phase.QUARANTINED:
            return why_quarantined(facts.state) + _but_earlier(decision)
        case _ if decision.held_by is not None:
            held = f"{decision.held_by.because} {when(decision.held_by.until)}"
            passes = "a run request or an urgent notification wakes it at once"
            return f"{_stop(facts.state)}{held}; {passes}."
        case _:
            return _why_asleep(facts.state, decision.wake)


def _why_held_by_budget(state: AgentState, decision: Decision, budget: Budget, now: datetime) -> str:
    quarantine = ""
    if decision.phase is Phase.QUARANTINED:
        quarantine = f"Quarantined until {when(state.retry_at)} after {state.failures} failures in a row. "
    wake = next_wake(decision)
    next_start = ""
    if wake is not None and not wake.is_postponed:
        next_start = f" It wakes at {when(wake.at)}. {describe_cause(wake)}"
    return f"{_stop(state)}{quarantine}{why_over_budget(budget, now)}{next_start}"


def _waiting(waits: Sequence[tuple[str, float]]) -> str:
    """Say what a run waits for; blank for a wait of less than a second, which is over when it is read."""
    subject, seconds = waits[0]
    if seconds < 1:
        return ""
    others = f" and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"; waiting {int(seconds)} s for {subject}{others}"


def why_instance_paused(since: datetime | None, because: str) -> str:
    """Say that the whole instance is paused, since when if that is known, why, and who ends it."""
    begin = f" since {when(since)}" if since else ""
    return (
        f"The whole instance is paused{begin}: {because}. "
        "Nothing starts until an operator runs hostsvc unpause --all."
    )


def _why_paused(facts: AgentFacts) -> str:
    if facts.instance_paused_at:
        return why_instance_paused(facts.instance_paused_at, facts.instance_paused_because)
    if not facts.state.paused:
        return WHY_PAUSED
    return WHY_BOTH_PAUSED if facts.organization_paused else WHY_AGENT_PAUSED


def _why_stopping(facts: AgentFacts) -> str:
    stopped_at = facts.state.stopped_at
    if stopped_at is not None:
        asked = f"Its run was asked to stop at {when(stopped_at)}{_for_reason(facts.state)}"
        return f"{asked} and has not ended yet."
    if facts.state.paused:
        return WHY_STOPPING_FOR_AGENT_PAUSE
    if facts.instance_paused_at:
        paused = why_instance_paused(facts.instance_paused_at, facts.instance_paused_because)
        return f"{paused} {ITS_RUN_STOPS}"
    if facts.organization_paused:
        return WHY_STOPPING_FOR_PAUSE
    return WHY_STOPPING_BEFORE_NEXT


def _but_earlier(decision: Decision) -> str:
    """Name the wake that comes before the retry, if there is one, and what delays it."""
    wake = decision.wake
    if wake is not None and wake.delay is not None:
        return f" Its limits allow it to wake at {when(wake.at)}."
    return "" if wake is None or wake.cause is WakeCause.RETRY else but_earlier(wake.at)


def but_earlier(at: datetime | None) -> str:
    """Say that the agent wakes before what was said."""
    return f" Something else wakes it before that, at {when(at)}."


def _why_asleep(state: AgentState, wake: Wake | None) -> str:
    stop = _stop(state)
    if state.sleep_until is None:
        return f"{stop}{WHY_ASLEEP}"
    if wake is not None and wake.delay is not None:
        earlier = f"its limits allow it to wake at {when(wake.at)}"
        return f"{stop}Asleep until {when(state.sleep_until)}; {earlier}."
    if wake is not None and wake.at > state.sleep_until:
        return f"{stop}About to start at {when(wake.at)}: its sleep ends before it may start again."
    length = "the longest it may sleep" if state.sleep_until == state.max_sleep_until else "as requested"
    earlier = "any high-priority notification wakes it earlier"
    if wake is not None and wake.at < state.sleep_until:
        earlier = f"something else wakes it before that, at {when(wake.at)}"
    return f"{stop}Asleep until {when(state.sleep_until)}, {length}; {earlier}."


def _stop(state: AgentState) -> str:
    stopped_at = state.stopped_at
    if stopped_at is None:
        return ""
    stop = f"Stopped at {when(stopped_at)}{_for_reason(state)}"
    return f"{stop}: notifications from before that do not start it. "


def _for_reason(state: AgentState) -> str:
    return f' for the reason "{excerpt(state.stop_reason, MAX_REASON_LENGTH)}"' if state.stop_reason else ""


def _why_holding(decision: Decision, since: datetime | None) -> str:
    hold, wake = decision.hold, decision.wake
    if hold is None or wake is None:
        return "Holding a wake."
    holding = f"Holding since {when(since)} for the conversation to pause"
    if wake.cause is not WakeCause.HOLD:
        return f"{holding}; something else wakes it before that, at {when(wake.at)}."
    if hold.is_capped:
        return f"{holding}: it wakes at {when(hold.due_at)}, however long the conversation goes on."
    # Not when: each message would change the sentence, and the event log records each change of it.
    return (
        f"{holding}: it wakes {hold.window_seconds} s after the last message, "
        f"at {when(hold.latest_at)} at the latest."
    )


def _why_backing_off(facts: AgentFacts) -> str:
    state = facts.state
    if state.retry_reason == WakeReason.UNCLEARED_NOTIFICATIONS:
        count = left_over_count(facts)
        noun = "notification" if count == 1 else "notifications"
        return (
            f"Backing off until {when(state.retry_at)}: "
            f"its last run left {count} high-priority {noun} uncleared.{_failures_so_far(state)}"
        )
    return why_retrying(state) if state.failures else f"About to start at {when(state.retry_at)}."


def why_retrying(state: AgentState) -> str:
    """Explain a backoff after failures."""
    failures = "a failure" if state.failures == 1 else f"{state.failures} failures in a row, the last one"
    return f"Backing off until {when(state.retry_at)} after {failures}: {_as_sentence(state.last_error)}"


def _failures_so_far(state: AgentState) -> str:
    """Warn of the quarantine to come if the run, without an error, counts as a failure."""
    if not state.failures:
        return ""
    return (
        f" It cleared none of them, which counts as failure {state.failures} in a row; "
        f"{QUARANTINE_AFTER_FAILURES} quarantine it."
    )


def _as_sentence(error: str) -> str:
    error = excerpt(error, MAX_REASON_LENGTH)
    return error if error.endswith((".", "!", "?", "…")) else f"{error}."


def describe_reason(wake_reason: str) -> str:
    """Return a phrase that says why a run started, such as "a reminder"."""
    if wake_reason.startswith("notification:"):
        return f"a high-priority notification from {wake_reason.removeprefix('notification:')}"
    return REASONS.get(wake_reason, wake_reason)
