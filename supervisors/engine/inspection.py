"""The status of the agents: built from what the database stores and what the supervisors remember."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import starmap
from uuid import UUID

from storage.agent_facts import AgentFacts, Counts
from storage.histogram import LONG_SECONDS, Histogram
from storage.model import Outcome
from supervisors.engine.context import SupervisorContext
from supervisors.engine.messages import read_messages
from supervisors.engine.run import ActiveRun
from supervisors.engine.snapshot import (
    AgentsResponse,
    AgentSummary,
    CurrentRun,
    DebounceResponse,
    FailuresResponse,
    MailboxesResponse,
    MailboxResponse,
    ModelCalls,
    NextWake,
    Present,
    QuarantinedAgent,
    RecentMessage,
    RunsResponse,
    ServiceNumbers,
    Snapshot,
    SnapshotFilters,
    Spread,
    SupervisorsResponse,
    TimersResponse,
)
from supervisors.engine.supervisor import MAX_BLOCKERS, Supervisor
from supervisors.policy import explanations
from supervisors.policy.decisions import Decision, active_count, decide
from supervisors.policy.phases import Phase, ShownPhase
from supervisors.ports import KnownModels
from supervisors.text import excerpt

PAGE_SIZE = 200
MAX_ERROR = 200  # characters of an error in the overview
LOOP_LAG_SAMPLES = 120  # of two minutes
NO_COUNTS = Counts(0, 0, 0, frozenset(), 0, None, None)


@dataclass(slots=True)
class Statistics:
    """The numbers that the registry and the maintenance services keep for the status of the service."""

    counts: Counts = NO_COUNTS  # as last read from the database
    quarantined: Sequence[AgentFacts] = ()  # some of those that were counted
    quarantines: int = 0  # begun in this process
    restarts: int = 0  # of crashed supervisors
    wakes: Counter[str] = field(default_factory=Counter)  # runs started, by reason
    model_calls: defaultdict[str, ModelCalls] = field(default_factory=lambda: defaultdict(ModelCalls))
    ended_runs: Counter[Outcome] = field(default_factory=Counter)
    loop_lag_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_LAG_SAMPLES))
    loop_delays: Histogram = field(default_factory=Histogram)
    wake_latencies: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    run_durations: defaultdict[str, Histogram] = field(
        default_factory=lambda: defaultdict(partial(Histogram, LONG_SECONDS))
    )

    def count_start(self, run: ActiveRun, seconds: float) -> None:
        """Count a run that has started this long after it was due."""
        self.wakes[run.wake_reason] += 1
        self.wake_latencies[run.wake_reason.partition(":")[0]].add(max(0.0, seconds))

    def count_end(self, run: ActiveRun) -> None:
        """Count a run that is over, and its calls of models."""
        if run.result is not None:
            self.ended_runs[run.result.outcome] += 1
            self.run_durations[run.result.outcome].add(run.seconds)
        for provider, seconds, has_failed in run.model_calls:
            calls = self.model_calls[provider]
            calls.durations.add(seconds)
            calls.errors += has_failed

    def forget_agent(self, agent_id: UUID) -> None:
        """Leave a deleted agent out of the last count."""
        self.counts = replace(self.counts, quarantined=self.counts.quarantined - {agent_id})


@dataclass(slots=True, eq=False)
class StatusReader:
    """Reads the status of one agent, several, or all. It changes nothing."""

    supervisors: Mapping[UUID, Supervisor]
    context: SupervisorContext
    statistics: Statistics
    mailbox_limit: int
    models: KnownModels | None  # None: the agents' own code calls them
    node_name: Callable[[int], str] = lambda _: ""  # blank: it is dead, or not known yet

    async def snapshot(self, agent_id: UUID) -> Snapshot | None:
        """Return one agent in full; None if it does not exist."""
        store, now = self.context.store, self.context.clock.now()
        facts = await store.get_facts(agent_id, now)
        if facts is None:
            return None
        blockers: list[UUID] = []
        if active_count(facts):
            blockers = await store.list_blockers(agent_id, now, MAX_BLOCKERS)
        snapshot = self._build_snapshot(facts, blockers, self.supervisors.get(agent_id))
        unpriced = await self._unpriced({facts.model}, now)
        return replace(snapshot, why=snapshot.why + unpriced.get(facts.model, ""))

    async def summaries(self, agent_ids: Sequence[UUID]) -> dict[UUID, AgentSummary]:
        """Return the agents that exist in short, by id. Their facts are read together."""
        store, now = self.context.store, self.context.clock.now()
        found = await asyncio.gather(*(store.get_facts(agent_id, now) for agent_id in agent_ids))
        facts = [each for each in found if each is not None]
        unpriced = await self._unpriced({each.model for each in facts}, now)
        return {each.state.agent_id: self._summarize(each, unpriced) for each in facts}

    async def outlook(self, agent_id: UUID) -> tuple[AgentFacts, Decision] | None:
        """Return the facts about one agent and what the rules make of them; None if it does not exist."""
        now = self.context.clock.now()
        facts = await self.context.store.get_facts(agent_id, now)
        return None if facts is None else (facts, decide(facts, now, self.context.policy))

    async def present(self, agent_id: UUID) -> Present | None:
        """Return what the rules read about one agent; None if it does not exist."""
        context, now = self.context, self.context.clock.now()
        facts = await context.store.get_facts(agent_id, now)
        if facts is None:
            return None
        run = context.runs.get(agent_id)
        return Present(
            facts=facts,
            now=now,
            policy=context.policy,
            limits=self._limits_of(facts),
            has_room=context.slots.has_room(facts.organization_id),
            run_is_stopping=_is_stopping(facts, run),
        )

    def _limits_of(self, facts: AgentFacts) -> explanations.StartLimits:
        context, agent_id = self.context, facts.state.agent_id
        may_start = context.may_start or context.responsible_elsewhere(agent_id) is not None
        return replace(context.limits_of(facts.organization_id), may_start=may_start)

    async def snapshots(self, filters: SnapshotFilters, limit: int) -> list[Snapshot]:
        """Return at most `limit` agents in full, by id."""
        snapshots: list[Snapshot] = []
        last: UUID | None = None
        while len(snapshots) < limit:
            ids = await self.context.store.list_ids(filters.organization_id, last, PAGE_SIZE, filters.name)
            page = await asyncio.gather(*map(self.snapshot, ids))
            snapshots.extend(snapshot for snapshot in page if snapshot and filters.show(snapshot))
            if len(ids) < PAGE_SIZE:
                break
            last = ids[-1]
        return snapshots[:limit]

    def numbers(self) -> ServiceNumbers:
        """Return all agents in numbers: the last counts, corrected by what has happened in memory since."""
        supervisors, context, statistics = self.supervisors, self.context, self.statistics
        counts, slots, now = statistics.counts, context.slots, context.clock.now()
        phases = Counter(str(supervisor.phase) for supervisor in supervisors.values())
        depths = [len(supervisor.requests) for supervisor in supervisors.values()]
        sleeping = max(0, counts.running + counts.sleeping - slots.taken)
        lateness = _milliseconds(context.timer_queue.lateness_seconds)
        oldest = counts.oldest_active_at
        return ServiceNumbers(
            supervisors=SupervisorsResponse(
                active=len(supervisors),
                by_phase=dict(phases),
                mailbox=MailboxesResponse(sum(depths), max(depths, default=0)),
                restarts=statistics.restarts,
                quarantined=phases[Phase.QUARANTINED] + len(counts.quarantined - supervisors.keys()),
            ),
            quarantined=tuple(map(_quarantined_agent, filter(self._is_quarantined, statistics.quarantined))),
            agents=AgentsResponse(slots.taken, sleeping, counts.archived, counts.held_by_limits),
            runs=RunsResponse(slots.taken, slots.waiting, slots.limit if context.nodes.starts_runs else 0),
            timers=TimersResponse(counts.timers, counts.next_due_at, lateness),
            loop_lag_ms=_milliseconds(statistics.loop_lag_seconds),
            oldest_uncleared_high_seconds=max(0.0, (now - oldest).total_seconds()) if oldest else None,
        )

    async def _unpriced(self, models: Collection[str], now: datetime) -> dict[str, str]:
        """Return for each model without a known price the sentence that follows an explanation."""
        if self.models is None:
            return {}
        unpriced = [model for model in models if not await self.models.is_priced(model, now)]
        return {model: f" {explanations.why_unpriced(self.models.qualify(model))}" for model in unpriced}

    def _summarize(self, facts: AgentFacts, unpriced: Mapping[str, str]) -> AgentSummary:
        agent_id = facts.state.agent_id
        snapshot = self._build_snapshot(facts, (), self.supervisors.get(agent_id))
        decision = decide(facts, self.context.clock.now(), self.context.policy)
        return AgentSummary(
            snapshot.status,
            ShownPhase(explanations.recorded_name(decision, snapshot.phase)),
            snapshot.since,
            snapshot.why + unpriced.get(facts.model, ""),
            snapshot.next_wake,
            snapshot.run.id if snapshot.run else None,
            active_count(facts),
            snapshot.node,
        )

    def _is_quarantined(self, facts: AgentFacts) -> bool:
        """Return whether an agent that was counted as quarantined is so still, as far as is known here."""
        agent_id = facts.state.agent_id
        supervisor = self.supervisors.get(agent_id)
        if supervisor is not None:
            return supervisor.phase is Phase.QUARANTINED
        return agent_id in self.statistics.counts.quarantined

    def _build_snapshot(
        self, facts: AgentFacts, blockers: Sequence[UUID], supervisor: Supervisor | None
    ) -> Snapshot:
        state, context, now = facts.state, self.context, self.context.clock.now()
        run = context.runs.get(state.agent_id)
        decision = decide(facts, now, context.policy)
        phase = explanations.phase_of(facts, decision, now, run_is_stopping=_is_stopping(facts, run))
        has_seen_phase = supervisor is not None and supervisor.phase is phase
        since = explanations.since(
            facts, decision, phase, supervisor.pause_seen_at if supervisor and has_seen_phase else None
        )
        waits = run.waits() if run else ()
        wake = explanations.next_wake(decision) if phase is not Phase.QUEUED else None
        hold = decision.hold if phase is Phase.HOLDING else None
        node = self.node_name(state.node_id) if state.node_id is not None else ""
        return Snapshot(
            agent=state.agent_id,
            name=facts.name,
            organization=facts.organization_id,
            status=state.status,
            phase=phase,
            since=since,
            why=explanations.why(
                facts,
                decision,
                phase,
                now,
                since=explanations.stored_since(facts, decision, phase),
                limits=self._limits_of(facts),
                waits=waits,
                node=node if len(context.nodes.living_ids) > 1 else "",
            ),
            next_wake=NextWake(wake.at, explanations.describe_cause(wake)) if wake else None,
            run=_current_run(facts, context),
            debounce=DebounceResponse(hold.window_seconds, hold.first_at, hold.last_at, hold.due_at)
            if hold
            else None,
            blockers=tuple(blockers),
            mailbox=MailboxResponse(len(supervisor.requests) if supervisor else 0, self.mailbox_limit),
            failures=FailuresResponse(state.failures, state.last_error, state.retry_at),
            recent=tuple(starmap(RecentMessage, read_messages(supervisor.message_log))) if supervisor else (),
            node=node or None,
        )


def _is_stopping(facts: AgentFacts, run: ActiveRun | None) -> bool:
    """Return whether a run was asked to stop: one in this node, or by its row one in another."""
    state = facts.state
    return run.is_stopping if run else state.run_id is not None and state.phase == Phase.STOPPING


def _quarantined_agent(facts: AgentFacts) -> QuarantinedAgent:
    state = facts.state
    error = excerpt(state.last_error, MAX_ERROR)
    return QuarantinedAgent(
        state.agent_id, facts.name, facts.organization_id, state.failures, error, state.retry_at
    )


def _current_run(facts: AgentFacts, context: SupervisorContext) -> CurrentRun | None:
    state = facts.state
    if state.run_id is None or state.last_started_at is None:  # a start sets both
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
