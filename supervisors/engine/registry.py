"""The registry of all supervisors: it makes one when its agent gets a message, and drops it when it is idle.

PostgreSQL is the directory of agents; an agent without messages costs nothing here.

The path of a notification, from its commit to the sleep of its agent:

    tell              the signal enters the mailbox, and a task begins to handle messages
    _handle_signals   Supervisor.reconcile reads the agent's facts and asks the rules
    Supervisor.start  the start of a run is stored, and `_launch` makes a job of it
    _execute          ActiveRun.carry_out lets the harness work, until the agent asks for sleep
    ask               the request for sleep enters the mailbox, and Supervisor._request_sleep ends the run
    tell              RUN_OVER: Supervisor.reconcile finds nothing to start, and schedules the next wake
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, Protocol, Self
from uuid import UUID

import aiojobs
import structlog

from storage.agent_facts import RowVersion
from storage.errors import AnsweredBefore, DatabaseUnavailable, NodeEnded
from storage.postgres.asker import ASKER, Asker
from supervisors.clock import Clock, wait_for_event
from supervisors.engine.context import RECOVERY_SECONDS, Ring, RunSlots, SupervisorContext, TimerQueue
from supervisors.engine.inspection import Statistics, StatusReader
from supervisors.engine.messages import (
    DeferredReply,
    PendingRequest,
    Reply,
    Request,
    Signal,
    append_message,
)
from supervisors.engine.run import CANCEL_SECONDS, ActiveRun, DrainResult, Harness, drain_runs
from supervisors.engine.supervisor import Supervisor
from supervisors.errors import AgentGone, MailboxFull, SupervisorError
from supervisors.policy.decisions import policy_of
from supervisors.policy.phases import Phase
from supervisors.ports import KnownModels, Nodes, StateStore
from supervisors.settings import RunSettings, SupervisorSettings

log = structlog.get_logger()

RETRY_AFTER = timedelta(seconds=1)
BACKOFF_PRECISION_SECONDS = 0.001  # timers are set by the wall clock, which is exact to a microsecond only
FINISHING_SECONDS = 1.0
DATABASE_ERRORS = (DatabaseUnavailable, NodeEnded)  # not caused by the agent
UNAVAILABLE = "the database is unavailable"  # without the reason, which names addresses: clients read this
QUEUE_SIGNALS = frozenset({Signal.NOTIFIED, Signal.CLEARED})
DUE_SIGNALS = frozenset({Signal.NOTIFIED, Signal.DUE})
IDLE_PHASES = frozenset({Phase.ASLEEP, Phase.ARCHIVED, Phase.PAUSED})
PAGE_SIZE = 1000  # of agents that a broadcast tells


class Registry:
    """The way to every agent's supervisor: `tell` it to reconcile, or `ask` it something.

    `status` reads the supervisors; `statistics` are numbers that the maintenance services keep up to date;
    As a context manager it ends the active runs on leaving, and stores their ends.
    """

    def __init__(
        self,
        *,
        store: StateStore,
        harness: Harness,
        clock: Clock,
        supervisor_settings: SupervisorSettings,
        run_settings: RunSettings,
        random: Random,
        nodes: Nodes,
        ring: Ring,
        node_name: Callable[[int], str] = lambda _: "",
        max_runs_per_organization: int = 0,
        models: KnownModels | None = None,
    ) -> None:
        self._harness = harness
        self._scheduler = aiojobs.Scheduler(
            limit=run_settings.max_concurrent, close_timeout=CANCEL_SECONDS, exception_handler=_log_failed_job
        )
        self._settings = supervisor_settings
        self._max_run_seconds = run_settings.max_seconds
        self._supervisors: dict[UUID, Supervisor] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # one for each supervisor that handles messages
        self._context = SupervisorContext(
            store=store,
            clock=clock,
            policy=policy_of(supervisor_settings, run_settings),
            timer_queue=TimerQueue(clock, lambda agent_id: self.tell(agent_id, Signal.DUE)),
            slots=RunSlots(run_settings.max_concurrent, self._offer_slot, max_runs_per_organization),
            launch=self._launch,
            count_quarantine=self._count_quarantine,
            stop_grace_seconds=run_settings.stop_grace_seconds,
            random=random,
            nodes=nodes,
            ring=ring,
        )
        self.statistics = Statistics()
        status_of = self._supervisors, self._context, self.statistics
        self.status = StatusReader(*status_of, supervisor_settings.mailbox_limit, models, node_name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain(0)
        await self._scheduler.close()

    def schedule(self, agent_id: UUID, at: datetime) -> None:
        """Set the agent's timer, unless it has a live supervisor that has set it already.

        That supervisor need not have heard of an earlier time: another node may have written it.
        """
        timer_queue = self._context.timer_queue
        set_to = timer_queue.get(agent_id)
        if agent_id not in self._supervisors or set_to is None or at < set_to:
            timer_queue.schedule(agent_id, at)

    def spread_recovery_over(self, seconds: float) -> None:
        """Spread the restarts of agents whose runs died over at least this time."""
        self._context.recovery_seconds = max(seconds, RECOVERY_SECONDS)

    def tell(self, agent_id: UUID, signal: Signal) -> None:
        """Have the agent's supervisor reconcile soon. Never fails, never blocks."""
        supervisor = self._get_supervisor(agent_id)
        if signal is Signal.NOTIFIED and supervisor.run is not None:
            supervisor.run.is_notified = True
        if signal in DUE_SIGNALS and not supervisor.is_handling and self._context.slots.is_waiting(agent_id):
            return  # it is due already and reconciles when it gets a slot; a read under way may be too old
        supervisor.signals |= {signal}
        self._handle_soon(supervisor)

    def tell_attendant(self, agent_id: UUID, node_id: int | None, signal: Signal) -> None:
        """Tell the supervisor of the node that attends the agent, or will: here, or by a ring."""
        nodes = self._context.nodes
        if node_id is None or not nodes.is_living(node_id):
            node_id = nodes.node_id if nodes.starts_runs else nodes.responsible_for(agent_id)
        if node_id in {None, nodes.node_id}:
            self.tell(agent_id, signal)
        else:
            self._context.ring(node_id, signal, agent_id)

    def hear(self, signal: Signal, agent_ids: Iterable[UUID]) -> None:
        """Tell the supervisors of these agents what another node has rung for."""
        for agent_id in agent_ids:
            run = self._context.runs.get(agent_id)
            if run is not None:
                run.is_notified = True  # whatever has changed: it reads its queue again
                if signal is Signal.FORCED:
                    run.stop(0)
            self.tell(agent_id, signal)

    def catch_up(self, row: RowVersion) -> None:
        """Tell the supervisor of this row, unless it has seen it: a ring was lost, or its update failed."""
        supervisor = self._get_supervisor(row.agent_id)
        if row.version > supervisor.version:
            self.tell(row.agent_id, Signal.RELOAD)
        elif row.wake_seq > supervisor.wake_seq:
            self.tell(row.agent_id, Signal.NOTIFIED)
        supervisor.version = max(row.version, supervisor.version)  # told once is enough
        supervisor.wake_seq = max(row.wake_seq, supervisor.wake_seq)

    def _offer_slot(self, agent_id: UUID) -> None:
        self.tell(agent_id, Signal.SLOT_FREE)

    def tell_all(self, agent_ids: Iterable[UUID], signal: Signal) -> None:
        for agent_id in agent_ids:
            self.tell(agent_id, signal)

    def tell_queued(self) -> None:
        """Tell the supervisors whose starts are queued here, but those that a slot will tell."""
        queued = [each.agent_id for each in self._supervisors.values() if each.phase is Phase.QUEUED]
        is_waiting = self._context.slots.is_waiting
        self.tell_all([each for each in queued if not is_waiting(each)], Signal.RELOAD)

    def tell_organization(self, organization_id: UUID, signal: Signal) -> None:
        """Tell the organization's live supervisors, and those that do not know their organization yet."""
        for supervisor in list(self._supervisors.values()):
            if supervisor.organization_id in {None, organization_id}:
                self.tell(supervisor.agent_id, signal)

    def require_room(self, agent_id: UUID) -> None:
        """Raise MailboxFull if a request would be refused now; a later one may then be `admitted`."""
        limit = self._settings.mailbox_limit
        if len(self._get_supervisor(agent_id).requests) >= limit:
            raise MailboxFull(f"{limit} requests to this agent wait for an answer; try again later.")

    async def ask(self, agent_id: UUID, request: Request[Reply], *, admitted: bool = False) -> Reply:
        """Return the supervisor's reply; raise SupervisorError, or one of DATABASE_ERRORS.

        A request that was `admitted` by `require_room` is not refused because the mailbox is full.
        """
        if not admitted:
            self.require_room(agent_id)
        supervisor, pending = self._get_supervisor(agent_id), PendingRequest(request)
        supervisor.requests.append(pending)
        self._handle_soon(supervisor)
        reply = await pending.reply
        return await reply.wait() if isinstance(reply, DeferredReply) else reply

    def is_run_alive(self, agent_id: UUID, run_id: UUID) -> bool:
        """Return whether the run works here, or its harness still finishes after its sleep."""
        run = self._context.runs.get(agent_id)
        return run is not None and run.id == run_id and run.result is None

    def add_cost(self, agent_id: UUID, run_id: UUID | None, cost_usd: Decimal) -> None:
        """Count the cost of a model call that was reported for a run, if the run works here."""
        run = self._context.runs.get(agent_id)
        if run is not None and run.id == run_id:
            run.cost_usd += cost_usd

    @property
    def max_runs_per_organization(self) -> int:
        return self._context.slots.organization_limit

    @max_runs_per_organization.setter
    def max_runs_per_organization(self, limit: int) -> None:
        self._context.slots.organization_limit = limit

    def count_runs(self, organization_id: UUID) -> int:
        """Return how many run slots the organization has here."""
        return self._context.slots.in_use(organization_id)

    async def wait_for_end(self, agent_id: UUID, run_id: UUID, seconds: float) -> None:
        """Wait until the end of the run is stored, but at most `seconds`; not at all if it is not here.

        After a sleep, wait up to FINISHING_SECONDS more for the harness to store the run's trace.
        """
        run = self._context.runs.get(agent_id)
        if run is None or run.id != run_id:
            return
        clock = self._context.clock
        deadline = clock.monotonic() + seconds
        if await wait_for_event(run.ended, seconds, clock):
            remaining = deadline - clock.monotonic()
            await wait_for_event(run.settled, min(remaining, FINISHING_SECONDS), clock)

    @property
    def may_start(self) -> bool:
        return self._context.may_start

    @property
    def free_slots(self) -> int:
        """Return how many runs more may start here now."""
        return self._context.slots.free if self._context.may_start else 0

    @property
    def untaken_slots(self) -> int:
        """Return how many slots no run has, also those that are reserved and may be given up."""
        return self._context.slots.untaken if self._context.may_start else 0

    @property
    def working_agents(self) -> frozenset[UUID]:
        """Return the agents whose runs work here and have not asked for sleep."""
        runs = self._context.runs.values()
        return frozenset(run.agent_id for run in runs if run.result is None and not run.slept.is_set())

    def allow_starts(self, allowed: bool) -> None:
        """Set whether runs may start: not while draining."""
        self._context.is_draining = not allowed

    def drop_idle(self) -> int:
        """Drop supervisors of resting agents that have had no message for a while; return how many."""
        latest = self._context.clock.monotonic() - self._settings.idle_seconds
        idle = [
            supervisor.agent_id
            for supervisor in self._supervisors.values()
            if not supervisor.is_handling
            and not supervisor.has_uncertain_update
            and supervisor.run is None
            and supervisor.phase in IDLE_PHASES
            and supervisor.idle_since <= latest
        ]
        for agent_id in idle:
            del self._supervisors[agent_id]
        return len(idle)

    @property
    def active_runs(self) -> int:
        """Return how many runs are active, or have an end that is not stored yet."""
        return len(self._context.runs)

    async def drain(self, seconds: float, hurried: asyncio.Event | None = None) -> DrainResult:
        """Start no more runs, give the active ones `seconds` to end at a turn boundary, and cancel the rest.

        `hurried` cancels them at once. Their ends are stored on return.
        """
        self.allow_starts(False)
        runs = list(self._context.runs.values())
        result = await drain_runs(runs, seconds, self._context.clock, hurried or asyncio.Event())
        self._context.timer_queue.close()
        await self.wait_until_idle()
        return result

    def abandon(self) -> None:
        """End all runs at once and store nothing of them: the other nodes take this one for dead."""
        self.allow_starts(False)
        for run in self._context.runs.values():
            run.drain()  # in case it has not begun yet
            run.cancel()
            run.settle()
        self._context.runs.clear()

    async def wait_until_idle(self) -> None:
        """Wait until no supervisor handles messages."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _get_supervisor(self, agent_id: UUID) -> Supervisor:
        supervisor = self._supervisors.get(agent_id)
        if supervisor is None:
            supervisor = self._supervisors[agent_id] = Supervisor(agent_id, self._context)
        return supervisor

    def _handle_soon(self, supervisor: Supervisor) -> None:
        if supervisor.is_handling:
            return
        supervisor.is_handling = True
        # An empty context keeps the fields of the request that caused the message out of the log lines.
        task = asyncio.get_running_loop().create_task(
            self._handle_messages(supervisor), name=f"supervisor of {supervisor.agent_id}", context=Context()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle_messages(self, supervisor: Supervisor) -> None:
        """Handle and log what waits, all signals together and before the requests, until nothing does."""
        while supervisor.signals or supervisor.requests:
            if supervisor.signals:
                signals, supervisor.signals = supervisor.signals, frozenset()
                message, outcome = ", ".join(sorted(signals)), await self._handle_signals(supervisor, signals)
            else:
                pending = supervisor.requests.pop(0)
                message, outcome = str(pending.request), await self._handle_request(supervisor, pending)
            now = self._context.clock.now()
            supervisor.message_log = append_message(supervisor.message_log, now, message, outcome)
        # There must be no await between the last look and clearing the flag: a message told in that gap
        # would find a supervisor that seems to handle messages, and wait for ever.
        supervisor.is_handling = False
        supervisor.idle_since = self._context.clock.monotonic()
        if supervisor.is_gone and supervisor.run is None:
            self._supervisors.pop(supervisor.agent_id, None)
            self.statistics.forget_agent(supervisor.agent_id)

    async def _handle_signals(self, supervisor: Supervisor, signals: frozenset[Signal]) -> str:
        """Have the supervisor reconcile, unless that can wait; describe what came of it."""
        backoff_seconds = supervisor.backing_off_until - self._context.clock.monotonic()
        if backoff_seconds > BACKOFF_PRECISION_SECONDS:
            self._context.slots.leave(supervisor.agent_id)  # the next one may have what was offered to it
            self._reconcile_later(supervisor, self._context.clock.now() + timedelta(seconds=backoff_seconds))
            return "waits: the last attempt crashed"
        run = supervisor.run
        if signals <= QUEUE_SIGNALS and run is not None and run.result is None:
            # The end of the run causes a reconcile, which covers these changes of the queue.
            return str(supervisor.phase)
        try:
            outcome = await supervisor.reconcile()
            supervisor.crashes = 0
        except AgentGone:
            outcome = "gone"
        except DATABASE_ERRORS:
            outcome = f"will be tried again: {UNAVAILABLE}"
            self._reconcile_later(supervisor)
        except Exception as error:  # the outermost edge of a supervisor: one agent never affects another
            outcome = await self._handle_crash(supervisor, error)
        return outcome

    async def _handle_request(self, supervisor: Supervisor, pending: PendingRequest[Any]) -> str:
        """Have the supervisor answer the request, or refuse it; describe what came of it."""
        try:
            if pending.asker is not None:
                ASKER.set(Asker("", pending.asker.get_address))  # each event names its actor
            reply = await supervisor.answer(pending.request)
            if not pending.reply.done():  # it is done if the asker was cancelled
                pending.reply.set_result(reply)
            outcome = "done" if isinstance(reply, bool) else str(reply)
        except (SupervisorError, AnsweredBefore) as error:
            outcome = str(error)
            pending.refuse(error)
        except DATABASE_ERRORS as error:
            outcome = UNAVAILABLE
            pending.refuse(error)
            self._reconcile_later(supervisor)  # the update may have been committed
        except Exception as error:  # the outermost edge of a supervisor, as in `_handle_signals`
            outcome = await self._handle_crash(supervisor, error)
            pending.refuse(error)
        finally:
            ASKER.set(None)
        return outcome

    async def _handle_crash(self, supervisor: Supervisor, error: Exception) -> str:
        """Store the crash as a failure, and schedule the next attempt."""
        log.exception("supervisor crashed", agent=str(supervisor.agent_id))
        self.statistics.restarts += 1
        next_attempt_at = supervisor.back_off()
        try:
            retry_at = await supervisor.fail(f"{type(error).__name__} in the supervisor")
        except Exception:
            log.exception("failure of a supervisor could not be stored", agent=str(supervisor.agent_id))
        else:
            next_attempt_at = retry_at or next_attempt_at
        self._reconcile_later(supervisor, next_attempt_at)
        return "crashed: see the log of the service"

    def _reconcile_later(self, supervisor: Supervisor, at: datetime | None = None) -> None:
        supervisor.has_uncertain_update = True
        self._context.timer_queue.schedule(supervisor.agent_id, at or self._context.clock.now() + RETRY_AFTER)

    def _count_quarantine(self) -> None:
        self.statistics.quarantines += 1

    async def _launch(self, run: ActiveRun) -> None:
        self.statistics.count_start(run, (self._context.clock.now() - run.due_at).total_seconds())
        await self._scheduler.spawn(self._execute(run), name=f"run {run.id}")

    async def _execute(self, run: ActiveRun) -> None:
        ASKER.set(None)  # who asked for the run does not ask for what it does
        try:
            await run.carry_out(self._harness, self.ask, self._max_run_seconds)
        finally:
            self.statistics.count_end(run)
            self._context.slots.release(run.organization_id)
            self.tell(run.agent_id, Signal.RUN_OVER)


def _log_failed_job(_: aiojobs.Scheduler, context: dict[str, Any]) -> None:
    log.error("job of a run failed", job=repr(context.get("job")), exc_info=context.get("exception"))


class Teller(Protocol):
    """The part of the registry that a broadcast needs."""

    def tell(self, agent_id: UUID, signal: Signal) -> None: ...

    def tell_organization(self, organization_id: UUID, signal: Signal) -> None: ...


async def tell_agents_of(organization_id: UUID, store: StateStore, registry: Teller) -> None:
    """Tell the organization's agents that are affected by a pause, its end or a new cap.

    All live supervisors are told as well, because their phase changes.
    """
    await tell_pages(partial(store.list_non_idle, organization_id=organization_id), registry)
    registry.tell_organization(organization_id, Signal.RELOAD)


async def tell_agents_of_template(template_id: UUID, store: StateStore, registry: Teller) -> None:
    """Tell the template's agents that are affected by a new cap."""
    await tell_pages(partial(store.list_non_idle, template_id=template_id), registry)


async def tell_pages(fetch: Callable[[UUID | None, int], Awaitable[list[UUID]]], registry: Teller) -> None:
    """Tell all agents that `fetch(last, limit)` lists, in the order of their ids."""
    last: UUID | None = None
    while True:
        agent_ids = await fetch(last, PAGE_SIZE)
        for agent_id in agent_ids:
            registry.tell(agent_id, Signal.RELOAD)
        if len(agent_ids) < PAGE_SIZE:
            return
        last = agent_ids[-1]
