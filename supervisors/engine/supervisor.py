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
    AgentState,
    AgentStatus,
    Circumstances,
    Move,
    Outcome,
    Receipt,
    RunEnd,
    RunStart,
)
from supervisors.clock import Clock
from supervisors.engine.mailbox import Mailbox
from supervisors.engine.messages import ReceiptOf, RunAnswer, RunReply
from supervisors.engine.notices import remark_on, remark_on_quarantine
from supervisors.engine.run import Run, RunResult
from supervisors.engine.run_slots import RunSlots
from supervisors.engine.timer_queue import CLOCK_DRIFT_SECONDS, AlarmClock
from supervisors.errors import AgentGone
from supervisors.policy import transitions
from supervisors.policy.decisions import (
    QUARANTINE_ATTEMPT_INTERVAL,
    Because,
    Decision,
    Policy,
    Wake,
    active_count,
    decide,
    is_quarantined,
)
from supervisors.policy.phases import Phase
from supervisors.ports import StateStore

RECOVERY_SECONDS = 1.0
CLOCK_DRIFT = timedelta(seconds=CLOCK_DRIFT_SECONDS)
HELD_BACK_PRECISION_SECONDS = 0.001  # the wall clock, by which alarms are set, knows microseconds only
LONGEST_HOLD_BACK = QUARANTINE_ATTEMPT_INTERVAL

Transition = Callable[[Circumstances], AgentState | None]


class Launch(Protocol):
    """Lets a run that has just been stored begin."""

    async def __call__(self, run: Run) -> None: ...


@dataclass(slots=True)
class Surroundings:
    """What all supervisors of this process share. Only the registry changes it."""

    store: StateStore
    clock: Clock
    policy: Policy
    alarm_clock: AlarmClock
    slots: RunSlots
    launch: Launch
    stop_grace_seconds: float
    random: Random
    runs: dict[UUID, Run]  # by agent; a run stays until its end is stored and it is gone
    recovery_seconds: float = RECOVERY_SECONDS  # over which the agents return whose runs died
    may_start: bool = True  # false while draining, or while another instance may lead


class Supervisor:
    """One agent's supervisor. Its messages are handled one at a time, in order, by the registry's drain."""

    __slots__ = (
        "_hold_ends",
        "_phase",
        "agent_id",
        "around",
        "busy",
        "defects",
        "held_back_until",
        "in_doubt",
        "is_gone",
        "mailbox",
        "organization_id",
        "phase_since",
        "recent",
        "touched_at",
    )

    def __init__(self, agent_id: UUID, around: Surroundings) -> None:
        self.agent_id = agent_id
        self.around = around
        self.mailbox = Mailbox()
        self.busy = False
        self.in_doubt = False  # a move that was given up may yet be made, until another is made after it
        self.is_gone = False  # its agent was deleted
        self.organization_id: UUID | None = None  # its agent's, once it has looked
        self.defects = 0  # looks and questions in a row that met one
        self.held_back_until = 0.0  # after a defect: no look before this moment of the monotonic clock
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
            self.phase_since = self.around.clock.now()
        self._phase = phase

    @property
    def run(self) -> Run | None:
        """The agent's run in this process, until its end is stored and it is gone."""
        return self.around.runs.get(self.agent_id)

    @property
    def run_goes_on(self) -> bool:
        """Whether the run is not even over: a look will follow when it is."""
        return self.run is not None and self.run.result is None

    async def look_again(self) -> str:
        """Look at the agent, do what the rules say, and tell in a few words what that was."""
        while True:
            now = self.around.clock.now()
            circumstances = await self.around.store.look(self.agent_id, now)
            if circumstances is None:
                return self._part_with_the_agent()
            self._take_note(circumstances)
            run = self.run
            is_over = run is None or run.result is not None
            if circumstances.state.run_id is not None and is_over:
                await self._store_end(circumstances, circumstances.state.run_id, run)
                continue
            if run is not None and run.result is not None:
                self._part_with(run)
            if circumstances.paused and self.run is not None and not self.run.stopping:
                # As a stop does, but nothing is stored of it: what is due when the pause ends still starts.
                self.run.stop(self.around.stop_grace_seconds)
            decision = self.decide(circumstances, now)
            wake = decision.due_wake(now)
            if wake is None or self.run is not None:
                outcome = await self._rest(circumstances, decision, now)
            elif self.around.may_start:
                outcome = await self._start_or_queue(circumstances, wake)
            elif circumstances.state.queued_at is None:
                # Due, as whoever scans then will find.
                outcome = await self._rest(circumstances, decision, now)
            else:
                return "waits until runs may start"
            if outcome is not None:
                return outcome

    async def look(self) -> Circumstances:
        """The agent's circumstances; raises AgentGone."""
        circumstances = await self.around.store.look(self.agent_id, self.around.clock.now())
        if circumstances is None:
            self.is_gone = True
            raise AgentGone("There is no such agent.")
        self._take_note(circumstances)
        return circumstances

    def decide(self, circumstances: Circumstances, now: datetime) -> Decision:
        """What the rules say. A hold that lasted its length is over, even if the wall clock was set back."""
        decision = decide(circumstances, now, self.around.policy)
        if decision.hold is None:
            self._hold_ends = None
            return decision
        due_at, clock = decision.hold.due_at, self.around.clock
        if self._hold_ends is None or self._hold_ends[0] != due_at:
            # Not by `now`: the look that it was for took its time. And no more than was left when its last
            # message came, which the wall clock, set back since, may say is yet to come.
            left = min(due_at - clock.now(), due_at - decision.hold.last_at)
            # The monotonic clock second, so that the hold is rather a moment too long than too short.
            self._hold_ends = (due_at, clock.monotonic() + max(left, timedelta()).total_seconds())
        if clock.monotonic() < self._hold_ends[1]:
            return decision
        return decide(circumstances, now, self.around.policy, hold_is_over=True)

    def by_both_clocks(self, decision: Decision, now: datetime) -> Decision:
        """The decision with the end of the hold as the wall clock will show it, should that have been set."""
        hold, wake = decision.hold, decision.wake
        if hold is None or wake is None or self._hold_ends is None or self._hold_ends[0] != hold.due_at:
            return decision
        ends_at = now + timedelta(seconds=self._hold_ends[1] - self.around.clock.monotonic())
        if wake.because is not Because.HOLD or abs(ends_at - hold.due_at) <= CLOCK_DRIFT:
            return decision
        return replace(decision, hold=replace(hold, due_at=ends_at), wake=replace(wake, at=ends_at))

    async def start(
        self, circumstances: Circumstances, reason: str, receipt: ReceiptOf | None = None
    ) -> Run | None:
        """Start a run if a slot is to be had and the claim succeeds: starting is the claim. Else None."""
        around, state, now = self.around, circumstances.state, self.around.clock.now()
        run_id = new_id()
        after = transitions.started(circumstances, run_id, reason, now)
        start = RunStart(
            run_id=run_id,
            wake_reason=reason,
            interrupted_sleep_until=after.last_wake_interrupted_sleep_until,
            max_sleep_until=after.max_sleep_until,
            started_at=now,
            trace_name=f"invoke_agent {circumstances.name}",
        )
        kept = receipt(RunReply(RunAnswer.STARTED, run_id)) if receipt else None
        claim = Move(state, after, guarded=False, start=start, receipt=kept)
        if not around.slots.take(self.agent_id):
            return None
        try:
            is_claimed = await around.store.move(claim)
        except BaseException:
            around.slots.release()
            raise
        if not is_claimed:
            around.slots.release()
            return None
        self.in_doubt = False
        run = Run(self.agent_id, start, active_count(circumstances), around.clock)
        run.is_capped = bool(circumstances.budgets)
        around.runs[self.agent_id] = run
        around.alarm_clock.forget(self.agent_id)
        self.phase = Phase.RUNNING
        await around.launch(run)
        return run

    async def queue(
        self, circumstances: Circumstances, transition: Transition, receipt: Receipt | None = None
    ) -> None:
        """Store that a start waits for a slot, and stand in line for one."""
        now = self.around.clock.now()

        def then_queued(seen: Circumstances) -> AgentState | None:
            after = transition(seen)
            return after and transitions.queued(after, now)

        await self.change(circumstances, then_queued, receipt=receipt)
        self.phase = Phase.QUEUED
        self.around.alarm_clock.forget(self.agent_id)
        self.around.slots.wait(self.agent_id, circumstances.organization_id)

    async def change(
        self,
        circumstances: Circumstances,
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
        now = now or self.around.clock.now()
        move = self._plan(circumstances, transition, end, receipt, now)
        if move is None:
            return None
        if not (_says_anything(move) or self.in_doubt):
            return move.after
        if await self.around.store.move(move):
            self.in_doubt = False
            return move.after
        async with self.around.store.locked(self.agent_id, now) as locked:
            if locked.circumstances is None:
                self.is_gone = True
                raise AgentGone("There is no such agent.")
            move = self._plan(locked.circumstances, transition, end, receipt, now)
            if move is None or not await locked.move(move):
                return None
        self.in_doubt = False
        return move.after

    def hold_back(self) -> datetime:
        """A message met a defect: look no more until the backoff is over; the moment of that."""
        self.defects += 1
        self.around.slots.leave(self.agent_id)
        delay = min(transitions.backoff(self.defects), LONGEST_HOLD_BACK)
        self.held_back_until = self.around.clock.monotonic() + delay.total_seconds()
        return self.around.clock.now() + delay

    def held_back_seconds(self) -> float:
        """For how long it is not to look, after a defect; 0 if it may."""
        left = self.held_back_until - self.around.clock.monotonic()
        return left if left > HELD_BACK_PRECISION_SECONDS else 0.0

    async def fail(self, error: str) -> datetime | None:
        """Count a defect where a restart finds it; when the agent is tried again (None: it is not asleep).

        The rules are not asked: they may be what failed.
        """
        seen, now = await self.look(), self.around.clock.now()
        if seen.state.status is not AgentStatus.SLEEPING:
            return None
        failed = transitions.failed(transitions.rested(seen.state), Outcome.FAILED, error, now, jitter=0)
        ahead = seen.state.next_due_at
        comes_first = failed.retry_at is not None and ahead is not None and now < ahead < failed.retry_at
        after = replace(failed, next_due_at=ahead if comes_first else failed.retry_at)
        move = Move(seen.state, after, guarded=False, remark=remark_on_quarantine(seen.state, after, now))
        if not await self.around.store.move(move):
            return None
        self.phase = Phase.QUARANTINED if is_quarantined(replace(seen, state=after)) else Phase.BACKING_OFF
        return after.retry_at

    def _take_note(self, circumstances: Circumstances) -> None:
        """Keep what is asked for between two looks."""
        self.organization_id = circumstances.organization_id
        if self.run is not None:
            self.run.is_capped = bool(circumstances.budgets)

    def _plan(
        self,
        seen: Circumstances,
        transition: Transition,
        end: RunEnd | None,
        receipt: Receipt | None,
        now: datetime,
    ) -> Move | None:
        after = transition(seen)
        if after is None:
            return None
        armed = transitions.armed(seen, after, now, self.around.policy)
        remark = remark_on(seen, armed, end, now, self.around.policy)
        return Move(seen.state, armed, guarded=True, end=end, receipt=receipt, remark=remark)

    async def _start_or_queue(self, circumstances: Circumstances, wake: Wake) -> str | None:
        """Start the run that is due, or stand in line. None: look again, something has moved."""
        run = await self.start(circumstances, wake.reason)
        if run is not None:
            return f"started: {wake.reason}"
        if self.around.slots.has_room():
            return None
        await self.queue(circumstances, lambda seen: seen.state)
        return f"queued: {wake.reason}"

    async def _rest(self, circumstances: Circumstances, decision: Decision, now: datetime) -> str | None:
        """Store when to look next, and set the alarm for it. None: look again, something has moved."""
        around, state = self.around, circumstances.state
        around.slots.leave(self.agent_id)
        rested = transitions.armed(circumstances, transitions.rested(state), now, around.policy)
        if rested != state or self.in_doubt:
            # By the same `now`: what is due but may not start is due by it; a later one would always differ.
            stored = await self.change(circumstances, lambda seen: transitions.rested(seen.state), now=now)
            if stored != rested:
                return None
        self.phase = decision.phase
        if decision.wake is None or decision.due_wake(now):
            around.alarm_clock.forget(self.agent_id)
        elif decision.hold and self._hold_ends and decision.wake.at == decision.hold.due_at:
            around.alarm_clock.set(self.agent_id, decision.wake.at, monotonic_at=self._hold_ends[1])
        else:
            around.alarm_clock.set(self.agent_id, decision.wake.at)
        return decision.phase

    async def _store_end(self, circumstances: Circumstances, run_id: UUID, run: Run | None) -> None:
        """Store how the run ended; one that this process knows nothing of was interrupted."""
        now = self.around.clock.now()
        result = run.result if run is not None and run.result else _unknown_end(circumstances)
        jitter = 0.0 if run is not None else self.around.random.uniform(0, self.around.recovery_seconds)
        end = RunEnd(run_id, result.outcome, now, run.turns if run else 0, result.error)

        def ended(seen: Circumstances) -> AgentState | None:
            if seen.state.run_id != run_id:
                return None
            return transitions.ended(
                seen, result.outcome, result.error, now, counts=result.counts, jitter=jitter
            )

        await self.change(circumstances, ended, end)

    def _part_with_the_agent(self) -> str:
        """The agent was deleted: nothing of it goes on."""
        self.around.slots.leave(self.agent_id)
        self.around.alarm_clock.forget(self.agent_id)
        run = self.run
        if run is not None and run.result is None:
            run.stop(self.around.stop_grace_seconds)
        elif run is not None:
            self._part_with(run)
        self.is_gone = True
        return "gone"

    def _part_with(self, run: Run) -> None:
        """The run is over, and its end is stored."""
        del self.around.runs[self.agent_id]
        run.settle()


def _says_anything(move: Move) -> bool:
    return move.after != move.before or move.end is not None or move.receipt is not None


def _unknown_end(circumstances: Circumstances) -> RunResult:
    if circumstances.state.stopped_at is not None or circumstances.paused:
        return RunResult(Outcome.STOPPED, "stopped")
    return RunResult(Outcome.INTERRUPTED, "interrupted: the service ended, or never learned of the run")
