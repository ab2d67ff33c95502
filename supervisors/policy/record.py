"""The record: what the event log says of an agent after an update, and the events that the update writes.

The pause of an agent is a phase of it. The log ignores pauses of organizations, which have events of their
own. `supervisors.timeline` lays them over the phases.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

import orjson

from storage.agent_facts import AgentFacts, AgentState, RunEnd, RunStart
from storage.events.catalogue import EventType
from storage.events.model import BY_SERVICE, NewEvent
from storage.model import AgentStatus
from supervisors.policy import explanations
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES, Decision, Policy, WakeCause, decide
from supervisors.policy.phases import OVER_BUDGET, Phase
from supervisors.text import excerpt, format_timestamp

MAX_TEXT = 200  # characters of a reason or an error, which users and models write

TYPE_BY_PHASE: dict[str, EventType] = {
    Phase.ASLEEP: EventType.AGENT_ASLEEP,
    Phase.HOLDING: EventType.AGENT_HOLDING,
    Phase.QUEUED: EventType.AGENT_QUEUED,
    Phase.BACKING_OFF: EventType.AGENT_BACKING_OFF,
    Phase.QUARANTINED: EventType.AGENT_QUARANTINED,
    Phase.STOPPING: EventType.AGENT_STOPPING,
    OVER_BUDGET: EventType.AGENT_OVER_BUDGET,
    Phase.PAUSED: EventType.AGENT_PAUSED,
}


@dataclass(frozen=True, slots=True)
class Step:
    """The circumstances of an update: its time, the run that it starts or ends, and who asked for it.

    `run_is_stopping`: the active run was asked to stop, even if the state does not say so.
    """

    now: datetime
    limits: explanations.StartLimits
    start: RunStart | None = None
    end: RunEnd | None = None
    actor: str = BY_SERVICE
    run_is_stopping: bool = False


def record(
    before: AgentState,
    after: AgentState,
    facts: AgentFacts,
    decision: Decision,
    policy: Policy,
    step: Step,
) -> tuple[AgentState, tuple[NewEvent, ...]]:
    """Return the state `after` as the log describes it, and the events of the step that leads to it.

    `decision` is what the rules say of `facts`, the facts after the step. A step that changes neither the
    phase, nor the sentence that explains it, nor the moment of the next wake, writes no event, unless it
    starts, ends, stops or pauses something, or ends a pause. Nor does a message that only postpones the end
    of a hold.
    """
    if facts.organization_paused:
        facts = replace(facts, organization_paused=False)
        decision = decide(facts, step.now, policy)
    ended = () if step.end is None else (_end_of_run(facts, step.end, step.actor),)
    phase = explanations.phase_of(facts, decision, step.now, run_is_stopping=step.run_is_stopping)
    name = explanations.recorded_name(decision, phase)
    is_told = _is_stop_without_run(before, after) or after.paused != before.paused
    if name == before.phase and not is_told and _is_about_to_start(decision, phase, step.now):
        return after, ended  # the start that follows at once has an event
    since = step.now
    if name == before.phase:
        since = before.phase_since or explanations.stored_since(facts, decision, phase)
    why = explanations.why(facts, decision, phase, step.now, since=since, limits=step.limits)
    wake = explanations.next_wake(decision) if after.queued_at is None else None
    next_at = format_timestamp(wake.at) if wake else ""
    digest = digest_of(why, "" if _moves_with_messages(decision, phase) else next_at)
    if name == before.phase and digest == (before.why_digest or INITIAL_DIGEST) and not is_told:
        return after, ended
    event = _state_event(before, after, name, why, next_at, step)
    return replace(after, phase=name, phase_since=since, why_digest=digest), (*ended, event)


def record_crash(
    before: AgentState, after: AgentState, step: Step
) -> tuple[AgentState, tuple[NewEvent, ...]]:
    """Do the same for a crash of the supervisor, without the rules, which may be what has crashed."""
    if after.paused:
        return after, ()  # it is paused as before; the failure counts when the pause ends
    if after.failures >= QUARANTINE_AFTER_FAILURES:
        name, why = Phase.QUARANTINED, explanations.why_quarantined(after)
    else:
        name, why = Phase.BACKING_OFF, explanations.why_retrying(after)
    if after.next_due_at != after.retry_at:
        why += explanations.but_earlier(after.next_due_at)
    next_at = format_timestamp(after.next_due_at) or ""
    event = _state_event(before, after, name, why, next_at, step)
    since = before.phase_since if name == before.phase else step.now
    return replace(after, phase=name, phase_since=since, why_digest=digest_of(why, next_at)), (event,)


def digest_of(why: str, next_at: str) -> int:
    """Return a number of 64 bits that tells sentences, and moments decided for next, apart."""
    return int.from_bytes(blake2b(f"{why}{next_at}".encode(), digest_size=8).digest(), signed=True)


INITIAL_DIGEST = digest_of(explanations.WHY_ASLEEP, "")  # of an agent that the log has said nothing about


def _moves_with_messages(decision: Decision, phase: Phase) -> bool:
    """Return whether the next wake is the end of a hold, which each further message postpones."""
    is_by_hold = decision.wake is not None and decision.wake.cause is WakeCause.HOLD
    return phase is Phase.HOLDING and is_by_hold


def _is_about_to_start(decision: Decision, phase: Phase, now: datetime) -> bool:
    return phase is not Phase.QUEUED and decision.due_wake(now) is not None


def _is_stop_without_run(before: AgentState, after: AgentState) -> bool:
    is_stop = after.stopped_at is not None and after.stopped_at != before.stopped_at
    return is_stop and before.run_id is None and after.status is not AgentStatus.ARCHIVED


def _type_of_event(before: AgentState, after: AgentState, name: str, step: Step) -> EventType:
    if step.start is not None:
        return EventType.RUN_STARTED
    was_archived = before.status is AgentStatus.ARCHIVED
    if was_archived != (after.status is AgentStatus.ARCHIVED):
        return EventType.AGENT_RESTORED if was_archived else EventType.AGENT_ARCHIVED
    if _is_stop_without_run(before, after):
        return EventType.AGENT_STOPPED
    if before.paused and not after.paused:
        return EventType.AGENT_UNPAUSED
    if name == before.phase:
        is_newly_paused = after.paused and not before.paused
        return EventType.AGENT_PAUSED if is_newly_paused else EventType.AGENT_RESCHEDULED
    return TYPE_BY_PHASE.get(name, EventType.AGENT_RESCHEDULED)


def _state_event(
    before: AgentState, after: AgentState, name: str, why: str, next_at: str, step: Step
) -> NewEvent:
    data: dict[str, Any] = {"from": before.phase, "to": name, "why": why}
    if next_at:
        data["next_at"] = next_at
    if step.start is not None:
        data["reason"] = step.start.wake_reason
    if step.end is not None:
        data["outcome"] = step.end.outcome
    elif after.stop_reason and after.stopped_at != before.stopped_at:
        data["stop_reason"] = excerpt(after.stop_reason, MAX_TEXT)
    return NewEvent(
        _type_of_event(before, after, name, step),
        step.now,
        after.agent_id,
        run_id=step.end.run_id if step.end is not None else after.run_id,
        actor=step.actor,
        phase=name,
        data=orjson.dumps(data).decode(),
    )


def _end_of_run(facts: AgentFacts, end: RunEnd, actor: str) -> NewEvent:
    data: dict[str, Any] = {"outcome": end.outcome, "turns": end.turns, "reason": facts.wake_reason}
    if end.error:
        data["error"] = excerpt(end.error, MAX_TEXT)
    return NewEvent(
        EventType.RUN_ENDED,
        end.ended_at,
        facts.state.agent_id,
        run_id=end.run_id,
        actor=actor,
        data=orjson.dumps(data).decode(),
    )
