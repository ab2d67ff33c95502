"""Builds what an operator is shown from what the database says and what the supervisors remember."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import starmap
from uuid import UUID

from storage.model import AgentFacts, Counts
from supervisors.engine.message_log import recall
from supervisors.engine.snapshot import (
    AgentsResponse,
    CurrentRun,
    DebounceResponse,
    FailuresResponse,
    MailboxesResponse,
    MailboxResponse,
    NextWake,
    Overview,
    RecentMessage,
    RunsResponse,
    RunTotals,
    Snapshot,
    Spread,
    SupervisorsResponse,
    TimersResponse,
)
from supervisors.engine.supervisor import Supervisor, SupervisorContext
from supervisors.policy import explanations
from supervisors.policy.decisions import decide
from supervisors.policy.phases import Phase


def snapshot(
    facts: AgentFacts,
    blockers: Sequence[UUID],
    context: SupervisorContext,
    supervisor: Supervisor | None,
    mailbox_limit: int,
) -> Snapshot:
    """One agent in full; `supervisor` is its live one, if it has one."""
    state, now = facts.state, context.clock.now()
    run = context.runs.get(state.agent_id)
    decision = decide(facts, now, context.policy)
    if supervisor is not None:
        decision = supervisor.by_both_clocks(decision, now)
    is_stopping = run is not None and run.stopping
    phase = explanations.phase_of(facts, decision, now, run_is_stopping=is_stopping)
    seen_since = supervisor.phase_since if supervisor is not None and supervisor.phase is phase else None
    since = explanations.since(facts, decision, phase, seen_since)
    slots, may_start = context.slots.limit, context.may_start
    wake = explanations.next_wake(decision) if phase is not Phase.QUEUED else None
    hold = decision.hold if phase is Phase.HOLDING else None
    return Snapshot(
        agent=state.agent_id,
        name=facts.name,
        organization=facts.organization_id,
        status=state.status,
        phase=phase,
        since=since,
        why=explanations.why(facts, decision, phase, now, since=since, slots=slots, may_start=may_start),
        next_wake=NextWake(wake.at, explanations.because(wake)) if wake else None,
        run=_current_run(facts, context),
        debounce=DebounceResponse(hold.window_seconds, hold.first_at, hold.last_at, hold.due_at)
        if hold
        else None,
        blockers=tuple(blockers),
        mailbox=MailboxResponse(len(supervisor.mailbox) if supervisor else 0, mailbox_limit),
        failures=FailuresResponse(state.failures, state.last_error, state.retry_at),
        recent=tuple(starmap(RecentMessage, recall(supervisor.recent))) if supervisor else (),
    )


def overview(
    supervisors: Mapping[UUID, Supervisor],
    context: SupervisorContext,
    counts: Counts,
    restarts: int,
    loop_lag_seconds: Collection[float],
    run_totals: RunTotals,
) -> Overview:
    """All agents in numbers: `counts` of the database, corrected by what has happened in memory since."""
    phases = Counter(str(supervisor.phase) for supervisor in supervisors.values())
    depths = [len(supervisor.mailbox) for supervisor in supervisors.values()]
    oldest, running = counts.oldest_active_at, context.slots.taken
    return Overview(
        supervisors=SupervisorsResponse(
            active=len(supervisors),
            by_phase=dict(phases),
            mailbox=MailboxesResponse(sum(depths), max(depths, default=0)),
            restarts=restarts,
            quarantined=phases[Phase.QUARANTINED] + len(counts.quarantined - supervisors.keys()),
        ),
        agents=AgentsResponse(running, max(0, counts.running + counts.sleeping - running), counts.archived),
        runs=RunsResponse(running, context.slots.waiting, context.slots.limit),
        timers=TimersResponse(
            counts.timers, counts.next_due_at, _milliseconds(context.timer_queue.lateness_seconds)
        ),
        loop_lag_ms=_milliseconds(loop_lag_seconds),
        oldest_uncleared_high_seconds=_seconds_since(oldest, context.clock.now()) if oldest else None,
        run_totals=run_totals,
    )


def _current_run(facts: AgentFacts, context: SupervisorContext) -> CurrentRun | None:
    state = facts.state
    if state.run_id is None:
        return None
    run = context.runs.get(state.agent_id)
    turn = run.turns if run is not None and run.id == state.run_id else 0
    return CurrentRun(state.run_id, state.run_id, state.last_started_at, turn, state.max_sleep_until)


def _milliseconds(seconds: Collection[float]) -> Spread:
    if not seconds:
        return Spread(None, None, None)
    ordered = sorted(seconds)
    p50, p99 = (ordered[int((len(ordered) - 1) * share)] for share in (0.5, 0.99))
    return Spread(*(round(value * 1000, 3) for value in (p50, p99, ordered[-1])))


def _seconds_since(moment: datetime, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds())
