"""The handlers of requests to a supervisor. Each reply is stored before it is given."""

from dataclasses import replace
from functools import partial

from storage.agent_facts import AgentFacts, AgentState, RunEnd
from storage.model import AgentStatus, Outcome
from supervisors.clock import Clock, wait_for_event
from supervisors.engine.effects import after_fields, after_status, answer_without_run
from supervisors.engine.lifecycle import Cause
from supervisors.engine.messages import (
    DeferredReply,
    OwnedFieldsRequest,
    Reply,
    Request,
    RestoreRequest,
    RunAnswer,
    RunReply,
    RunRequest,
    SleepGranted,
    SleepRefused,
    SleepReply,
    SleepRequest,
    StopReply,
    StopRequest,
    Unset,
)
from supervisors.engine.run import ActiveRun, journal_of
from supervisors.engine.supervisor import Supervisor
from supervisors.errors import NoStarts, RunIsOver
from supervisors.policy import transitions
from supervisors.policy.decisions import WakeReason, active_count, decide
from supervisors.policy.phases import Phase

MAX_BLOCKERS = 100
STOP_REPLY_SECONDS = 1.0
ABOUT_TO_START = frozenset({Phase.HOLDING, Phase.BACKING_OFF, Phase.QUARANTINED})


async def answer(supervisor: Supervisor, request: Request[Reply]) -> Reply | DeferredReply[Reply]:
    """Handle a request; raise SupervisorError if it is refused."""
    match request:
        case RunRequest():
            return await request_run(supervisor, request)
        case StopRequest():
            return await stop(supervisor, request)
        case RestoreRequest():
            return await restore(supervisor, request)
        case OwnedFieldsRequest():
            return await write_owned_fields(supervisor, request)
        case SleepRequest():
            return await request_sleep(supervisor, request)
    raise TypeError(f"No handler for {request!r}: add a case for its class.")


async def request_run(supervisor: Supervisor, request: RunRequest) -> RunReply:
    """Start a run, or store the request until one can start. Raise AgentArchived or NoStarts."""
    context = supervisor.context
    now, queued, cause = context.clock.now(), RunReply(RunAnswer.QUEUED), Cause(request.caller)

    def requested(seen: AgentFacts) -> AgentState:
        return transitions.run_requested(seen.state, now)

    while True:
        facts = await supervisor.get_facts()
        is_stopping = _is_stopping(supervisor, facts.state)
        refusal = answer_without_run(facts, now, wakeup=request.wakeup, run_is_stopping=is_stopping)
        if refusal is not None:
            return RunReply(refusal, facts.state.run_id if refusal is RunAnswer.ALREADY_RUNNING else None)
        if not context.may_start:
            raise NoStarts("No run may start now: the service is shutting down or is not the leader.")
        if supervisor.run is not None or facts.state.run_id is not None:
            await supervisor.change(facts, requested, receipt=request.receipt(queued), cause=cause)
            return queued
        run = await supervisor.start(facts, WakeReason.RUN_REQUESTED, request.receipt, cause)
        if run is not None:
            return RunReply(RunAnswer.STARTED, run.id)
        if not context.slots.has_room(facts.organization_id):
            await supervisor.queue(facts, requested, request.receipt(queued), cause)
            return queued


async def stop(supervisor: Supervisor, request: StopRequest) -> StopReply | DeferredReply[StopReply]:
    """End the run, or what is about to start one; leave a sleeping agent as it is.

    The reply to a stop that ends a run is deferred until the run has gone, for a second at most.
    """
    context = supervisor.context
    facts, now = await supervisor.get_facts(), context.clock.now()
    state, run = facts.state, supervisor.run
    if state.run_id is None and not _is_about_to_start(supervisor, facts):
        return StopReply.NOT_RUNNING
    is_stopping = state.run_id is not None and _is_stopping(supervisor, state)
    cause = Cause(request.caller, request.reason)
    await supervisor.change(
        facts, lambda seen: transitions.stopped(seen, now, request.reason), now=now, cause=cause
    )
    if state.run_id is not None and run is not None and run.result is None:
        run.stop(0 if request.force else context.stop_grace_seconds)
        if (is_stopping and not request.force) or not request.waits:
            return StopReply.STOPPING
        return DeferredReply(partial(_wait_until_stopped, run, context.clock), StopReply.STOPPING)
    await supervisor.reconcile()
    return StopReply.STOPPED


async def _wait_until_stopped(run: ActiveRun, clock: Clock) -> StopReply:
    is_gone = await wait_for_event(run.settled, STOP_REPLY_SECONDS, clock)
    return StopReply.STOPPED if is_gone else StopReply.STOPPING


def _is_stopping(supervisor: Supervisor, state: AgentState) -> bool:
    """Return whether the run was asked to stop; a restore or the end of a pause does not undo that."""
    return state.stopped_at is not None or (supervisor.run is not None and supervisor.run.is_stopping)


def _is_about_to_start(supervisor: Supervisor, facts: AgentFacts) -> bool:
    """Return whether a start is ahead that a stop would cancel, even if a pause or a budget delays it."""
    state, now = facts.state, supervisor.context.clock.now()
    if state.queued_at is not None or state.run_requested_at is not None:
        return True
    decision = decide(replace(facts.without_pause(), budgets=()), now, supervisor.context.policy)
    return decision.due_wake(now) is not None or decision.phase in ABOUT_TO_START


async def write_owned_fields(supervisor: Supervisor, owned: OwnedFieldsRequest) -> bool:
    """Write the fields that the supervisor owns: `paused`, then `status`, then `sleep_until`.

    Return the reply to the request. Raise AgentArchived.
    """
    changes = []
    if owned.status is not Unset.UNSET:
        if owned.paused is not Unset.UNSET:
            changes.append(await _write(supervisor, replace(owned, sleep_until=Unset.UNSET)))
        changes.append(await _change_status(supervisor, owned.status, owned.caller))
    changes.append(await _write(supervisor, owned))
    await supervisor.reconcile()
    return any(changes)


async def _write(supervisor: Supervisor, owned: OwnedFieldsRequest) -> bool:
    """Store `paused` and `sleep_until`, those that are to be written. Return whether `paused` changed."""
    if owned.paused is Unset.UNSET and owned.sleep_until is Unset.UNSET:
        return False
    facts, now = await supervisor.get_facts(), supervisor.context.clock.now()

    def written(seen: AgentFacts) -> AgentState:
        return after_fields(seen, now, paused=owned.paused, sleep_until=owned.sleep_until)

    after = await supervisor.change(facts, written, cause=Cause(owned.caller))
    return after is not None and after.paused != facts.state.paused


async def _change_status(supervisor: Supervisor, status: AgentStatus, caller: str) -> bool:
    """Do what a client asks for by writing `status`. Return whether the agent was archived or restored."""
    context, run = supervisor.context, supervisor.run
    facts, now = await supervisor.get_facts(), context.clock.now()
    if status is AgentStatus.RUNNING:
        try:
            await request_run(supervisor, RunRequest(caller=caller))
            return False
        except NoStarts:
            pass  # the rest of the write is stored already, so keep the request until runs may start
    elif status is AgentStatus.SLEEPING and facts.state.status is AgentStatus.RUNNING:
        await stop(supervisor, StopRequest(caller=caller))
        return False

    def written(seen: AgentFacts) -> AgentState | None:
        return after_status(seen, status, now, run_is_stopping=_is_stopping(supervisor, seen.state))

    after = await supervisor.change(facts, written, now=now, cause=Cause(caller))
    if after is not None and status is AgentStatus.ARCHIVED and run is not None:
        run.stop(context.stop_grace_seconds)
    return after is not None and status is not AgentStatus.RUNNING


async def restore(supervisor: Supervisor, request: RestoreRequest) -> bool:
    """Restore the agent if it is archived, and return whether it was; it wakes if something is active."""
    facts, now = await supervisor.get_facts(), supervisor.context.clock.now()

    def restored(seen: AgentFacts) -> AgentState | None:
        is_archived = seen.state.status is AgentStatus.ARCHIVED
        return transitions.restored(seen, now) if is_archived else None

    after = await supervisor.change(facts, restored, now=now, cause=Cause(request.caller))
    await supervisor.reconcile()
    return after is not None


async def request_sleep(supervisor: Supervisor, request: SleepRequest) -> SleepReply:
    """Grant sleep if no notification is active at the commit; raise RunIsOver if the run may not sleep."""
    context = supervisor.context
    facts, now = await supervisor.get_facts(), context.clock.now()
    run = supervisor.run
    if run is not None and run.learns_of_sleep(facts.state, now):
        # The answer to an earlier request was lost.
        return SleepGranted(facts.state.sleep_until, clamped=facts.state.sleep_until != request.until)
    journal = await journal_of(context.store, request.run_id, run)
    turns, output = (run.turns, run.output) if run else (0, "")
    end = RunEnd(request.run_id, Outcome.SLEPT, now, turns, "", journal, output)

    def slept(seen: AgentFacts) -> AgentState | None:
        if seen.state.run_id != request.run_id or seen.state.stopped_at is not None:
            raise RunIsOver("The run has ended or is being stopped.")
        return None if active_count(seen) else transitions.slept(seen, request.until, now)

    after = await supervisor.change(facts, slept, end, now=now, cause=Cause(f"run:{request.run_id}"))
    if after is not None:
        if run is not None:
            run.fall_asleep(now)
        return SleepGranted(after.sleep_until, clamped=after.sleep_until != request.until)
    blockers = await context.store.list_blockers(supervisor.agent_id, now, MAX_BLOCKERS)
    return SleepRefused(tuple(blockers))
