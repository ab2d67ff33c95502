"""Updates of an agent's state: how they are planned, and the lines of the log about those that are stored.

A plan is pure: the next moment to act, the events, and a notice. The events say what `why` said when the
update was made. The pause of an agent is a phase of it. The event log ignores pauses of organizations, which
have events of their own. `supervisors.timeline` lays them over the phases.

An update comes to `report_update` after it is stored, and a run to `report_run` when it is over. Nothing else
logs them, so that nothing is told twice, and nothing that was not stored.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

import orjson
import structlog

from storage.agent_facts import AgentFacts, AgentState, Budget, RunEnd, RunStart, StateUpdate, SystemNotice
from storage.events.model import BY_SERVICE, EventType, NewEvent
from storage.ids import derive_id, new_id
from storage.model import AgentStatus, Outcome, Receipt
from storage.postgres.asker import ASKER
from storage.postgres.json_values import to_json
from supervisors.engine.run import ActiveRun
from supervisors.policy import explanations, transitions
from supervisors.policy.attendance import View, attended, may_take_over
from supervisors.policy.decisions import (
    QUARANTINE_AFTER_FAILURES,
    Decision,
    Policy,
    WakeCause,
    decide,
    reached_budget,
)
from supervisors.policy.explanations import dollars
from supervisors.policy.phases import HELD_BY_LIMITS, OVER_BUDGET, Phase
from supervisors.policy.transitions import is_newly_quarantined
from supervisors.text import excerpt, format_timestamp

log = structlog.get_logger()

MAX_TEXT = 200  # characters of a reason or an error, which users and models write

TYPE_BY_PHASE: dict[str, EventType] = {
    Phase.ASLEEP: EventType.AGENT_ASLEEP,
    Phase.HOLDING: EventType.AGENT_HOLDING,
    Phase.QUEUED: EventType.AGENT_QUEUED,
    Phase.BACKING_OFF: EventType.AGENT_BACKING_OFF,
    Phase.QUARANTINED: EventType.AGENT_QUARANTINED,
    Phase.STOPPING: EventType.AGENT_STOPPING,
    OVER_BUDGET: EventType.AGENT_OVER_BUDGET,
    HELD_BY_LIMITS: EventType.AGENT_HELD_BY_LIMITS,
    Phase.PAUSED: EventType.AGENT_PAUSED,
}

Transition = Callable[[AgentFacts], AgentState | None]


@dataclass(frozen=True, slots=True)
class Step:
    """The circumstances of an update: its time, what it starts or ends, who asked for it, and the receipt.

    `stopping_run`: the run of this process that was asked to stop, even if the state does not say so.
    `lingers`: something of the agent's last run goes on in this process, though it is over. `has_room`: a run
    slot is free here.
    """

    now: datetime
    limits: explanations.StartLimits
    view: View
    start: RunStart | None = None
    end: RunEnd | None = None
    actor: str = BY_SERVICE
    receipt: Receipt | None = None
    stopping_run: UUID | None = None
    lingers: bool = False
    has_room: bool = False


def plan_update(seen: AgentFacts, transition: Transition, policy: Policy, step: Step) -> StateUpdate | None:
    """Plan any update but a start and a crash of the supervisor; None if the transition gives no state."""
    after = transition(seen)
    if after is None:
        return None
    facts = transitions.facts_after(seen, after)
    decision = decide(facts, step.now, policy)
    armed = transitions.with_next_due(facts, decision, step.now)
    recorded, events = record(seen.state, armed, facts, decision, policy, step)
    takes_over = step.view.is_elsewhere(seen.state) and may_take_over(
        seen.state, step.now, has_room=step.has_room
    )
    notice = None
    if is_newly_quarantined(seen.state, after):
        notice = quarantine_notice(after, step.now)
    elif facts.budgets or (step.end is not None and step.end.outcome is Outcome.BUDGET):
        notice = budget_notice(facts, step.end, step.now, policy)
    return StateUpdate(
        seen.state,
        attended(seen.state, recorded, step.view, takes_over=takes_over, lingers=step.lingers),
        guarded=True,
        end=step.end,
        receipt=step.receipt,
        notice=notice,
        events=events,
    )


def plan_start(seen: AgentFacts, run_id: UUID, reason: str, policy: Policy, step: Step) -> StateUpdate:
    """Plan the start of a run. Nothing is due while it goes on."""
    after = transitions.started(seen, run_id, reason, step.now)
    after = replace(after, node_id=step.view.node_id, lingers=False)
    start = RunStart(
        run_id=run_id,
        wake_reason=reason,
        interrupted_sleep_until=after.last_wake_interrupted_sleep_until,
        max_sleep_until=after.max_sleep_until,
        started_at=step.now,
        trace_name=f"invoke_agent {seen.name}",
    )
    facts, step = replace(seen, state=after, wake_reason=reason), replace(step, start=start)
    recorded, events = record(seen.state, after, facts, Decision(Phase.RUNNING), policy, step)
    return StateUpdate(seen.state, recorded, guarded=False, start=start, receipt=step.receipt, events=events)


def plan_crash(seen: AgentFacts, after: AgentState, step: Step) -> StateUpdate:
    """Plan the failure of a supervisor without the rules, which may be what has crashed."""
    recorded, events = record_crash(seen.state, after, step)
    recorded = attended(seen.state, recorded, step.view, lingers=step.lingers)
    is_quarantined = is_newly_quarantined(seen.state, after)
    notice = quarantine_notice(after, step.now) if is_quarantined else None
    return StateUpdate(seen.state, recorded, guarded=False, notice=notice, events=events)


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
    if facts.organization_paused or facts.instance_paused_at:
        facts = replace(facts, organization_paused=False, instance_paused_at=None)
        decision = decide(facts, step.now, policy)
    ended = () if step.end is None else (_end_of_run(facts, step.end, step.actor),)
    is_stopping = after.run_id is not None and after.run_id == step.stopping_run
    if before.phase == Phase.STOPPING and after.run_id is not None and step.view.is_elsewhere(before):
        is_stopping = True  # only the process of that node knows it, and the row
    phase = explanations.phase_of(facts, decision, step.now, run_is_stopping=is_stopping)
    name = explanations.recorded_name(decision, phase)
    is_told = _is_stop_without_run(before, after) or after.paused != before.paused
    is_about_to_start = phase is not Phase.QUEUED and decision.due_wake(step.now) is not None
    if name == before.phase and not is_told and is_about_to_start:
        return after, ended  # the start that follows at once has an event
    since = step.now
    if name == before.phase:
        since = before.phase_since or explanations.stored_since(facts, decision, phase)
    why = explanations.why(facts, decision, phase, step.now, since=since, limits=step.limits)
    wake = explanations.next_wake(decision) if after.queued_at is None else None
    next_at = format_timestamp(wake.at) if wake else ""
    # Each further message postpones the end of a hold.
    is_moving = phase is Phase.HOLDING and decision.wake is not None and decision.wake.cause is WakeCause.HOLD
    digest = digest_of(why, "" if is_moving else next_at)
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
    asker = ASKER.get()
    return NewEvent(
        _type_of_event(before, after, name, step),
        step.now,
        after.agent_id,
        run_id=step.end.run_id if step.end is not None else after.run_id,
        actor=step.actor,
        phase=name,
        data=orjson.dumps(data).decode(),
        address=asker.get_address() if asker else "",
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


def quarantine_notice(after: AgentState, now: datetime) -> SystemNotice:
    """Return the notice of an update that begins a quarantine; failures within it give none."""
    return SystemNotice(new_id(), explanations.QUARANTINED, explanations.why_quarantined(after), now)


def budget_notice(
    facts: AgentFacts, end: RunEnd | None, now: datetime, policy: Policy
) -> SystemNotice | None:
    """Return a notice if a budget ends or postpones a run.

    All notices of one day have the same id, so that only the first is stored.
    """
    ended_run = end is not None and end.outcome is Outcome.BUDGET
    budget = reached_budget(facts.budgets)
    if budget is None and end is not None and ended_run:
        notice_id = derive_id(facts.state.agent_id, f"unpriced on {now.date()}")
        return SystemNotice(notice_id, explanations.UNPRICED, explanations.why_refused(end.error), now)
    if budget is None:
        return None
    wake = decide(facts, now, policy).wake
    postponed_run = wake is not None and wake.is_postponed and not explanations.never_starts(budget)
    if not (ended_run or postponed_run):
        return None
    notice_id = derive_id(facts.state.agent_id, f"over budget on {now.date()}")
    spent = f"Spent today: {dollars(budget.spent_usd)} USD."
    body = f"{explanations.why_over_budget(budget, now)} {spent}"
    return SystemNotice(notice_id, explanations.OVER_BUDGET, body, now, _event_data(budget))


def _event_data(budget: Budget) -> str:
    """Return the data of the event `budget.reached`."""
    return to_json(
        {
            "of": "organization" if budget.of_organization else "agent",
            "cap_usd": float(budget.cap_usd),
            "spent_usd": float(budget.spent_usd),
        }
    ).decode()


@dataclass(frozen=True, slots=True)
class Cause:
    """Who asked for a change, as the web layer names them (blank: a rule), and the reason they gave."""

    caller: str = ""
    reason: str = ""


BY_RULE = Cause()


def report_update(facts: AgentFacts, update: StateUpdate, cause: Cause = BY_RULE) -> None:
    """Log what a stored update did to the agent with these facts."""
    before, after = update.before, update.after
    if update.start is not None:
        start = update.start
        log.info("run started", **_agent(facts), run=str(start.run_id), wake_reason=start.wake_reason)
    if after.status is not before.status and AgentStatus.ARCHIVED in {after.status, before.status}:
        _report_archive(facts, after, cause)
    elif after.stopped_at is not None and after.stopped_at != before.stopped_at:
        _report_stop(facts, before, cause)
    if after.paused and not before.paused:
        log.info("agent paused", **_agent(facts), caller=cause.caller)
    elif before.paused and not after.paused:
        log.info("agent resumed", **_agent(facts), caller=cause.caller)
    if is_newly_quarantined(before, after):
        log.warning(
            "agent quarantined",
            **_agent(facts),
            failures=after.failures,
            until=format_timestamp(after.retry_at),
            last_error=excerpt(after.last_error, MAX_TEXT),
        )
    elif before.failures >= QUARANTINE_AFTER_FAILURES > after.failures:
        log.info("quarantine ended", **_agent(facts))


def report_run(run: ActiveRun) -> None:
    """Log the end of a run of this process, when nothing of it works any more."""
    if run.result is None:
        return
    log.info(
        "run ended",
        agent=str(run.agent_id),
        name=run.agent_name,
        organization=str(run.organization_id),
        run=str(run.id),
        wake_reason=run.wake_reason,
        outcome=run.result.outcome,
        turns=run.turns,
        cost_usd=float(run.cost_usd),
        duration_seconds=round(run.seconds, 3),
        error=excerpt(run.result.error, MAX_TEXT),
    )


def report_lost_run(facts: AgentFacts, end: RunEnd) -> None:
    """Log the end of a run of a process that is gone. Its cost is in the usage of the agent."""
    began = facts.state.last_started_at or end.ended_at
    log.info(
        "run ended",
        agent=str(facts.state.agent_id),
        name=facts.name,
        organization=str(facts.organization_id),
        run=str(end.run_id),
        wake_reason=facts.wake_reason,
        outcome=end.outcome,
        turns=end.turns,
        cost_usd=None,
        duration_seconds=max(0.0, round((end.ended_at - began).total_seconds(), 3)),
        error=excerpt(end.error, MAX_TEXT),
    )


def _report_archive(facts: AgentFacts, after: AgentState, cause: Cause) -> None:
    if after.status is AgentStatus.ARCHIVED:
        log.info("agent archived", **_agent(facts), caller=cause.caller)
    else:
        log.info("agent restored", **_agent(facts), caller=cause.caller)


def _report_stop(facts: AgentFacts, before: AgentState, cause: Cause) -> None:
    if before.run_id is not None and before.stopped_at is not None:
        return  # the run is stopping already: a client may ask again and again
    run = str(before.run_id) if before.run_id else ""
    log.info(
        "agent stopped", **_agent(facts), run=run, caller=cause.caller, reason=excerpt(cause.reason, MAX_TEXT)
    )


def _agent(facts: AgentFacts) -> dict[str, str]:
    """Return the fields that each line about an agent begins with."""
    return {
        "agent": str(facts.state.agent_id),
        "name": facts.name,
        "organization": str(facts.organization_id),
    }
