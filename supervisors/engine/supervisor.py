"""The actor of one agent: it reads the agent's facts, asks the rules, stores their decision, and acts on it.

Everything it keeps can be read again, so the registry may drop it and make a new one between two messages.
"""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from storage.agent_facts import AgentFacts, AgentState, RunEnd, StateUpdate
from storage.ids import new_id
from storage.model import AgentStatus, Outcome, Receipt
from supervisors.engine.context import SupervisorContext
from supervisors.engine.lifecycle import BY_RULE, Cause, report_lost_run, report_run, report_update
from supervisors.engine.messages import Mailbox, ReceiptOf, RunAnswer, RunReply
from supervisors.engine.run import ActiveRun, begun_run, journal_of, unknown_end
from supervisors.engine.update_plans import (
    Change,
    Transition,
    plan_crash,
    plan_start,
    plan_update,
    start_of,
)
from supervisors.errors import AgentGone
from supervisors.policy import transitions
from supervisors.policy.decisions import (
    QUARANTINE_ATTEMPT_INTERVAL as MAX_CRASH_BACKOFF,
)
from supervisors.policy.decisions import Decision, Wake, decide, phase_after_failure
from supervisors.policy.phases import Phase
from supervisors.policy.record import Step

BACKOFF_PRECISION_SECONDS = 0.001  # timers are set by the wall clock, which is exact to a microsecond only

CUT_SHORT = transitions.FAILURES | {Outcome.STOPPED}  # the outcomes that may leave spans open


class Supervisor:
    """One agent's supervisor. Its messages are handled one at a time, in order, by the registry."""

    __slots__ = (
        "_phase",
        "agent_id",
        "backing_off_until",
        "context",
        "crashes",
        "has_uncertain_update",
        "idle_since",
        "is_gone",
        "is_handling",
        "mailbox",
        "message_log",
        "organization_id",
        "pause_seen_at",
    )

    def __init__(self, agent_id: UUID, context: SupervisorContext) -> None:
        self.agent_id = agent_id
        self.context = context
        self.mailbox = Mailbox()
        self.is_handling = False  # a task handles its messages
        self.has_uncertain_update = False  # one that timed out may still be committed, until a later one is
        self.is_gone = False  # its agent was deleted
        self.organization_id: UUID | None = None  # None until it has read the agent's facts
        self.crashes = 0  # in a row
        self.backing_off_until = 0.0  # after a crash: no reconcile before this moment of the monotonic clock
        self._phase: Phase | None = None  # None until it has read the agent's facts
        self.pause_seen_at: datetime | None = None  # when it saw a pause begin or end; None: it has seen none
        self.idle_since = 0.0  # on the monotonic clock
        self.message_log = b""  # packed by `message_log.append_message`

    @property
    def phase(self) -> Phase:
        """Return the phase of the agent when the supervisor last read its facts."""
        return self._phase or Phase.ASLEEP

    @phase.setter
    def phase(self, phase: Phase) -> None:
        if self._phase is not None and (phase is Phase.PAUSED) != (self._phase is Phase.PAUSED):
            self.pause_seen_at = self.context.clock.now()
        self._phase = phase

    @property
    def run(self) -> ActiveRun | None:
        """Return the agent's run in this process, until its end is stored and its job is over."""
        return self.context.runs.get(self.agent_id)

    @property
    def has_active_run(self) -> bool:
        """Return whether a run is being executed; its end will cause a reconcile."""
        return self.run is not None and self.run.result is None

    async def reconcile(self) -> str:
        """Read the agent's facts, do what the rules say, and describe that in a few words."""
        outcome: str | None = None
        while outcome is None:
            found, now = await self._read()
            if found is None:
                return self._on_agent_deleted()
            facts = self._remember(found)
            run = self.run
            if run is not None:
                run.learns_of_sleep(facts.state, now)
            is_over = run is None or run.result is not None
            if facts.state.run_id is not None and is_over:
                await self._store_end(facts, facts.state.run_id, run)
                continue
            if run is not None and run.result is not None:
                self._remove(run)
            if facts.is_paused and self.run is not None and not self.run.is_stopping:
                # Unlike a stop, this is not stored: what is due when the pause ends still starts a run.
                self.run.stop(self.context.stop_grace_seconds)
            decision = decide(facts, now, self.context.policy)
            wake = decision.due_wake(now)
            if wake is None or self.run is not None:
                outcome = await self._rest(facts, decision, now)
            elif self.context.may_start:
                outcome = await self._start_or_queue(facts, wake)
            elif facts.state.queued_at is None:
                # No run may start now. The agent stays due, so the scan finds it when runs may start.
                outcome = await self._rest(facts, decision, now)
            else:
                outcome = "waits until runs may start"
        return outcome

    async def get_facts(self) -> AgentFacts:
        """Read the agent's facts; raise AgentGone if it was deleted."""
        facts, _ = await self._read()
        if facts is None:
            self.is_gone = True
            raise AgentGone("There is no such agent.")
        return self._remember(facts)

    async def start(
        self, facts: AgentFacts, reason: str, receipt: ReceiptOf | None = None, cause: Cause = BY_RULE
    ) -> ActiveRun | None:
        """Start a run if a slot is free and the update succeeds, which is the claim; else return None."""
        context, run_id, now = self.context, new_id(), self.context.clock.now()
        if not context.slots.take(self.agent_id, facts.organization_id):
            return None
        try:
            after = transitions.started(facts, run_id, reason, now)
            start = start_of(after, run_id, now, facts.name)
            stored_receipt = receipt(RunReply(RunAnswer.STARTED, run_id)) if receipt else None
            step = Step(now, context.limits_of(facts.organization_id), start=start, actor=cause.caller)
            claim = plan_start(facts, after, context.policy, step, stored_receipt)
            is_claimed = await context.store.update(claim)
        except BaseException:
            context.slots.release(facts.organization_id)
            raise
        if not is_claimed:
            context.slots.release(facts.organization_id)
            return None
        self._on_stored(facts, claim, cause)
        run = context.runs[self.agent_id] = begun_run(facts, start, context.clock)
        context.timer_queue.cancel(self.agent_id)
        self.phase = Phase.RUNNING
        await context.launch(run, facts.organization_id)
        return run

    async def queue(
        self,
        facts: AgentFacts,
        transition: Transition,
        receipt: Receipt | None = None,
        cause: Cause = BY_RULE,
    ) -> None:
        """Store that a start waits for a slot, and wait for one."""
        now = self.context.clock.now()

        def queued(seen: AgentFacts) -> AgentState | None:
            after = transition(seen)
            return after and transitions.queued(after, now)

        await self.change(facts, queued, receipt=receipt, now=now, cause=cause)
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
        cause: Cause = BY_RULE,
    ) -> AgentState | None:
        """Store the state that `transition` returns, with `end` and `receipt`; return it, or None if none is.

        `now` is the time that the next wake is computed from: the present, unless a decision was already made
        with another. `cause` says who asked for the change. Raise AgentGone.
        """
        change = Change(transition, now or self.context.clock.now(), end, receipt, cause)
        update = self._plan(facts, change)
        return None if update is None else await self._carry_out(facts, update, change)

    async def _carry_out(self, facts: AgentFacts, update: StateUpdate, change: Change) -> AgentState | None:
        """Store the update that was planned for the change; return the state that is stored, or None.

        If the row has changed since `facts` were read, the change is planned again under lock, so that
        constant traffic cannot outrun the agent.
        """
        if not (update.has_effect or self.has_uncertain_update):
            return update.after
        if not await self.context.store.update(update):
            async with self.context.store.locked(self.agent_id, change.now) as locked:
                if locked.facts is None:
                    self.is_gone = True
                    raise AgentGone("There is no such agent.")
                facts = self._remember(locked.facts)
                planned = self._plan(facts, change)
                if planned is None or not await locked.update(planned):
                    return None
                update = planned
        self._on_stored(facts, update, change.cause)
        return update.after

    def _on_stored(self, facts: AgentFacts, update: StateUpdate, cause: Cause = BY_RULE) -> None:
        """Log a stored update, and count it if it begins a quarantine."""
        self.has_uncertain_update = False
        report_update(facts, update, cause)
        if transitions.is_newly_quarantined(update.before, update.after):
            self.context.count_quarantine()

    def back_off(self) -> datetime:
        """Count a crash; return when the agent may be reconciled again."""
        self.crashes += 1
        self.context.slots.leave(self.agent_id)
        delay = min(transitions.backoff(self.crashes), MAX_CRASH_BACKOFF)
        self.backing_off_until = self.context.clock.monotonic() + delay.total_seconds()
        return self.context.clock.now() + delay

    def backoff_seconds_left(self) -> float:
        """Return how many seconds of the backoff after a crash remain; 0 if there is none."""
        remaining = self.backing_off_until - self.context.clock.monotonic()
        return remaining if remaining > BACKOFF_PRECISION_SECONDS else 0.0

    async def fail(self, error: str) -> datetime | None:
        """Store a crash as a failure of the agent; return when it is retried, or None if it does not sleep.

        The rules are not asked, because they may be what crashed.
        """
        facts, now = await self.get_facts(), self.context.clock.now()
        if facts.state.status is not AgentStatus.SLEEPING:
            return None
        after = transitions.crashed(facts.state, error, now)
        update = plan_crash(facts, after, Step(now, self.context.limits_of(facts.organization_id)))
        if not await self.context.store.update(update):
            return None
        self._on_stored(facts, update)
        self.phase = phase_after_failure(replace(facts, state=after))
        return after.retry_at

    async def _read(self) -> tuple[AgentFacts | None, datetime]:
        """Read the agent's facts, and return them with their time."""
        now = self.context.clock.now()
        return await self.context.store.get_facts(self.agent_id, now), now

    def _remember(self, facts: AgentFacts) -> AgentFacts:
        """Keep what is needed before the facts are read again; return them."""
        self.organization_id = facts.organization_id
        if self.run is not None:
            self.run.is_capped = bool(facts.budgets)
        return facts

    def _plan(self, seen: AgentFacts, change: Change) -> StateUpdate | None:
        after = change.transition(seen)
        if after is None:
            return None
        run, limits = self.run, self.context.limits_of(seen.organization_id)
        is_stopping = run is not None and run.is_stopping and run.id == after.run_id
        step = Step(
            change.now, limits, end=change.end, actor=change.cause.caller, run_is_stopping=is_stopping
        )
        return plan_update(seen, after, self.context.policy, step, change.receipt)

    async def _start_or_queue(self, facts: AgentFacts, wake: Wake) -> str | None:
        """Start the run that is due, or queue it. Return None if the agent's state has changed."""
        run = await self.start(facts, wake.reason)
        if run is not None:
            return f"started: {wake.reason}"
        if self.context.slots.has_room(facts.organization_id):
            return None
        await self.queue(facts, lambda seen: seen.state)
        return f"queued: {wake.reason}"

    async def _rest(self, facts: AgentFacts, decision: Decision, now: datetime) -> str | None:
        """Store and schedule the next wake. Return None if the agent's state has changed."""
        context = self.context
        context.slots.leave(self.agent_id)
        # Reuse `now`: it is the due time of an agent that may not start, and a later one would differ.
        change = Change(lambda seen: transitions.dequeued(seen.state), now)
        rested = self._plan(facts, change)
        is_stored = rested is not None and await self._carry_out(facts, rested, change) == rested.after
        return self._lie_down(decision, now) if is_stored else None

    def _lie_down(self, decision: Decision, now: datetime) -> str:
        """Set the timer for the wake of an agent whose state is stored."""
        self.phase = decision.phase
        if decision.next_at is None or decision.due_wake(now):
            self.context.timer_queue.cancel(self.agent_id)
        else:
            self.context.timer_queue.schedule(self.agent_id, decision.next_at)
        return decision.phase

    async def _store_end(self, facts: AgentFacts, run_id: UUID, run: ActiveRun | None) -> None:
        """Store how the run ended; a run that this process does not know was interrupted."""
        now = self.context.clock.now()
        result = run.result if run is not None and run.result else unknown_end(facts)
        jitter = 0.0 if run is not None else self.context.random.uniform(0, self.context.recovery_seconds)
        journal = await journal_of(self.context.store, run_id, run)
        turns, output = (run.turns, run.output) if run else (0, "")
        end = RunEnd(run_id, result.outcome, now, turns, result.error, journal, output)

        def ended(seen: AgentFacts) -> AgentState | None:
            if seen.state.run_id != run_id:
                return None
            return transitions.ended(
                seen, result.outcome, result.error, now, counts=result.counts_as_failure, jitter=jitter
            )

        if result.outcome in CUT_SHORT or (run is not None and run.has_open_spans):
            # First: once the end is stored, nothing would repeat this after a crash.
            await self.context.store.end_open_spans(run_id, now)
        if await self.change(facts, ended, end, now=now) is not None and run is None:
            report_lost_run(facts, end)

    def _on_agent_deleted(self) -> str:
        """Stop the run, and leave the slots and the timer."""
        self.context.slots.leave(self.agent_id)
        self.context.timer_queue.cancel(self.agent_id)
        run = self.run
        if run is not None and run.result is None:
            run.stop(self.context.stop_grace_seconds)
        elif run is not None:
            self._remove(run)
        self.is_gone = True
        return "gone"

    def _remove(self, run: ActiveRun) -> None:
        """Forget a run that is over and whose end is stored."""
        del self.context.runs[self.agent_id]
        report_run(run)
        run.settle()
