"""The effects of what clients ask of an agent. Pure: a supervisor stores them, a preview only shows them."""

from dataclasses import replace
from datetime import datetime

from storage.agent_facts import NO_LIMITS, AgentFacts, AgentState
from storage.model import AgentStatus
from supervisors.engine.messages import UNSET, OwnedFieldsRequest, RunAnswer, Unset
from supervisors.errors import AgentArchived
from supervisors.policy import transitions
from supervisors.policy.decisions import Policy, decide, reached_budget
from supervisors.policy.phases import Phase

ABOUT_TO_START = frozenset({Phase.HOLDING, Phase.BACKING_OFF, Phase.QUARANTINED})


def answer_without_run(
    facts: AgentFacts, now: datetime, *, wakeup: bool = True, run_is_stopping: bool
) -> RunAnswer | None:
    """Return the answer to a run request that has no effect, now or later; None if it has one.

    `run_is_stopping`: the run was asked to stop, even if the state no longer says so. Raise AgentArchived.
    """
    state = facts.state
    if state.status is AgentStatus.ARCHIVED:
        raise AgentArchived("The agent is archived.")
    if facts.is_paused:
        return RunAnswer.PAUSED
    if state.run_id is not None and state.stopped_at is None and not run_is_stopping:
        return RunAnswer.ALREADY_RUNNING
    if not wakeup and state.sleep_until is not None and state.sleep_until > now:
        return RunAnswer.SLEEPING
    return RunAnswer.OVER_BUDGET if reached_budget(facts.budgets) is not None else None


def is_about_to_start(facts: AgentFacts, now: datetime, policy: Policy) -> bool:
    """Return whether a start is ahead that a stop would cancel, even if a pause or a limit delays it."""
    if facts.state.queued_at is not None or facts.state.run_requested_at is not None:
        return True
    decision = decide(replace(facts.without_pause(), budgets=(), limits=NO_LIMITS), now, policy)
    return decision.due_wake(now) is not None or decision.phase in ABOUT_TO_START


def after_status(
    facts: AgentFacts, status: AgentStatus, now: datetime, *, run_is_stopping: bool
) -> AgentState | None:
    """Return the state after a client wrote the status; None if that changes nothing.

    A run that the state no longer wants is stopped afterwards. Raise AgentArchived.
    """
    state = facts.state
    is_archived = state.status is AgentStatus.ARCHIVED
    match status:
        case AgentStatus.RUNNING:
            answer = answer_without_run(facts, now, run_is_stopping=run_is_stopping)
            return transitions.run_requested(state, now) if answer is None else None
        case AgentStatus.ARCHIVED if not is_archived:
            return transitions.archived(facts, now)
        case AgentStatus.SLEEPING if is_archived:
            return transitions.restored(facts, now)
        case AgentStatus.SLEEPING if state.run_id is not None:
            return transitions.stopped(facts, now)
    return None


def after_fields(
    facts: AgentFacts, now: datetime, *, paused: bool | Unset, sleep_until: datetime | Unset | None
) -> AgentState:
    """Return the state after a client wrote `paused` and `sleep_until`. Raise AgentArchived."""
    after = facts.state
    if paused is not Unset.UNSET:
        after = transitions.paused(after) if paused else transitions.unpaused(after)
    if sleep_until is not Unset.UNSET:
        if after.status is AgentStatus.ARCHIVED:
            raise AgentArchived("The agent is archived.")
        after = transitions.rescheduled(replace(facts, state=after), sleep_until, now)
    return after


def after_owned_fields(
    facts: AgentFacts, owned: OwnedFieldsRequest, now: datetime, *, run_is_stopping: bool
) -> AgentFacts:
    """Return the facts after a client wrote fields that the supervisor owns, in the same order as it does.

    Raise AgentArchived.
    """
    if owned.status is not Unset.UNSET:
        paused = after_fields(facts, now, paused=owned.paused, sleep_until=UNSET)
        facts = replace(facts, state=paused)
        after = after_status(facts, owned.status, now, run_is_stopping=run_is_stopping)
        facts = transitions.facts_after(facts, after or facts.state)
    after = after_fields(facts, now, paused=owned.paused, sleep_until=owned.sleep_until)
    return transitions.facts_after(facts, after)
