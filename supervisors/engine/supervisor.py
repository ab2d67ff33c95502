"""The actor of one agent: it looks, asks the rules, stores their decision, and acts on it.

It keeps nothing that could not be read again, so it may be dropped and made anew between any two messages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import Protocol
from uuid import UUID

from storage.ids import new_id
from storage.model import (
    AgentFacts,
    AgentState,
    AgentStatus,
    Outcome,
    Receipt,
    RunEnd,
    RunStart,
    StateUpdate,
)
from supervisors.clock import Clock
from supervisors.engine.mailbox import Mailbox
from supervisors.engine.messages import ReceiptOf, RunAnswer, RunReply
from supervisors.engine.notices import notice_for, quarantine_notice
from supervisors.engine.run import ActiveRun, RunResult
from supervisors.engine.run_slots import RunSlots
from supervisors.engine.timer_queue import CLOCK_DRIFT_SECONDS, TimerQueue
from supervisors.errors import AgentGone
from supervisors.policy import transitions
from supervisors.policy.decisions import (
    QUARANTINE_ATTEMPT_INTERVAL,
    Decision,
    Policy,
    Wake,
    WakeCause,
    active_count,
    decide,
    is_quarantined,
)
from supervisors.policy.phases import Phase
from supervisors.ports import StateStore

RECOVERY_SECONDS = 1.0
CLOCK_DRIFT = timedelta(seconds=CLOCK_DRIFT_SECONDS)
BACKOFF_PRECISION_SECONDS = 0.001  # the wall clock, by which alarms are set, knows microseconds only
MAX_CRASH_BACKOFF = QUARANTINE_ATTEMPT_INTERVAL

Transition = Callable[[AgentFacts], AgentState | None]


class LaunchRun(Protocol):
    """Lets a run that has just been stored begin."""

    async def __call__(self, run: ActiveRun) -> None: ...


@dataclass(slots=True)
class SupervisorContext:
    """What all supervisors of this process share. Only the registry changes it."""

    store: StateStore
    clock: Clock
    policy: Policy
    timer_queue: TimerQueue
    slots: RunSlots
    launch: LaunchRun
    stop_grace_seconds: float
    random: Random
    runs: dict[UUID, ActiveRun]  # by agent; a run stays until its end is stored and it is gone
    recovery_seconds: float = RECOVERY_SECONDS  # over which the agents return whose runs died
    may_start: bool = True  # false while draining, or while another instance may lead


class Supervisor:
    """One agent's supervisor. Its messages are handled one at a time, in order, by the registry's drain."""

    __slots__ = (
        "_hold_ends",
        "_phase",
        "agent_id",
        "backing_off_until",
        "busy",
        "context",
        "crashes",
        "in_doubt",
        "is_gone",
        "mailbox",
        "organization_id",
        "phase_since",
        "recent",
        "touched_at",
    )

    def __init__(self, agent_id: UUID, context: SupervisorContext) -> None:
        self.agent_id = agent_id
        self.context = context
        self.mailbox = Mailbox()
        self.busy = False
        self.in_doubt = False  # a move that was given up may yet be made, until another is made after it
        self.is_gone = False  # its agent was deleted
        self.organization_id: UUID | None = None  # its agent's, once it has looked
        self.crashes = 0  # looks and questions in a row that met one
        self.backing_off_until = 0.0  # after a defect: no look before this moment of the monotonic clock
        self._phase: Phase | None = None  # until it has looked
        self.phase_since: datetime | None = None  # when it saw the phase begin, if it did
        self.touched_at = 0.0
        self.recent = b""  # as `recent` packs it
        self._hold_ends: tuple[datetime, float] | None = None  # a hold's deadline, by both clocks

    def __repr__(self) -> str:
        return f"<Supervisor of {self.agent_id}: {self.phase}{', busy' if self.busy else ''}>"

    @property
    def phase(self) -> Phase:
        """The phase that it saw last."""
        return self._phase or Phase.ASLEEP

    @phase.setter
    def phase(self, phase: Phase) -> None:
        if self._phase is not None and phase is not self._phase:
            self.phase_since = self.context.clock.now()
        self._phase = phase

    @property
    def run(self) -> ActiveRun | None:
        """The agent's run in this process, until its end is stored and it is gone."""
        return self.context.runs.get(self.agent_id)

    @property
    def run_goes_on(self) -> bool:
        """Whether the run is not even over: a look will follow when it is."""
        return self.run is not None and self.run.result is None

    async def reconcile(self) -> str:
        """Look at the agent, do what the rules say, and tell in a few words what that was."""
        while True:
            now = self.context.clock.now()
            facts = await self.context.store.get_facts(self.agent_id, now)
            if facts is None:
                return self._part_with_the_agent()
            self._take_note(facts)
            run = self.run
            is_over = run is None or run.result is not None
            if facts.state.run_id is not None and is_over:
                await self._store_end(facts, facts.state.run_id, run)
                continue
            if run is not None and run.result is not None:
                self._part_with(run)
            if facts.paused and self.run is not None and not self.run.stopping:
                # As a stop does, but nothing is stored of it: what is due when the pause ends still starts.
                self.run.stop(self.context.stop_grace_seconds)
            decision = self.decide(facts, now)
            wake = decision.due_wake(now)
            if wake is None or self.run is not None:
                outcome = await self._rest(facts, decision, now)
            elif self.context.may_start:
                outcome = await self._start_or_queue(facts, wake)
            elif facts.state.queued_at is None:
                # Due, as whoever scans then will find.
                outcome = await self._rest(facts, decision, now)
            else:
                return "waits until runs may start"
            if outcome is not None:
                return outcome

    async def get_facts(self) -> AgentFacts:
        """The agent's circumstances; raises AgentGone."""
        facts = await self.context.store.get_facts(self.agent_id, self.context.clock.now())
        if facts is None:
            self.is_gone = True
            raise AgentGone("There is no such agent.")
        self._take_note(facts)
        return facts

    def decide(self, facts: AgentFacts, now: datetime) -> Decision:
        """What the rules say. A hold that lasted its length is over, even if the wall clock was set back."""
        decision = decide(facts, now, self.context.policy)
        if decision.hold is None:
            self._hold_ends = None
            return decision
        due_at, clock = decision.hold.due_at, self.context.clock
        if self._hold_ends is None or self._hold_ends[0] != due_at:
            # Not by `now`: the look that it was for took its time. And no more than was left when its last
            # message came, which the wall clock, set back since, may say is yet to come.
            left = min(due_at - clock.now(), due_at - decision.hold.last_at)
            # The monotonic clock second, so that the hold is rather a moment too long than too short.
            self._hold_ends = (due_at, clock.monotonic() + max(left, timedelta()).total_seconds())
        if clock.monotonic() < self._hold_ends[1]:
            return decision
        return decide(facts, now, self.context.policy, hold_is_over=True)

    def by_both_clocks(self, decision: Decision, now: datetime) -> Decision:
        """The decision with the end of the hold as the wall clock will show it, should that have been set."""
        hold, wake = decision.hold, decision.wake
        if hold is None or wake is None or self._hold_ends is None or self._hold_ends[0] != hold.due_at:
            return decision
        ends_at = now + timedelta(seconds=self._hold_ends[1] - self.context.clock.monotonic())
        if wake.because is not WakeCause.HOLD or abs(ends_at - hold.due_at) <= CLOCK_DRIFT:
            return decision
        return replace(decision, hold=replace(hold, due_at=ends_at), wake=replace(wake, at=ends_at))

    async def start(
        self, facts: AgentFacts, reason: str, receipt: ReceiptOf | None = None
    ) -> ActiveRun | None:
        """Start a run if a slot is to be had and the claim succeeds: starting is the claim. Else None."""
        context, state, now = self.context, facts.state, self.context.clock.now()
        run_id = new_id()
        after = transitions.started(facts, run_id, reason, now)
        start = RunStart(
            run_id=run_id,
            wake_reason=reason,
            interrupted_sleep_until=after.last_wake_interrupted_sleep_until,
            max_sleep_until=after.max_sleep_until,
            started_at=now,
            trace_name=f"invoke_agent {facts.name}",
        )
        kept = receipt(RunReply(RunAnswer.STARTED, run_id)) if receipt else None
        claim = StateUpdate(state, after, guarded=False, start=start, receipt=kept)
        if not context.slots.take(self.agent_id):
            return None
        try:
            is_claimed = await context.store.update(claim)
        except BaseException:
            context.slots.release()
            raise
        if not is_claimed:
            context.slots.release()
            return None
        self.in_doubt = False
        run = ActiveRun(self.agent_id, start, active_count(facts), context.clock)
        run.is_capped = bool(facts.budgets)
        context.runs[self.agent_id] = run
        context.timer_queue.cancel(self.agent_id)
        self.phase = Phase.RUNNING
        await context.launch(run)
        return run

    async def queue(self, facts: AgentFacts, transition: Transition, receipt: Receipt | None = None) -> None:
        """Store that a start waits for a slot, and stand in line for one."""
        now = self.context.clock.now()

        def then_queued(seen: AgentFacts) -> AgentState | None:
            after = transition(seen)
            return after and transitions.queued(after, now)

        await self.change(facts, then_queued, receipt=receipt)
        self.phase = Phase.QUEUED
        self.context.timer_queue.cancel(self.agent_id)
        self.context.slots.wait(self.agent_id, facts.organization_id)

    async def change(
        self,
        facts: AgentFacts,
        transition: Transition,
        end: RunEnd | None = None,
        receipt: Receipt | None = None,
        now: datetime | None = None,
    ) -> AgentState | None:
        """Store what `transition` makes of the agent, which may end its run; None if it makes nothing.

        If something became active since the look, the transition is asked again under lock: the lock keeps
        constant traffic from outrunning the agent for ever. `now` is the moment that what comes next is
        reckoned from, the present unless something else was decided by it. Raises AgentGone.
        """
        now = now or self.context.clock.now()
        update = self._plan(facts, transition, end, receipt, now)
        if update is None:
            return None
        if not (_says_anything(update) or self.in_doubt):
            return update.after
        if await self.context.store.update(update):
            self.in_doubt = False
            return update.after
        async with self.context.store.locked(self.agent_id, now) as locked:
            if locked.facts is None:
                self.is_gone = True
                raise AgentGone("There is no such agent.")
            update = self._plan(locked.facts, transition, end, receipt, now)
            if update is None or not await locked.update(update):
                return None
        self.in_doubt = False
        return update.after

    def back_off(self) -> datetime:
        """A message met a defect: look no more until the backoff is over; the moment of that."""
        self.crashes += 1
        self.context.slots.leave(self.agent_id)
        delay = min(transitions.backoff(self.crashes), MAX_CRASH_BACKOFF)
        self.backing_off_until = self.context.clock.monotonic() + delay.total_seconds()
        return self.context.clock.now() + delay

    def backoff_seconds_left(self) -> float:
        """For how long it is not to look, after a defect; 0 if it may."""
        left = self.backing_off_until - self.context.clock.monotonic()
        return left if left > BACKOFF_PRECISION_SECONDS else 0.0

    async def fail(self, error: str) -> datetime | None:
        """Count a defect where a restart finds it; when the agent is tried again (None: it is not asleep).

        The rules are not asked: they may be what failed.
        """
        seen, now = await self.get_facts(), self.context.clock.now()
        if seen.state.status is not AgentStatus.SLEEPING:
            return None
        failed = transitions.failed(transitions.rested(seen.state), Outcome.FAILED, error, now, jitter=0)
        ahead = seen.state.next_due_at
        comes_first = failed.retry_at is not None and ahead is not None and now < ahead < failed.retry_at
        after = replace(failed, next_due_at=ahead if comes_first else failed.retry_at)
        update = StateUpdate(
            seen.state, after, guarded=False, notice=quarantine_notice(seen.state, after, now)
        )
        if not await self.context.store.update(update):
            return None
        self.phase = Phase.QUARANTINED if is_quarantined(replace(seen, state=after)) else Phase.BACKING_OFF
        return after.retry_at

    def _take_note(self, facts: AgentFacts) -> None:
        """Keep what is asked for between two looks."""
        self.organization_id = facts.organization_id
        if self.run is not None:
            self.run.is_capped = bool(facts.budgets)

    def _plan(
        self,
        seen: AgentFacts,
        transition: Transition,
        end: RunEnd | None,
        receipt: Receipt | None,
        now: datetime,
    ) -> StateUpdate | None:
        after = transition(seen)
        if after is None:
            return None
        armed = transitions.armed(seen, after, now, self.context.policy)
        notice = notice_for(seen, armed, end, now, self.context.policy)
        return StateUpdate(seen.state, armed, guarded=True, end=end, receipt=receipt, notice=notice)

    async def _start_or_queue(self, facts: AgentFacts, wake: Wake) -> str | None:
        """Start the run that is due, or stand in line. None: look again, something has moved."""
        run = await self.start(facts, wake.reason)
        if run is not None:
            return f"started: {wake.reason}"
        if self.context.slots.has_room():
            return None
        await self.queue(facts, lambda seen: seen.state)
        return f"queued: {wake.reason}"

    async def _rest(self, facts: AgentFacts, decision: Decision, now: datetime) -> str | None:
        """Store when to look next, and set the alarm for it. None: look again, something has moved."""
        context, state = self.context, facts.state
        context.slots.leave(self.agent_id)
        rested = transitions.armed(facts, transitions.rested(state), now, context.policy)
        if rested != state or self.in_doubt:
            # By the same `now`: what is due but may not start is due by it; a later one would always differ.
            stored = await self.change(facts, lambda seen: transitions.rested(seen.state), now=now)
            if stored != rested:
                return None
        self.phase = decision.phase
        if decision.wake is None or decision.due_wake(now):
            context.timer_queue.cancel(self.agent_id)
        elif decision.hold and self._hold_ends and decision.wake.at == decision.hold.due_at:
            context.timer_queue.schedule(self.agent_id, decision.wake.at, monotonic_at=self._hold_ends[1])
        else:
            context.timer_queue.schedule(self.agent_id, decision.wake.at)
        return decision.phase

    async def _store_end(self, facts: AgentFacts, run_id: UUID, run: ActiveRun | None) -> None:
        """Store how the run ended; one that this process knows nothing of was interrupted."""
        now = self.context.clock.now()
        result = run.result if run is not None and run.result else _unknown_end(facts)
        jitter = 0.0 if run is not None else self.context.random.uniform(0, self.context.recovery_seconds)
        end = RunEnd(run_id, result.outcome, now, run.turns if run else 0, result.error)

        def ended(seen: AgentFacts) -> AgentState | None:
            if seen.state.run_id != run_id:
                return None
            return transitions.ended(
                seen, result.outcome, result.error, now, counts=result.counts, jitter=jitter
            )

        await self.change(facts, ended, end)

    def _part_with_the_agent(self) -> str:
        """The agent was deleted: nothing of it goes on."""
        self.context.slots.leave(self.agent_id)
        self.context.timer_queue.cancel(self.agent_id)
        run = self.run
        if run is not None and run.result is None:
            run.stop(self.context.stop_grace_seconds)
        elif run is not None:
            self._part_with(run)
        self.is_gone = True
        return "gone"

    def _part_with(self, run: ActiveRun) -> None:
        """The run is over, and its end is stored."""
        del self.context.runs[self.agent_id]
        run.settle()


def _says_anything(update: StateUpdate) -> bool:
    return update.after != update.before or update.end is not None or update.receipt is not None


def _unknown_end(facts: AgentFacts) -> RunResult:
    if facts.state.stopped_at is not None or facts.paused:
        return RunResult(Outcome.STOPPED, "stopped")
    return RunResult(Outcome.INTERRUPTED, "interrupted: the service ended, or never learned of the run")
