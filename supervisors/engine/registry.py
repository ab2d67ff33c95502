"""The owner of all supervisors: makes one when its agent is spoken to, drops it when it has been idle.

PostgreSQL is the directory of agents; an agent that nothing happens to costs nothing here.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import aiojobs
import structlog

from storage.errors import AnsweredBefore, DatabaseUnavailable, LeadershipLost
from storage.model import Counts, Outcome
from supervisors.clock import Clock, comes_within
from supervisors.engine import inspection
from supervisors.engine.mailbox import PendingRequest
from supervisors.engine.message_log import remember
from supervisors.engine.messages import Request, Signal, StopReply
from supervisors.engine.requests import BLOCKERS_SHOWN, StopPending, answer
from supervisors.engine.run import ActiveRun, Harness, all_settled
from supervisors.engine.run_slots import RunSlots
from supervisors.engine.snapshot import Overview, RunTotals, Snapshot
from supervisors.engine.supervisor import RECOVERY_SECONDS, Supervisor, SupervisorContext
from supervisors.engine.timer_queue import TimerQueue
from supervisors.errors import AgentGone, SupervisorError
from supervisors.policy.decisions import active_count, policy_of
from supervisors.policy.phases import Phase
from supervisors.ports import StateStore
from supervisors.settings import RunSettings, SupervisorSettings

log = structlog.get_logger()

RETRY_AFTER = timedelta(seconds=1)
FINISHING_SECONDS = 1.0
STOP_ANSWER_SECONDS = 1.0
SNAPSHOT_PAGE = 200
LOOP_LAG_SAMPLES = 1200  # a minute's
CANCEL_SECONDS = 5.0
UNAVAILABLE = (DatabaseUnavailable, LeadershipLost)  # no fault of the agent that was to be looked at
OF_THE_QUEUE = frozenset({Signal.NOTIFIED, Signal.CLEARED})
AT_REST = frozenset({Phase.ASLEEP, Phase.ARCHIVED, Phase.PAUSED})


class Registry:
    """Reaches every agent: `tell` it to look again, `ask` it a question, or inspect it."""

    def __init__(
        self,
        *,
        store: StateStore,
        harness: Harness,
        scheduler: aiojobs.Scheduler,
        clock: Clock,
        supervisor_settings: SupervisorSettings,
        run_settings: RunSettings,
        random: Random,
    ) -> None:
        self._harness = harness
        self._scheduler = scheduler
        self._settings = supervisor_settings
        self._max_run_seconds = run_settings.max_seconds
        self._supervisors: dict[UUID, Supervisor] = {}
        self._drains: set[asyncio.Task[None]] = set()
        self._restarts = 0
        self._started_runs = 0
        self._ended_runs: Counter[Outcome] = Counter()
        self._counts = Counts(0, 0, 0, frozenset(), 0, None, None)
        self._loop_lag_seconds: deque[float] = deque(maxlen=LOOP_LAG_SAMPLES)
        self._context = SupervisorContext(
            store=store,
            clock=clock,
            policy=policy_of(supervisor_settings, run_settings),
            timer_queue=TimerQueue(clock, lambda agent_id: self.tell(agent_id, Signal.DUE)),
            slots=RunSlots(
                run_settings.max_concurrent, lambda agent_id: self.tell(agent_id, Signal.SLOT_FREE)
            ),
            launch=self._launch,
            stop_grace_seconds=run_settings.stop_grace_seconds,
            random=random,
            runs={},
        )

    def __repr__(self) -> str:
        return f"<Registry: {len(self._supervisors)} supervisors, {len(self._context.runs)} runs>"

    def schedule(self, agent_id: UUID, at: datetime) -> None:
        """Set the alarm for an agent; one that a live supervisor has set is left as it is."""
        timer_queue = self._context.timer_queue
        if agent_id not in self._supervisors or agent_id not in timer_queue:
            timer_queue.schedule(agent_id, at)

    def spread_recovery(self, seconds: float) -> None:
        """Let the agents whose runs died return over this time at least, and not all at once."""
        self._context.recovery_seconds = max(seconds, RECOVERY_SECONDS)

    def tell(self, agent_id: UUID, signal: Signal) -> None:
        """Let the agent's supervisor look again, soon. Never fails, never blocks."""
        supervisor = self._supervisor_of(agent_id)
        if signal is Signal.NOTIFIED and supervisor.run is not None:
            supervisor.run.notified = True
        supervisor.mailbox.tell(signal)
        self._drain(supervisor)

    def tell_all(self, agent_ids: Iterable[UUID], signal: Signal) -> None:
        """Tell several agents the same."""
        for agent_id in agent_ids:
            self.tell(agent_id, signal)

    def tell_live(self, organization_id: UUID, signal: Signal) -> None:
        """Tell the organization's live supervisors, and those that do not know yet whose they are."""
        for supervisor in list(self._supervisors.values()):
            if supervisor.organization_id in {None, organization_id}:
                self.tell(supervisor.agent_id, signal)

    def require_room(self, agent_id: UUID) -> None:
        """Raise MailboxFull if a question would be refused now; one asked later is then `admitted`."""
        self._supervisor_of(agent_id).mailbox.require_room(self._settings.mailbox_limit)

    async def ask(self, agent_id: UUID, request: Request, *, admitted: bool = False) -> Any:
        """The supervisor's reply, as `messages` states it; raises SupervisorError, or OUT_OF_REACH's errors.

        A stop is answered when the run has gone, or after a second with "stopping". A question `admitted`
        before (`require_room`) is not refused for want of room.
        """
        supervisor = self._supervisor_of(agent_id)
        if not admitted:
            supervisor.mailbox.require_room(self._settings.mailbox_limit)
        waiting = supervisor.mailbox.ask(request)
        self._drain(supervisor)
        reply = await waiting
        if not isinstance(reply, StopPending):
            return reply
        is_gone = await comes_within(reply.run.settled, STOP_ANSWER_SECONDS, self._context.clock)
        return StopReply.STOPPED if is_gone else StopReply.STOPPING

    def goes_on(self, agent_id: UUID, run_id: UUID) -> bool:
        """Whether the run, or what winds it up after its sleep, is still there."""
        run = self._context.runs.get(agent_id)
        return run is not None and run.id == run_id and run.result is None

    async def wait_for_end(self, agent_id: UUID, run_id: UUID, seconds: float) -> None:
        """Return when the end of the run is stored, or after so long; at once if no such run goes on here.

        After a sleep it has a moment to wind up, so that its trace is there as well.
        """
        run = self._context.runs.get(agent_id)
        if run is None or run.id != run_id:
            return
        until = self._context.clock.monotonic() + seconds
        if await comes_within(run.ended, seconds, self._context.clock):
            left = until - self._context.clock.monotonic()
            await comes_within(run.settled, min(left, FINISHING_SECONDS), self._context.clock)

    async def snapshot(self, agent_id: UUID) -> Snapshot | None:
        """One agent in full; None if there is no such agent."""
        now = self._context.clock.now()
        facts = await self._context.store.get_facts(agent_id, now)
        if facts is None:
            return None
        blockers: list[UUID] = []
        if active_count(facts):
            blockers = await self._context.store.list_blockers(agent_id, now, BLOCKERS_SHOWN)
        supervisor = self._supervisors.get(agent_id)
        limit = self._settings.mailbox_limit
        return inspection.snapshot(facts, blockers, self._context, supervisor, limit)

    async def snapshots(
        self, phase: Phase | None, organization_id: UUID | None, limit: int
    ) -> list[Snapshot]:
        """Agents in full, by id: at most `limit`, of one phase or organization if given."""
        found: list[Snapshot] = []
        last: UUID | None = None
        while len(found) < limit:
            ids = await self._context.store.list_ids(organization_id, last, SNAPSHOT_PAGE)
            page = await asyncio.gather(*map(self.snapshot, ids))
            found.extend(shown for shown in page if shown is not None and phase in {None, shown.phase})
            if len(ids) < SNAPSHOT_PAGE:
                break
            last = ids[-1]
        return found[:limit]

    async def overview(self) -> Overview:
        """All agents in numbers."""
        run_totals = RunTotals(self._started_runs, dict(self._ended_runs))
        return inspection.overview(
            self._supervisors,
            self._context,
            self._counts,
            self._restarts,
            self._loop_lag_seconds,
            run_totals,
        )

    def set_counts(self, counts: Counts) -> None:
        """Take over what a duty has counted."""
        self._counts = counts

    def note_loop_lag(self, seconds: float) -> None:
        """Take over what a duty has measured."""
        self._loop_lag_seconds.append(seconds)

    @property
    def may_start(self) -> bool:
        """Whether runs may begin."""
        return self._context.may_start

    def allow_starts(self, allowed: bool) -> None:
        """Whether runs may begin: not while draining, nor while another instance may lead."""
        self._context.may_start = allowed

    def drop_idle(self) -> int:
        """Forget the supervisors at rest that nobody has spoken to for a while; how many went."""
        deadline = self._context.clock.monotonic() - self._settings.idle_seconds
        idle = [
            supervisor.agent_id
            for supervisor in self._supervisors.values()
            if not supervisor.busy
            and not supervisor.in_doubt
            and supervisor.run is None
            and supervisor.phase in AT_REST
            and supervisor.touched_at <= deadline
        ]
        for agent_id in idle:
            del self._supervisors[agent_id]
        return len(idle)

    async def drain(self, seconds: float) -> None:
        """Start nothing more; let runs end at a turn boundary for so long, then end them. All is stored."""
        self.allow_starts(False)
        runs = list(self._context.runs.values())
        for run in runs:
            run.drain()
        await all_settled(runs, seconds)
        for run in runs:
            run.cancel()
        await all_settled(runs, CANCEL_SECONDS)
        self._context.timer_queue.close()
        await self.quiet()

    def abandon(self) -> None:
        """Another instance leads: end the runs here at once. What becomes of them is its to store."""
        self.allow_starts(False)
        for run in self._context.runs.values():
            run.drain()  # for one that has not begun yet
            run.cancel()
            run.settle()
        self._context.runs.clear()

    async def quiet(self) -> None:
        """Return when no supervisor is handling a message."""
        while self._drains:
            await asyncio.wait(self._drains)

    def _supervisor_of(self, agent_id: UUID) -> Supervisor:
        supervisor = self._supervisors.get(agent_id)
        if supervisor is None:
            supervisor = self._supervisors[agent_id] = Supervisor(agent_id, self._context)
        return supervisor

    def _drain(self, supervisor: Supervisor) -> None:
        if supervisor.busy:
            return
        supervisor.busy = True
        # In a context of its own: what it logs is not about the request that happened to wake it.
        task = asyncio.get_running_loop().create_task(
            self._handle_messages(supervisor),
            name=f"supervisor of {supervisor.agent_id}",
            context=Context(),
        )
        self._drains.add(task)
        task.add_done_callback(self._drains.discard)

    async def _handle_messages(self, supervisor: Supervisor) -> None:
        while (message := supervisor.mailbox.take()) is not None:
            if isinstance(message, frozenset):
                await self._handle_signals(supervisor, message)
            else:
                await self._handle_request(supervisor, message)
        # No await between the last look into the mailbox and this flag: a message told in that gap
        # would find a busy supervisor that never looks again.
        supervisor.busy = False
        supervisor.touched_at = self._context.clock.monotonic()
        if supervisor.is_gone and supervisor.run is None:
            self._supervisors.pop(supervisor.agent_id, None)
            still = self._counts.quarantined - {supervisor.agent_id}
            self._counts = replace(self._counts, quarantined=still)

    async def _handle_signals(self, supervisor: Supervisor, signals: frozenset[Signal]) -> None:
        held_back = supervisor.backoff_seconds_left()
        if held_back:
            self._reconcile_later(supervisor, self._context.clock.now() + timedelta(seconds=held_back))
            self._remember(supervisor, ", ".join(sorted(signals)), "waits: the last attempt met a defect")
            return
        if signals <= OF_THE_QUEUE and supervisor.run_goes_on:
            # Whatever arrives or is cleared now is looked at when the run is over.
            self._remember(supervisor, ", ".join(sorted(signals)), str(supervisor.phase))
            return
        try:
            outcome = await supervisor.reconcile()
            supervisor.crashes = 0
        except AgentGone:
            outcome = "gone"
        except UNAVAILABLE as error:
            outcome = f"tried again soon: {error}"
            self._reconcile_later(supervisor)
        except Exception as error:  # the outermost edge of a supervisor: one agent never touches another
            outcome = await self._handle_crash(supervisor, error)
        self._remember(supervisor, ", ".join(sorted(signals)), outcome)

    async def _handle_request(self, supervisor: Supervisor, asked: PendingRequest) -> None:
        request, reply = asked
        try:
            given = await answer(supervisor, request)
        except (SupervisorError, AnsweredBefore) as error:
            outcome = str(error)
            _refuse(reply, error)
        except UNAVAILABLE as error:
            outcome = str(error)
            _refuse(reply, error)
            self._reconcile_later(supervisor)  # it may have been committed all the same
        except Exception as error:  # as above; the one who asked is told, too
            outcome = await self._handle_crash(supervisor, error)
            _refuse(reply, error)
        else:
            outcome = "done" if given is None else str(given)
            if not reply.done():
                reply.set_result(given)
        self._remember(supervisor, str(request), outcome)

    async def _handle_crash(self, supervisor: Supervisor, error: Exception) -> str:
        """After a defect: count the failure where a restart finds it, and look at the agent anew."""
        log.exception("a supervisor failed", agent=str(supervisor.agent_id))
        self._restarts += 1
        looks_again_at = supervisor.back_off()
        try:
            retry_at = await supervisor.fail(f"{type(error).__name__} in the supervisor")
        except Exception:
            log.exception("the failure of a supervisor could not be stored", agent=str(supervisor.agent_id))
        else:
            looks_again_at = retry_at or looks_again_at
        self._reconcile_later(supervisor, looks_again_at)
        return "failed; the log says how"

    def _reconcile_later(self, supervisor: Supervisor, at: datetime | None = None) -> None:
        supervisor.in_doubt = True
        timer_queue, clock = self._context.timer_queue, self._context.clock
        if at is not None:
            timer_queue.schedule(supervisor.agent_id, at)
            return
        # Not by the wall clock: nobody else would come back to a run whose end could not be stored.
        soon = clock.monotonic() + RETRY_AFTER.total_seconds()
        timer_queue.schedule(supervisor.agent_id, clock.now() + RETRY_AFTER, monotonic_at=soon)

    def _remember(self, supervisor: Supervisor, message: str, outcome: str) -> None:
        supervisor.recent = remember(supervisor.recent, self._context.clock.now(), message, outcome)

    async def _launch(self, run: ActiveRun) -> None:
        self._started_runs += 1
        await self._scheduler.spawn(self._carry_out(run), name=f"run {run.id}")

    async def _carry_out(self, run: ActiveRun) -> None:
        try:
            await run.carry_out(self._harness, self.ask, self._max_run_seconds)
        finally:
            if run.result is not None:
                self._ended_runs[run.result.outcome] += 1
            self._context.slots.release()
            self.tell(run.agent_id, Signal.RUN_OVER)


@asynccontextmanager
async def open_registry(
    *,
    store: StateStore,
    harness: Harness,
    clock: Clock,
    supervisor_settings: SupervisorSettings,
    run_settings: RunSettings,
    random: Random,
) -> AsyncIterator[Registry]:
    """The registry while the process serves. On leaving, what still runs is ended, and its end stored."""
    scheduler = aiojobs.Scheduler(
        limit=run_settings.max_concurrent,
        close_timeout=CANCEL_SECONDS,
        exception_handler=_log_job_failure,
    )
    registry = Registry(
        store=store,
        harness=harness,
        scheduler=scheduler,
        clock=clock,
        supervisor_settings=supervisor_settings,
        run_settings=run_settings,
        random=random,
    )
    try:
        yield registry
    finally:
        await registry.drain(0)
        await scheduler.close()


def _log_job_failure(_: aiojobs.Scheduler, context: dict[str, Any]) -> None:
    log.error("a run's job failed", job=repr(context.get("job")), exc_info=context.get("exception"))


def _refuse(reply: "asyncio.Future[Any]", error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)
