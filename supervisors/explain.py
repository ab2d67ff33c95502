"""Why an agent is where it is, and what wakes it next: state turned into sentences a person understands."""

from datetime import UTC, datetime

from storage.model import AgentState, Circumstances
from supervisors.rules import Because, Decision, Wake, WakeReason, active_count
from supervisors.states import Phase

WOKEN_EARLIER = "any high-priority notification wakes it earlier"

REASONS: dict[str, str] = {
    WakeReason.RUN_REQUESTED: "a run request",
    WakeReason.REMINDER: "a reminder",
    WakeReason.SLEEP_ELAPSED: "the end of its sleep",
    WakeReason.RESTART_RECOVERY: "the recovery after a restart",
    WakeReason.RETRY_AFTER_FAILURE: "a retry after a failure",
    WakeReason.UNCLEARED_NOTIFICATIONS: "notifications that an earlier run left uncleared",
}


def phase_of(circumstances: Circumstances, decision: Decision, now: datetime) -> Phase:
    """The phase to show: a start that is due and waits is queued, wherever the agent rested before."""
    if circumstances.state.queued_at is not None and decision.due_wake(now) is not None:
        return Phase.QUEUED
    return decision.phase


def since(circumstances: Circumstances, decision: Decision, phase: Phase) -> datetime:
    """Since when the agent has been in this phase."""
    state = circumstances.state
    match phase:
        case Phase.RUNNING:
            moment = state.last_started_at
        case Phase.STOPPING if state.stopped_at is None:
            moment = state.last_started_at
        case Phase.STOPPING | Phase.ARCHIVED:
            moment = state.stopped_at
        case Phase.QUEUED:
            moment = state.queued_at
        case Phase.HOLDING:
            moment = decision.hold.first_at if decision.hold else None
        case _:
            moment = max(filter(None, (state.last_ended_at, state.stopped_at)), default=None)
    return moment or circumstances.created_at


def why(circumstances: Circumstances, decision: Decision, phase: Phase, slots: int) -> str:
    """One sentence, or two, on why the agent is in this phase; `slots` is how many runs there may be."""
    state = circumstances.state
    match phase:
        case Phase.RUNNING:
            return f"Running since {when(state.last_started_at)}, woken by {_reason(state.last_wake_reason)}."
        case Phase.STOPPING:
            return _why_stopping(state)
        case Phase.ARCHIVED:
            return f"Archived since {when(state.stopped_at)}; nothing wakes it until it is restored."
        case Phase.PAUSED:
            return "Its organization is paused; nothing starts until that ends."
        case Phase.QUEUED:
            return f"Waiting for a run slot since {when(state.queued_at)}; all {slots} were taken."
        case Phase.HOLDING:
            return _why_holding(decision)
        case Phase.BACKING_OFF:
            return _why_backing_off(circumstances)
        case Phase.QUARANTINED:
            return (
                f"Quarantined until {when(state.retry_at)}: {state.failures} runs in a row failed, "
                f"the last one with: {state.last_error}"
            )
        case Phase.ASLEEP:
            return _why_asleep(state)


def because(wake: Wake, state: AgentState) -> str:
    """Why the agent wakes next."""
    match wake.because:
        case Because.RUN_REQUEST:
            return "A run was requested."
        case Because.NOTIFICATION:
            return f"It is woken by {_reason(wake.reason)}."
        case Because.HOLD:
            return "The debounce window over its messages ends."
        case Because.REMINDER:
            return "A reminder falls due."
        case Because.SLEEP_UNTIL:
            return "The sleep it was given ends."
        case Because.RETRY if state.failures:
            return "It is tried again after a failure."
        case Because.RETRY:
            return "Something its last run left uncleared is tried again."


def when(moment: datetime | None) -> str:
    """A moment as people write it, in UTC; seconds only where there are any."""
    if moment is None:
        return "an unknown time"
    moment = moment.astimezone(UTC)
    has_seconds = moment.second or moment.microsecond
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if has_seconds else f"{moment:%Y-%m-%d %H:%M} UTC"


def _why_stopping(state: AgentState) -> str:
    if state.stopped_at is None:
        return "Its organization is paused; its run was asked to stop and has not ended yet."
    return f"Its run was asked to stop at {when(state.stopped_at)} and has not ended yet."


def _why_asleep(state: AgentState) -> str:
    stop = (
        f"Stopped at {when(state.stopped_at)}: what waited then starts nothing. " if state.stopped_at else ""
    )
    if state.sleep_until is None:
        return f"{stop}Asleep until a high-priority notification, a reminder or a run request wakes it."
    if state.sleep_until == state.max_sleep_until:
        return f"{stop}Asleep until {when(state.sleep_until)}, the longest it may sleep; {WOKEN_EARLIER}."
    return f"{stop}Asleep until {when(state.sleep_until)}, as was asked; {WOKEN_EARLIER}."


def _why_holding(decision: Decision) -> str:
    hold = decision.hold
    if hold is None:
        return "Holding a wake."
    return (
        f"Holding since {when(hold.first_at)} for the conversation to pause: it wakes "
        f"{hold.window_seconds} s after the last message, at {when(hold.due_at)} if no other comes."
    )


def _why_backing_off(circumstances: Circumstances) -> str:
    state = circumstances.state
    if state.retry_reason == WakeReason.UNCLEARED_NOTIFICATIONS:
        return (
            f"Backing off until {when(state.retry_at)}: its last run left high-priority notifications "
            f"uncleared ({active_count(circumstances)} are)."
        )
    if state.last_error:
        return f"Backing off until {when(state.retry_at)}: its last run did not end well: {state.last_error}"
    return f"About to start at {when(state.retry_at)}."


def _reason(wake_reason: str) -> str:
    if wake_reason.startswith("notification:"):
        return f"a high-priority notification from {wake_reason.removeprefix('notification:')}"
    return REASONS.get(wake_reason, wake_reason)
