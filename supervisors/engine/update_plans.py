"""State updates as they are stored: the new state with its next moment, its notice, and its events. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from storage.agent_facts import AgentFacts, AgentState, RunEnd, RunStart, StateUpdate
from storage.model import Receipt
from supervisors.engine.lifecycle import BY_RULE, Cause
from supervisors.engine.notices import notice_for, quarantine_notice
from supervisors.policy import transitions
from supervisors.policy.decisions import Decision, Policy, decide
from supervisors.policy.phases import Phase
from supervisors.policy.record import Step, record, record_crash

Transition = Callable[[AgentFacts], AgentState | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an agent's state: the transition, its time, and what is stored with it."""

    transition: Transition
    now: datetime
    end: RunEnd | None = None
    receipt: Receipt | None = None
    cause: Cause = BY_RULE


def plan_update(
    seen: AgentFacts, after: AgentState, policy: Policy, step: Step, receipt: Receipt | None
) -> StateUpdate:
    """Plan any update but a start and a crash of the supervisor."""
    facts = transitions.facts_after(seen, after)
    decision = decide(facts, step.now, policy)
    armed = transitions.with_next_due(facts, decision, step.now)
    recorded, events = record(seen.state, armed, facts, decision, policy, step)
    notice = notice_for(seen.state, facts, step.end, step.now, policy)
    return StateUpdate(
        seen.state,
        recorded,
        guarded=True,
        end=step.end,
        receipt=receipt,
        notice=notice,
        events=events,
    )


def start_of(after: AgentState, run_id: UUID, now: datetime, agent_name: str) -> RunStart:
    """Return the run that leads to the state `after`."""
    return RunStart(
        run_id=run_id,
        wake_reason=after.last_wake_reason,
        interrupted_sleep_until=after.last_wake_interrupted_sleep_until,
        max_sleep_until=after.max_sleep_until,
        started_at=now,
        trace_name=f"invoke_agent {agent_name}",
    )


def plan_start(
    seen: AgentFacts, after: AgentState, policy: Policy, step: Step, receipt: Receipt | None
) -> StateUpdate:
    """Plan the start of a run. Nothing is due while it goes on."""
    facts = replace(seen, state=after, wake_reason=after.last_wake_reason)
    recorded, events = record(seen.state, after, facts, Decision(Phase.RUNNING), policy, step)
    return StateUpdate(seen.state, recorded, guarded=False, start=step.start, receipt=receipt, events=events)


def plan_crash(seen: AgentFacts, after: AgentState, step: Step) -> StateUpdate:
    """Plan the failure of a supervisor without the rules, which may be what has crashed."""
    recorded, events = record_crash(seen.state, after, step)
    notice = quarantine_notice(seen.state, after, step.now)
    return StateUpdate(seen.state, recorded, guarded=False, notice=notice, events=events)
