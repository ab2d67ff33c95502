"""Builds what an operator is shown from what the database says and what the supervisors remember."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import starmap
from uuid import UUID

from storage.model import Circumstances, Counts
from supervisors.engine.message_log import recall
from supervisors.engine.snapshot import (
    AgentsShown,
    CurrentRun,
    DebounceShown,
    FailuresShown,
    MailboxesShown,
    MailboxShown,
    NextWake,
    Overview,
    RecentMessage,
    RunsShown,
    RunTotals,
    Snapshot,
    Spread,
    SupervisorsShown,
    TimersShown,
)
from supervisors.engine.supervisor import Supervisor, Surroundings
from supervisors.policy import explanations
from supervisors.policy.decisions import decide
from supervisors.policy.phases import Phase


def snapshot(
    circumstances: Circumstances,
    blockers: Sequence[UUID],
    around: Surroundings,
    supervisor: Supervisor | None,
    mailbox_limit: int,
) -> Snapshot:
    """One agent in full; `supervisor` is its live one, if it has one."""
    state, now = circumstances.state, around.clock.now()
    run = around.runs.get(state.agent_id)
    decision = decide(circumstances, now, around.policy)
    if supervisor is not None:
        decision = supervisor.by_both_clocks(decision, now)
    is_stopping = run is not None and run.stopping
    phase = explanations.phase_of(circumstances, decision, now, run_is_stopping=is_stopping)
    seen_since = supervisor.phase_since if supervisor is not None and supervisor.phase is phase else None
    since = explanations.since(circumstances, decision, phase, seen_since)
    slots, may_start = around.slots.limit, around.may_start
    wake = explanations.next_wake(decision) if phase is not Phase.QUEUED else None
    hold = decision.hold if phase is Phase.HOLDING else None
    return Snapshot(
        agent=state.agent_id,
        name=circumstances.name,
        organization=circumstances.organization_id,
        status=state.status,
        phase=phase,
        since=since,
        why=explanations.why(
            circumstances, decision, phase, now, since=since, slots=slots, may_start=may_start
        ),
        next_wake=NextWake(wake.at, explanations.because(wake)) if wake else None,
        run=_run_shown(circumstances, around),
        debounce=DebounceShown(hold.window_seconds, hold.first_at, hold.last_at, hold.due_at)
        if hold
        else None,
        blockers=tuple(blockers),
        mailbox=MailboxShown(len(supervisor.mailbox) if supervisor else 0, mailbox_limit),
        failures=FailuresShown(state.failures, state.last_error, state.retry_at),
        recent=tuple(starmap(RecentMessage, recall(supervisor.recent))) if supervisor else (),
    )


def overview(
    supervisors: Mapping[UUID, Supervisor],
    around: Surroundings,
    counts: Counts,
    restarts: int,
    loop_lag_seconds: Collection[float],
    run_totals: RunTotals,
) -> Overview:
    """All agents in numbers: `counts` of the database, corrected by what has happened in memory since."""
    phases = Counter(str(supervisor.phase) for supervisor in supervisors.values())
    depths = [len(supervisor.mailbox) for supervisor in supervisors.values()]
    oldest, running = counts.oldest_active_at, around.slots.taken
    return Overview(
        supervisors=SupervisorsShown(
            active=len(supervisors),
            by_phase=dict(phases),
            mailbox=MailboxesShown(sum(depths), max(depths, default=0)),
            restarts=restarts,
            quarantined=phases[Phase.QUARANTINED] + len(counts.quarantined - supervisors.keys()),
        ),
        agents=AgentsShown(running, max(0, counts.running + counts.sleeping - running), counts.archived),
        runs=RunsShown(running, around.slots.waiting, around.slots.limit),
        timers=TimersShown(
            counts.timers, counts.next_due_at, _milliseconds(around.alarm_clock.lateness_seconds)
        ),
        loop_lag_ms=_milliseconds(loop_lag_seconds),
        oldest_uncleared_high_seconds=_seconds_since(oldest, around.clock.now()) if oldest else None,
        run_totals=run_totals,
    )


def _run_shown(circumstances: Circumstances, around: Surroundings) -> CurrentRun | None:
    state = circumstances.state
    if state.run_id is None:
        return None
    run = around.runs.get(state.agent_id)
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
