"""The actor of one agent: it reads the agent's facts, asks the rules, stores their decision, and acts on it.

`reconcile` does that, whatever the signal was: it stores the end of a run, starts or queues one, or rests
until the next wake. `change` is the way to the row for all but a start. `answer` handles requests, and stores
each reply before it is given.

Everything it keeps can be read again, so the registry may drop it and make a new one between two messages.
"""

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from storage.agent_facts import AgentFacts, AgentState, RunEnd, StateUpdate
from storage.errors import RunLimitReached
from storage.ids import new_id
from storage.model import AgentStatus, Outcome, Receipt
from supervisors.clock import Clock, wait_for_event
from supervisors.engine.context import SupervisorContext
from supervisors.engine.effects import after_fields, after_status, answer_without_run, is_about_to_start
from supervisors.engine.messages import (
    DeferredReply,
    OwnedFieldsRequest,
    PendingRequest,
    ReceiptOf,
    Reply,
    Request,
    RestoreRequest,
    RunAnswer,
    RunReply,
    RunRequest,
    Signal,
    SleepGranted,
    SleepRefused,
    SleepReply,
    SleepRequest,
    StopReply,
    StopRequest,
    Unset,
)
from supervisors.engine.run import ActiveRun, RunResult, end_of, unknown_end
from supervisors.engine.updates import (
    BY_RULE,
    Cause,
    Step,
    Transition,
    plan_crash,
    plan_start,
    plan_update,
    report_lost_run,
    report_run,
    report_update,
)
from supervisors.errors import AgentGone, NoStarts, RunIsOver
from supervisors.policy import transitions
from supervisors.policy.attendance import may_take_over
from supervisors.policy.decisions import (
    QUARANTINE_ATTEMPT_INTERVAL,
    Decision,
    WakeReason,
    active_count,
    calls_that_refuse_sleep,
    decide,
    phase_after_failure,
)
from supervisors.policy.phases import Phase

PHASES = frozenset(Phase)
CUT_SHORT = transitions.FAILURES | {Outcome.STOPPED}  # the outcomes that may leave spans open
MAX_BLOCKERS = 100
STOP_REPLY_SECONDS = 1.0
STOP_POLL_SECONDS = 0.1  # while a run of another node is being stopped
ELSEWHERE = "left to another node"


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
        "left_at",
        "message_log",
        "organization_id",
        "pause_seen_at",
        "requests",
        "signals",
        "version",
        "wake_seq",
    )

    def __init__(self, agent_id: UUID, context: SupervisorContext) -> None:
        self.agent_id = agent_id
        self.context = context
        self.signals: frozenset[Signal] = frozenset()  # that wait; all of them cause one reconcile
        self.requests: list[PendingRequest[Any]] = []  # that wait, the oldest first
        self.is_handling = False  # a task handles its messages
        self.has_uncertain_update = False  # one that timed out may still be committed, until a later one is
        self.is_gone = False  # its agent was deleted
        self.organization_id: UUID | None = None  # None until it has read the agent's facts
        self.crashes = 0  # in a row
        self.backing_off_until = 0.0  # after a crash: no reconcile before this moment of the monotonic clock
        self._phase: Phase | None = None  # None until it has read the agent's facts
        self.pause_seen_at: datetime | None = None  # when it saw a pause begin or end; None: it has seen none
        self.idle_since = 0.0  # on the monotonic clock
        self.version = self.wake_seq = -1  # of the row, as it last read or wrote it
        self.left_at = (-1, -1)  # these two of a row with this node, when it last left that to another
        self.message_log = b""  # packed by `messages.append_message`

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

    async def reconcile(self) -> str:
        """Read the agent's facts, do what the rules say, and describe that in a few words.

        Raise AgentGone.
        """
        outcome: str | None = None
        while outcome is None:
            now = self.context.clock.now()
            facts = await self.get_facts(now)
            run = self.run
            if run is not None:
                self._follow(facts, run, now)
            other = self._other_to_act(facts, now)
            if other is not None:
                return self._leave(facts.state, other)
            is_over = run is None or run.result is not None
            if facts.state.run_id is not None and is_over:
                await self._store_end(facts, facts.state.run_id, run)
                continue
            if run is not None and run.result is not None:
                self._remove(run)
            decision = decide(facts, now, self.context.policy)
            wake = decision.due_wake(now)
            may_not_begin = not self.context.may_start and facts.state.queued_at is None
            if wake is None or self.run is not None or may_not_begin:  # then it stays due for the scan
                outcome = await self._rest(facts, decision, now)
            elif not self.context.may_start:
                self.context.look_again(self.agent_id, now)
                outcome = "waits until runs may start"
            elif await self.start(facts, wake.reason) is not None:
                outcome = f"started: {wake.reason}"
            elif not self.context.slots.has_room(facts.organization_id):
                is_queued = await self.queue(facts, partial(self._still_due, now=now))
                outcome = f"queued: {wake.reason}" if is_queued else None
        return outcome

    def _still_due(self, seen: AgentFacts, *, now: datetime) -> AgentState | None:
        """Return the state as it is, or None if another node has started the agent meanwhile."""
        is_due = decide(seen, now, self.context.policy).due_wake(now) is not None
        return seen.state if is_due and seen.state.run_id is None else None

    def _follow(self, facts: AgentFacts, run: ActiveRun, now: datetime) -> None:
        """Have the run do what the row says, whoever has written that: it sleeps, or is to stop."""
        state = facts.state
        is_asleep = run.learns_of_sleep(state, now) or run.slept.is_set()
        if run.result is not None:
            return
        if not is_asleep and state.run_id != run.id:
            run.stop(0)  # the row has another run, or none: nothing more of this one is stored
        elif not run.is_stopping and (
            # Unlike a stop, a pause is not stored: what is due when it ends still starts a run.
            facts.is_paused
            or state.stopped_at is not None
            or state.status is AgentStatus.ARCHIVED
            or state.phase == Phase.STOPPING  # by a pause of another node that has ended already
        ):
            run.stop(self.context.stop_grace_seconds)

    def _other_to_act(self, facts: AgentFacts, now: datetime) -> int | None:
        """Return the node that acts on the agent, if it is not this one."""
        context, state = self.context, facts.state
        if context.view.is_elsewhere(state):
            has_room = context.slots.is_reserved(self.agent_id) or context.has_room(facts.organization_id)
            if not may_take_over(state, now, has_room=has_room):
                return state.node_id
        # While the row says that a run is here, all other nodes leave the agent to this one.
        is_run_of_row = state.node_id == context.nodes.node_id and (state.run_id is not None or state.lingers)
        is_run_going_on = self.run is not None and self.run.result is None
        if context.nodes.starts_runs or is_run_going_on or is_run_of_row:
            return None
        return context.responsible_elsewhere(self.agent_id)

    def _leave(self, state: AgentState, node_id: int) -> str:
        """Leave the agent to another node, and let its supervisor there look.

        A node that does not know yet that this one leaves tells it to look itself. So that the two do not go
        on like that, the other is told of each version of the row once; it looks when it knows.
        """
        context, run = self.context, self.run
        if run is not None and run.result is not None:
            self._remove(run)
        context.slots.leave(self.agent_id)
        context.timer_queue.cancel(self.agent_id)
        self.phase = Phase(state.phase) if state.phase in PHASES else Phase.ASLEEP
        version = (state.version, state.wake_seq)
        if state.node_id != context.nodes.node_id or version != self.left_at:
            context.ring(node_id, Signal.RELOAD, self.agent_id)
        if state.node_id == context.nodes.node_id:
            self.left_at = version
        return ELSEWHERE

    async def get_facts(self, now: datetime | None = None) -> AgentFacts:
        """Read the agent's facts, as they are by `now`; raise AgentGone if it was deleted."""
        found = await self.context.store.get_facts(self.agent_id, now or self.context.clock.now())
        return self._remember(found)

    async def start(
        self, facts: AgentFacts, reason: str, receipt: ReceiptOf | None = None, cause: Cause = BY_RULE
    ) -> ActiveRun | None:
        """Start a run if a slot is free and the update succeeds, which is the claim; else return None."""
        context, run_id, now = self.context, new_id(), self.context.clock.now()
        if not context.slots.take(self.agent_id, facts.organization_id):
            return None
        admissions = context.slots.admissions
        try:
            stored_receipt = receipt(RunReply(RunAnswer.STARTED, run_id)) if receipt else None
            limits = context.limits_of(facts.organization_id)
            step = Step(now, limits, context.view, actor=cause.caller, receipt=stored_receipt)
            claim = plan_start(facts, run_id, reason, context.policy, step)
            is_claimed = await context.claim(claim, facts.organization_id)
        except RunLimitReached as error:
            context.give_way(facts.organization_id, error.next_ids, admissions)
            return None
        except BaseException:
            context.slots.release(facts.organization_id)
            raise
        if not is_claimed or claim.start is None:
            context.slots.release(facts.organization_id)
            return None
        self._on_stored(facts, claim, cause)
        run = context.runs[self.agent_id] = ActiveRun(facts, claim.start, context.clock, context.nodes)
        wake = decide(facts, now, context.policy).due_wake(now)
        if wake is not None and facts.state.phase != Phase.PAUSED:  # the end of a pause makes it due
            run.due_at = wake.at
        context.timer_queue.cancel(self.agent_id)
        self.phase = Phase.RUNNING
        await context.launch(run)
        return run

    async def queue(
        self,
        facts: AgentFacts,
        transition: Transition,
        receipt: Receipt | None = None,
        cause: Cause = BY_RULE,
    ) -> bool:
        """Store that a start waits for a slot, and wait for one; return whether `transition` allowed it."""
        now = self.context.clock.now()

        def queued(seen: AgentFacts) -> AgentState | None:
            after = transition(seen)
            return transitions.queued(after, now) if after and after.run_id is None else after

        after = await self.change(facts, queued, receipt=receipt, now=now, cause=cause)
        if after is None:
            return False
        self.phase = Phase.QUEUED
        if not self.context.view.is_elsewhere(after):  # else it waits in the queue of its attendant
            self.context.timer_queue.cancel(self.agent_id)
            self.context.slots.wait(self.agent_id, facts.organization_id)
        return True

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

        If the row has changed since `facts` were read, the change is planned again under lock, so that
        constant traffic cannot outrun the agent.
        """
        step = self._step(facts, now or self.context.clock.now(), cause, end, receipt)
        update = plan_update(facts, transition, self.context.policy, step)
        if update is None:
            return None
        is_void = update.after == update.before and update.end is None and update.receipt is None
        if is_void and not self.has_uncertain_update:
            return update.after
        if not await self.context.store.update(update):
            async with self.context.store.locked(self.agent_id, step.now) as locked:
                facts = self._remember(locked.facts)
                update = plan_update(facts, transition, self.context.policy, step)
                if update is None or not await locked.update(update):
                    return None
        self._on_stored(facts, update, cause)
        return update.after

    def _step(
        self, facts: AgentFacts, now: datetime, cause: Cause, end: RunEnd | None, receipt: Receipt | None
    ) -> Step:
        context, run = self.context, self.run
        return Step(
            now,
            context.limits_of(facts.organization_id),
            context.view,
            end=end,
            actor=cause.caller,
            receipt=receipt,
            stopping_run=run.id if run is not None and run.is_stopping else None,
            lingers=run is not None and run.may_linger and run.result is None,
            has_room=context.view.is_elsewhere(facts.state) and context.has_room(facts.organization_id),
        )

    def _on_stored(self, facts: AgentFacts, update: StateUpdate, cause: Cause = BY_RULE) -> None:
        """Log a stored update, and count it if it begins a quarantine."""
        self.has_uncertain_update = False
        self.version = update.before.version + 1
        report_update(facts, update, cause)
        if update.before.node_id is not None and self.context.view.is_elsewhere(update.before):
            self.context.ring(update.before.node_id, Signal.RELOAD, self.agent_id)
        slots = self.context.slots
        if update.end is not None and slots.organization_limit:
            slots.admit(facts.organization_id)
        if transitions.is_newly_quarantined(update.before, update.after):
            self.context.count_quarantine()

    def back_off(self) -> datetime:
        """Count a crash; return when the agent may be reconciled again."""
        self.crashes += 1
        self.context.slots.leave(self.agent_id)
        delay = min(transitions.backoff(self.crashes), QUARANTINE_ATTEMPT_INTERVAL)
        self.backing_off_until = self.context.clock.monotonic() + delay.total_seconds()
        return self.context.clock.now() + delay

    async def fail(self, error: str) -> datetime | None:
        """Store a crash as a failure of the agent; return when it is retried, or None if it does not sleep.

        The rules are not asked, because they may be what crashed.
        """
        facts, now = await self.get_facts(), self.context.clock.now()
        if facts.state.status is not AgentStatus.SLEEPING or self.context.view.is_elsewhere(facts.state):
            return None
        after = transitions.crashed(facts.state, error, now)
        limits = self.context.limits_of(facts.organization_id)
        update = plan_crash(facts, after, Step(now, limits, self.context.view))
        if not await self.context.store.update(update):
            return None
        self._on_stored(facts, update)
        self.phase = phase_after_failure(replace(facts, state=after))
        return after.retry_at

    def _remember(self, facts: AgentFacts | None) -> AgentFacts:
        """Keep what is needed before the facts are read again; return them.

        Without facts the agent was deleted: stop its run, leave the slots and the timer, and raise AgentGone.
        """
        if facts is None:
            self._on_agent_deleted()
            raise AgentGone("There is no such agent.")
        self.organization_id = facts.organization_id
        self.version, self.wake_seq = facts.state.version, facts.state.wake_seq
        if self.run is not None:
            self.run.is_capped = bool(facts.budgets)
        return facts

    async def _rest(self, facts: AgentFacts, decision: Decision, now: datetime) -> str | None:
        """Store and schedule the next wake. Return None if the agent's state has changed."""
        context = self.context
        context.slots.leave(self.agent_id)
        # Reuse `now`: it is the due time of an agent that may not start, and a later one would differ.
        after = await self.change(facts, lambda seen: replace(seen.state, queued_at=None), now=now)
        if after is None or (after.version, after.wake_seq) != (facts.state.version, facts.state.wake_seq):
            return None
        self.phase, is_due, next_at = decision.phase, decision.due_wake(now) is not None, decision.next_at
        if is_due and self.run is None and not context.may_start:
            context.look_again(self.agent_id, now)
        elif is_due or next_at is None or context.leaves_timer(after, next_at):
            context.timer_queue.cancel(self.agent_id)
        else:
            context.timer_queue.schedule(self.agent_id, next_at)
        return decision.phase

    async def _store_end(self, facts: AgentFacts, run_id: UUID, run: ActiveRun | None) -> None:
        """Store how the run ended; a run that this process does not know was interrupted."""
        now = self.context.clock.now()
        result = run.result if run is not None and run.result else unknown_end(facts)
        jitter = 0.0 if run is not None else self.context.random.uniform(0, self.context.recovery_seconds)
        end = await end_of(self.context.store, run_id, run, result, now)

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

    def _on_agent_deleted(self) -> None:
        self.context.slots.leave(self.agent_id)
        self.context.timer_queue.cancel(self.agent_id)
        run = self.run
        if run is not None and run.result is None:
            run.stop(self.context.stop_grace_seconds)
        elif run is not None:
            self._remove(run)
        self.is_gone = True

    def _remove(self, run: ActiveRun) -> None:
        """Forget a run that is over and whose end is stored."""
        del self.context.runs[self.agent_id]
        report_run(run)
        run.settle()

    # What it can be asked. Each reply is stored before it is given.

    async def answer(self, request: Request[Reply]) -> Reply | DeferredReply[Reply]:
        """Handle a request; raise SupervisorError if it is refused."""
        match request:
            case RunRequest():
                return await self._request_run(request)
            case StopRequest():
                return await self._stop(request)
            case RestoreRequest():
                return await self._restore(request)
            case OwnedFieldsRequest():
                return await self._write_owned_fields(request)
            case SleepRequest():
                return await self._request_sleep(request)
        raise TypeError(f"No handler for {request!r}: add a case for its class.")

    async def _request_run(self, request: RunRequest) -> RunReply:
        """Start a run, or store the request until one can start. Raise AgentArchived or NoStarts."""
        context = self.context
        now, queued, cause = context.clock.now(), RunReply(RunAnswer.QUEUED), Cause(request.caller)

        def requested(seen: AgentFacts) -> AgentState:
            return transitions.run_requested(seen.state, now)

        while True:
            facts = await self.get_facts()
            is_stopping = self._is_stopping(facts.state)
            refusal = answer_without_run(facts, now, wakeup=request.wakeup, run_is_stopping=is_stopping)
            if refusal is not None:
                return RunReply(refusal, facts.state.run_id if refusal is RunAnswer.ALREADY_RUNNING else None)
            if not context.may_start:
                other = context.responsible_elsewhere(self.agent_id)
                if other is None:
                    raise NoStarts("No run may start now.")
                await self.change(facts, requested, receipt=request.receipt(queued), cause=cause)
                context.ring(other, Signal.RELOAD, self.agent_id)
                return queued
            lingers = facts.state.lingers and context.view.is_elsewhere(facts.state)
            if self.run is not None or facts.state.run_id is not None or lingers:
                after = await self.change(facts, requested, receipt=request.receipt(queued), cause=cause)
                if self.run is None and after is not None and after.run_id is None and not after.lingers:
                    await self.reconcile()  # what it had to wait for ended before the request was stored
                return queued
            run = await self.start(facts, WakeReason.RUN_REQUESTED, request.receipt, cause)
            if run is not None:
                return RunReply(RunAnswer.STARTED, run.id)
            if not context.slots.has_room(facts.organization_id):
                await self.queue(facts, requested, request.receipt(queued), cause)
                return queued

    async def _stop(self, request: StopRequest) -> StopReply | DeferredReply[StopReply]:
        """End the run, or what is about to start one; leave a sleeping agent as it is.

        The reply to a stop that ends a run is deferred until the run has gone, for a second at most.
        """
        context = self.context
        facts, now = await self.get_facts(), context.clock.now()
        state, run = facts.state, self.run
        if state.run_id is None and not is_about_to_start(facts, context.clock.now(), context.policy):
            return StopReply.NOT_RUNNING
        is_stopping = state.run_id is not None and self._is_stopping(state)
        cause = Cause(request.caller, request.reason)
        after = await self.change(
            facts, lambda seen: transitions.stopped(seen, now, request.reason), now=now, cause=cause
        )
        state = after or state  # another node may have started or ended a run since the facts were read
        if state.run_id is not None and run is None and context.view.is_elsewhere(state):
            if request.force and state.node_id is not None:
                context.ring(state.node_id, Signal.FORCED, self.agent_id)
            wait = partial(self._wait_until_gone, state.run_id)
        elif state.run_id is not None and run is not None and run.result is None:
            run.stop(0 if request.force else context.stop_grace_seconds)
            wait = partial(_wait_until_stopped, run, context.clock)
        else:
            await self.reconcile()
            return StopReply.STOPPED
        if (is_stopping and not request.force) or not request.waits:
            return StopReply.STOPPING
        return DeferredReply(wait, StopReply.STOPPING)

    def _is_stopping(self, state: AgentState) -> bool:
        """Return whether the run was asked to stop; a restore or the end of a pause does not undo that."""
        if state.stopped_at is not None or (self.run is not None and self.run.is_stopping):
            return True
        return state.phase == Phase.STOPPING and self.context.view.is_elsewhere(state)

    async def _wait_until_gone(self, run_id: UUID) -> StopReply:
        """Wait until the row says that a run of another node has ended, but not for long."""
        context = self.context
        deadline = context.clock.monotonic() + STOP_REPLY_SECONDS
        while context.clock.monotonic() < deadline:
            await context.clock.sleep(STOP_POLL_SECONDS)
            facts = await context.store.get_facts(self.agent_id, context.clock.now())
            if facts is None or (facts.state.run_id != run_id and not facts.state.lingers):
                return StopReply.STOPPED
        return StopReply.STOPPING

    async def _write_owned_fields(self, owned: OwnedFieldsRequest) -> bool:
        """Write the fields that the supervisor owns: `paused`, then `status`, then `sleep_until`.

        Return the reply to the request. Raise AgentArchived.
        """
        changes = []
        if owned.status is not Unset.UNSET:
            if owned.paused is not Unset.UNSET:
                changes.append(await self._write(replace(owned, sleep_until=Unset.UNSET)))
            changes.append(await self._change_status(owned.status, owned.caller))
        changes.append(await self._write(owned))
        await self.reconcile()
        return any(changes)

    async def _write(self, owned: OwnedFieldsRequest) -> bool:
        """Store `paused` and `sleep_until`, those that are to be written. Return whether `paused` changed."""
        if owned.paused is Unset.UNSET and owned.sleep_until is Unset.UNSET:
            return False
        facts, now = await self.get_facts(), self.context.clock.now()

        def written(seen: AgentFacts) -> AgentState:
            return after_fields(seen, now, paused=owned.paused, sleep_until=owned.sleep_until)

        after = await self.change(facts, written, cause=Cause(owned.caller))
        return after is not None and after.paused != facts.state.paused

    async def _change_status(self, status: AgentStatus, caller: str) -> bool:
        """Do what a client asks for by writing `status`. Return whether it archived or restored the agent."""
        context, run = self.context, self.run
        facts, now = await self.get_facts(), context.clock.now()
        if status is AgentStatus.RUNNING:
            try:
                await self._request_run(RunRequest(caller=caller))
                return False
            except NoStarts:
                pass  # the rest of the write is stored already, so keep the request until runs may start
        elif status is AgentStatus.SLEEPING and facts.state.status is AgentStatus.RUNNING:
            await self._stop(StopRequest(caller=caller))
            return False

        def written(seen: AgentFacts) -> AgentState | None:
            return after_status(seen, status, now, run_is_stopping=self._is_stopping(seen.state))

        after = await self.change(facts, written, now=now, cause=Cause(caller))
        if after is not None and status is AgentStatus.ARCHIVED and run is not None:
            run.stop(context.stop_grace_seconds)
        return after is not None and status is not AgentStatus.RUNNING

    async def _restore(self, request: RestoreRequest) -> bool:
        """Restore the agent if it is archived, and return whether it was; it wakes if something is active."""
        facts, now = await self.get_facts(), self.context.clock.now()

        def restored(seen: AgentFacts) -> AgentState | None:
            is_archived = seen.state.status is AgentStatus.ARCHIVED
            return transitions.restored(seen, now) if is_archived else None

        after = await self.change(facts, restored, now=now, cause=Cause(request.caller))
        await self.reconcile()
        return after is not None

    async def _request_sleep(self, request: SleepRequest) -> SleepReply:
        """Grant sleep if nothing is active at the commit. Raise RunIsOver if the run may not sleep."""
        context = self.context
        facts, now = await self.get_facts(), context.clock.now()
        run = self.run
        if run is not None and run.learns_of_sleep(facts.state, now):
            # The answer to an earlier request was lost.
            return SleepGranted(facts.state.sleep_until, clamped=facts.state.sleep_until != request.until)
        if run is not None and run.id == request.run_id and run.failed_calls and not active_count(facts):
            refused = await self._refuse_for_failed_calls(run, request, facts, now)
            if refused is not None:
                return refused
        end = await end_of(context.store, request.run_id, run, RunResult(Outcome.SLEPT), now)

        def slept(seen: AgentFacts) -> AgentState | None:
            if seen.state.run_id != request.run_id or seen.state.stopped_at is not None:
                raise RunIsOver("The run has ended or is being stopped.")
            return None if active_count(seen) else transitions.slept(seen, request.until, now)

        after = await self.change(facts, slept, end, now=now, cause=Cause(f"run:{request.run_id}"))
        if after is not None:
            if run is not None:
                run.fall_asleep(now)
            return SleepGranted(after.sleep_until, clamped=after.sleep_until != request.until)
        blockers = await context.store.list_blockers(self.agent_id, now, MAX_BLOCKERS)
        return SleepRefused(tuple(blockers))

    async def _refuse_for_failed_calls(
        self, run: ActiveRun, request: SleepRequest, facts: AgentFacts, now: datetime
    ) -> SleepRefused | None:
        """Return the refusal if the run may take another turn after calls of this one have failed.

        The wished time is kept for a run that ends without asking again: it might never wake otherwise.
        """
        has_turn_left = not (run.is_last_turn or run.is_stopping or run.is_draining)
        failed = calls_that_refuse_sleep(run.failed_calls, run.sleep_refusals, has_turn_left=has_turn_left)
        if not failed:
            return None
        run.sleep_refusals += 1
        kept = partial(transitions.rescheduled, until=request.until, now=now)
        await self.change(facts, kept, now=now, cause=Cause(f"run:{request.run_id}"))
        return SleepRefused(failed_calls=failed)


async def _wait_until_stopped(run: ActiveRun, clock: Clock) -> StopReply:
    is_gone = await wait_for_event(run.settled, STOP_REPLY_SECONDS, clock)
    return StopReply.STOPPED if is_gone else StopReply.STOPPING
