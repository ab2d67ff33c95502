"""State transitions: one pure function for each event, which returns the state after it."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState
from storage.model import AgentStatus, Outcome
from supervisors.policy.decisions import (
    QUARANTINE_AFTER_FAILURES,
    Decision,
    WakeCause,
    WakeReason,
    active_count,
    left_over_count,
    pending_retry_at,
)

MAX_BACKOFF_SECONDS = 300
QUARANTINE_SECONDS = 15 * 60
MAX_QUARANTINE_SECONDS = 6 * 60 * 60
MAX_ERROR_LENGTH = 500

FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.INTERRUPTED})
# These count like failures if the run cleared nothing of what woke it and left something uncleared.
WITHOUT_ERROR = frozenset({Outcome.ENDED, Outcome.TURN_LIMIT})


def cap_after(moment: datetime, max_sleep_hours: int | None) -> datetime | None:
    """Return the latest moment an agent may sleep to; None without a limit or beyond the year 9999."""
    if max_sleep_hours is None:
        return None
    try:
        return moment + timedelta(hours=max_sleep_hours)
    except OverflowError:
        return None


def clamp(until: datetime | None, cap: datetime | None) -> datetime | None:
    """Return `until`, but at most the cap. None means "without end", which is beyond any cap."""
    if until is None or cap is None:
        return cap if until is None else until
    return min(until, cap)


def facts_after(facts: AgentFacts, after: AgentState) -> AgentFacts:
    """Return the facts of the agent in the state `after`: a stop silences what is active."""
    if after is facts.state:
        return facts
    is_stopped = after.stopped_at is not None and after.stopped_at != facts.state.stopped_at
    if not (is_stopped and facts.pending):
        return replace(facts, state=after)
    pending = tuple(
        group if group.period is ActivationPeriod.AHEAD else replace(group, period=ActivationPeriod.STOPPED)
        for group in facts.pending
    )
    return replace(facts, state=after, pending=pending)


def with_next_due(facts: AgentFacts, decision: Decision, now: datetime) -> AgentState:
    """Return the state in `facts` with its `next_due_at`, and without a retry that is no longer needed.

    `decision` is what the rules say of these facts. Every update but a start and a crash of the supervisor
    passes through here, so that the next wake is stored with it.
    """
    state, wake, next_due_at = facts.state, decision.wake, decision.next_at
    if state.queued_at is not None:
        next_due_at = None
    elif wake and wake.cause is WakeCause.HOLD and state.next_due_at and now < state.next_due_at < wake.at:
        # A message that extends a hold leaves the former, earlier moment: then the hold is computed again.
        next_due_at = state.next_due_at
    if pending_retry_at(facts) is not None:
        return replace(state, next_due_at=next_due_at)
    if (state.retry_at, state.retry_reason, state.next_due_at) == (None, "", next_due_at):
        return state
    return replace(state, retry_at=None, retry_reason="", next_due_at=next_due_at)


def queued(state: AgentState, now: datetime) -> AgentState:
    """Record that a start is due but waits for a run slot."""
    return replace(state, queued_at=state.queued_at or now)


def started(facts: AgentFacts, run_id: UUID, reason: str, now: datetime) -> AgentState:
    """Begin a run: clear the stop, the retry and the schedule, and fix the cap of the next sleep.

    If some of the notifications that the last run left were cleared since, the backoff starts over, and
    runs that only left them uncleared no longer count as failures.
    """
    state = facts.state
    was_partly_cleared = left_over_count(facts) < state.left_over
    is_asleep = state.sleep_until is not None and state.sleep_until > now
    has_failed = state.retry_reason in {WakeReason.RETRY_AFTER_FAILURE, WakeReason.RESTART_RECOVERY}
    return replace(
        state,
        status=AgentStatus.RUNNING,
        run_id=run_id,
        run_started_at=now,
        last_wake_reason=reason,
        last_wake_interrupted_sleep_until=state.sleep_until if is_asleep else None,
        sleep_until=None,
        max_sleep_until=cap_after(now, facts.max_sleep_hours),
        last_started_at=now,
        stopped_at=None,
        stop_reason="",
        run_requested_at=None,
        queued_at=None,
        failures=0 if was_partly_cleared and not has_failed else state.failures,
        retries=0 if was_partly_cleared else state.retries,
        retry_at=None,
        retry_reason="",
        next_due_at=None,
        seen_until=_latest_ahead_of_the_clock(facts, now),
    )


def slept(facts: AgentFacts, until: datetime | None, now: datetime) -> AgentState:
    """End a run by a granted sleep: failures, backoff and the last error are reset."""
    state = facts.state
    return replace(
        _without_run(state, now),
        sleep_until=clamp(until, state.max_sleep_until),
        failures=0,
        retries=0,
        left_over=0,
        last_error="",
    )


def ended(
    facts: AgentFacts, outcome: Outcome, error: str, now: datetime, *, counts: bool, jitter: float
) -> AgentState:
    """End a run without a granted sleep.

    `counts`: whether it counts as a failure (an interruption by a drain does not, nor does a spent budget).
    `jitter`: seconds added to the backoff after a failure, so that many agents do not retry at once.
    """
    state = facts.state
    if state.stopped_at is not None or state.status is AgentStatus.ARCHIVED:
        return replace(_without_run(state, now), failures=0, retries=0, left_over=0)
    made_progress = _count_before_start(facts) < facts.pending_at_start
    after = replace(
        _without_run(state, now),
        sleep_until=_sleep_after(facts, now),
        retries=0 if made_progress else state.retries,
        left_over=left_over_count(facts),
    )
    if outcome in FAILURES and not counts:
        return replace(after, retry_at=now, retry_reason=WakeReason.RESTART_RECOVERY)
    if outcome in FAILURES or (outcome is Outcome.BUDGET and counts):
        return failed(after, outcome, error, now, jitter)
    after = replace(after, failures=0, last_error="")
    was_restored = after.retry_at is not None  # during the run: an active notification wakes it at once
    if after.left_over == 0 or was_restored:
        return replace(after, retries=0)
    counts_as_failure = outcome in WITHOUT_ERROR and not made_progress
    return _left_uncleared(after, outcome, state.failures + 1 if counts_as_failure else 0, now)


def _left_uncleared(after: AgentState, outcome: Outcome, failures: int, now: datetime) -> AgentState:
    """Try again to clear what the run has left: back off, or quarantine from the fifth failure on."""
    retries = after.retries + 1
    noun = "notification" if after.left_over == 1 else "notifications"
    by_limit = outcome is Outcome.TURN_LIMIT
    ending = "was ended by its turn limit, and left" if by_limit else "ended without an error, but left"
    return replace(
        after,
        failures=failures,
        retries=retries,
        retry_at=now + _retry_delay(failures, retries),
        retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS,
        last_error=f"its run {ending} {after.left_over} high-priority {noun} uncleared" if failures else "",
    )


def failed(state: AgentState, outcome: Outcome, error: str, now: datetime, jitter: float) -> AgentState:
    """Count a failure of a run or of the supervisor: back off, or quarantine from the fifth in a row on."""
    failures, retries = state.failures + 1, state.retries + 1
    was_interrupted = outcome is Outcome.INTERRUPTED
    return replace(
        state,
        failures=failures,
        retries=retries,
        retry_at=now + _retry_delay(failures, retries) + timedelta(seconds=jitter),
        retry_reason=WakeReason.RESTART_RECOVERY if was_interrupted else WakeReason.RETRY_AFTER_FAILURE,
        last_error=error[:MAX_ERROR_LENGTH],
    )


def crashed(state: AgentState, error: str, now: datetime) -> AgentState:
    """Count a crash of the supervisor of a sleeping agent. What was due before the retry remains due."""
    after = failed(replace(state, queued_at=None), Outcome.FAILED, error, now, jitter=0)
    due_at, retry_at = state.next_due_at, after.retry_at
    is_due_first = due_at is not None and retry_at is not None and now < due_at < retry_at
    return replace(after, next_due_at=due_at if is_due_first else retry_at)


def is_newly_quarantined(before: AgentState, after: AgentState) -> bool:
    """Return whether the quarantine begins with this change."""
    return before.failures < QUARANTINE_AFTER_FAILURES <= after.failures


def _retry_delay(failures: int, retries: int) -> timedelta:
    return quarantine(failures) if failures >= QUARANTINE_AFTER_FAILURES else backoff(retries)


def backoff(retries: int) -> timedelta:
    """Return the delay before this retry: 1 s for the first, doubling to 300 s."""
    return timedelta(seconds=min(2 ** min(retries - 1, 16), MAX_BACKOFF_SECONDS))


def quarantine(failures: int) -> timedelta:
    """Return the length of a quarantine: 15 minutes at the fifth failure in a row, doubling to 6 hours."""
    doublings = min(failures - QUARANTINE_AFTER_FAILURES, 16)
    return timedelta(seconds=min(QUARANTINE_SECONDS * 2**doublings, MAX_QUARANTINE_SECONDS))


def run_requested(state: AgentState, now: datetime) -> AgentState:
    """Keep a run request that cannot start a run at once."""
    return replace(state, run_requested_at=state.run_requested_at or now)


def stopped(facts: AgentFacts, now: datetime, reason: str = "") -> AgentState:
    """Stop the agent: what is active now no longer starts it, and its schedule is cleared.

    The failures are reset now, or at the end of the run if there is one, so people are told of the next
    quarantine as of a new one.
    """
    state = facts.state
    has_run = state.run_id is not None
    return replace(
        state,
        stopped_at=now,
        stop_reason=reason or (state.stop_reason if has_run else ""),
        seen_until=_latest_ahead_of_the_clock(facts, now) or state.seen_until,
        sleep_until=None,
        run_requested_at=None,
        queued_at=None,
        failures=state.failures if has_run else 0,
        retries=state.retries if has_run else 0,
        retry_at=None,
        retry_reason="",
    )


def paused(state: AgentState) -> AgentState:
    """Pause the agent: nothing starts it, and nothing is forgotten. A run is stopped afterwards."""
    return state if state.paused else replace(state, paused=True, queued_at=None)


def unpaused(state: AgentState) -> AgentState:
    """End the pause of the agent: whatever is due starts it."""
    return replace(state, paused=False) if state.paused else state


def archived(facts: AgentFacts, now: datetime) -> AgentState:
    """Archive the agent. Its status changes at once; a run is stopped afterwards."""
    return replace(stopped(facts, now), status=AgentStatus.ARCHIVED)


def restored(facts: AgentFacts, now: datetime) -> AgentState:
    """Restore an archived agent: the stop is cleared, and any active notification wakes it at once."""
    state = facts.state
    wakes = active_count(facts) > 0
    return replace(
        state,
        status=AgentStatus.SLEEPING if state.run_id is None else AgentStatus.RUNNING,
        stopped_at=None,
        stop_reason="",
        retry_at=now if wakes else None,
        retry_reason="",
    )


def rescheduled(facts: AgentFacts, until: datetime | None, now: datetime) -> AgentState:
    """Set the `sleep_until` that a client wrote, clamped to the last run's cap.

    Before the first run the cap counts from now, and is kept.
    """
    state = facts.state
    if state.last_started_at is None:
        cap = cap_after(now, facts.max_sleep_hours)
        return replace(state, sleep_until=clamp(until, cap), max_sleep_until=cap)
    return replace(state, sleep_until=clamp(until, state.max_sleep_until))


def _without_run(state: AgentState, now: datetime) -> AgentState:
    is_archived = state.status is AgentStatus.ARCHIVED
    return replace(
        state,
        status=AgentStatus.ARCHIVED if is_archived else AgentStatus.SLEEPING,
        run_id=None,
        run_started_at=None,
        last_ended_at=now,
    )


def _sleep_after(facts: AgentFacts, now: datetime) -> datetime | None:
    """Return when a run that did not ask for sleep sleeps to.

    It is the earliest of the sleep that the run interrupted, one written during the run, and the cap.
    """
    interrupted = facts.interrupted_sleep_until
    moments = (
        interrupted if interrupted and interrupted > now else None,
        facts.state.sleep_until,
        facts.state.max_sleep_until,
    )
    return min((moment for moment in moments if moment is not None), default=None)


def _latest_ahead_of_the_clock(facts: AgentFacts, now: datetime) -> datetime | None:
    """Return the last activation that lies in the future because the wall clock was set back."""
    active = (group.last_at for group in facts.pending if group.period is not ActivationPeriod.AHEAD)
    return max((moment for moment in active if moment > now), default=None)


def _count_before_start(facts: AgentFacts) -> int:
    return sum(group.count for group in facts.pending if group.period is ActivationPeriod.BEFORE)
