"""A world for engine tests: real PostgreSQL and registry, a held clock, and runs that the test controls."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from hostsvc.llm.price_list import PriceList
from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.agent_facts import AgentFacts, AgentState, StateUpdate
from storage.agents.state import AgentStates, LockedState
from storage.errors import DatabaseUnavailable
from storage.history.runs import RunFilters
from storage.model import Agent, Notification, Outcome, Source, Template
from storage.model import Run as LedgerEntry
from storage.notifications.notifications import NotificationFilters
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.engine.context import Ring
from supervisors.engine.messages import Reply, Request, RunRequest, Signal
from supervisors.engine.registry import Registry, tell_agents_of, tell_agents_of_template
from supervisors.engine.run import ActiveRun, Ask, RunDrained, RunError, RunResult
from supervisors.engine.snapshot import Snapshot
from supervisors.harness.builtin import BuiltinHarness
from supervisors.harness.spending import BudgetGuard
from supervisors.json_schema.checker import SchemaChecker, open_schema_checker
from supervisors.llm.catalog import ModelCatalog
from supervisors.llm.port import IMAGE_TYPES, PDF_TYPE, Model
from supervisors.maintenance.scans import DueScan
from supervisors.outbound import Outbound
from supervisors.policy.phases import Phase
from supervisors.settings import RunSettings, SupervisorSettings, TracingSettings
from supervisors.wake_context import WakeContexts
from tests.nodes import LoneNode, ring_nobody
from tests.patience import PATIENCE_SECONDS
from tests.storage.factories import (
    new_notification,
    stored_agent,
    stored_organization,
    template,
    usage_record,
)
from tests.storage.listed import listed_page
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.live_log import LiveLog
from tests.supervisors.scripted_model import RiggedToolset

# Within the horizon of the timer queue, and at no time that a test uses.
SCAN_SECONDS = 97.0


class RiggedStates(AgentStates):
    """The real store with hooks for the test: errors, races and sudden death."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.is_cut_off = False
        self.read_errors: list[Exception] = []
        self.during_next_read: Callable[[], object] | None = None
        self.after_next_read: Callable[[], Awaitable[object]] | None = None
        self.before_next_update: Callable[[StateUpdate], Awaitable[object]] | None = None
        self.after_next_update: Callable[[], Awaitable[object]] | None = None
        self.lost_update_answer: Exception | None = None  # the update is committed, and its answer lost
        self.locks = 0  # updates that needed the lock

    async def get_facts(self, agent_id: UUID, now: datetime) -> AgentFacts | None:
        self._require_life()
        if self.read_errors:
            raise self.read_errors.pop(0)
        during, self.during_next_read = self.during_next_read, None
        if during is not None:
            during()
        facts = await super().get_facts(agent_id, now)
        after, self.after_next_read = self.after_next_read, None
        if after is not None:
            await after()
        return facts

    async def update(self, update: StateUpdate) -> bool:
        self._require_life()
        before, self.before_next_update = self.before_next_update, None
        if before is not None:
            await before(update)
        is_made = await super().update(update)
        after, self.after_next_update = self.after_next_update, None
        if after is not None:
            await after()
        error, self.lost_update_answer = self.lost_update_answer, None
        if error is not None:
            raise error
        return is_made

    @asynccontextmanager
    async def locked(self, agent_id: UUID, now: datetime) -> AsyncIterator[LockedState]:
        self._require_life()
        self.locks += 1
        async with super().locked(agent_id, now) as locked:
            yield locked

    def _require_life(self) -> None:
        if self.is_cut_off:
            raise DatabaseUnavailable("this process is dead")


class Puppet:
    """A run that the test controls. A stop ends it, unless it is stubborn."""

    def __init__(self, world: "World", run: ActiveRun, ask: Ask) -> None:
        self.run = run
        self.is_stubborn = world.puppets_are_stubborn
        self._world = world
        self._ask = ask
        self._over = asyncio.Event()
        self._result: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    @property
    def is_ending(self) -> bool:
        """Return whether the run was cancelled and is not over yet."""
        task = self.run._task
        return task is not None and task.cancelling() > 0

    async def perform(self) -> RunResult:
        try:
            if self.is_stubborn:
                return await self._result
            return await self.run.interruptible(self._result)
        finally:
            self._over.set()

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool; raise ToolError if it refuses."""
        agent = await self._world.agent_now(self.run.agent_id)
        toolset = self._world.toolset
        return await toolset.use(await toolset.find(agent, tool), agent, self.run.id, self._ask, arguments)

    async def lists(self) -> list[str]:
        """Return the ids of the notifications that the agent's tool lists."""
        return [listed["id"] for listed in await self.call("list_notifications")]

    async def clears(self, *notifications: Notification) -> None:
        for notification in notifications:
            await self.call("clear_notification", notification_id=str(notification.id))

    async def sleeps(self, **arguments: Any) -> dict[str, Any]:
        """Ask for sleep; end the run if it is granted."""
        answer: dict[str, Any] = await self.call("sleep", **arguments)
        await self.end(Outcome.SLEPT)
        return answer

    async def end(self, outcome: Outcome = Outcome.ENDED) -> None:
        self._result.set_result(RunResult(outcome))
        await self.gone()

    async def fail(self, error: str | Exception = "The model is away.") -> None:
        self._result.set_exception(RunError(error) if isinstance(error, str) else error)
        await self.gone()

    async def reach_a_turn_boundary(self) -> None:
        try:
            self.run.at_turn_boundary()
        except RunDrained as drained:
            self._result.set_exception(drained)
            await self._over.wait()

    async def gone(self) -> None:
        """Wait until the run is over and its consequences are done."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._over.wait()
        await self._world.wait_until_idle()


class World:
    """One process on one database. Its methods act as the HTTP interface does."""

    def __init__(
        self,
        pool: Pool,
        run_settings: RunSettings,
        supervisor_settings: SupervisorSettings,
        model: Model | None,
        outbound: Outbound,
        checker: SchemaChecker,
        max_runs_per_organization: int = 0,
        tracing_settings: TracingSettings | None = None,
        provider: str = "builtin",
        node_id: int = 1,
    ) -> None:
        self.pool = pool
        self.clock = HeldClock()
        self.began_at = self.clock.now()
        self.storage = Storage(
            pool, on_commit=self._tell, on_clear=self._tell_of_clearings, sleep=SystemClock().sleep
        )
        self.live_output = LiveLog()
        self._models = ModelCatalog({provider}, provider, PriceList()) if model else None
        self.toolset = RiggedToolset(self.storage, self.clock, outbound, checker, self._models)
        self._schema_checker = checker
        self.puppets: dict[UUID, Puppet] = {}  # by agent, while their runs are active
        self._latest: dict[UUID, Puppet] = {}
        self.puppets_are_stubborn = False
        self._run_settings = run_settings
        self._supervisor_settings = supervisor_settings
        self._tracing_settings = tracing_settings or TracingSettings()
        self._max_runs_per_organization = max_runs_per_organization
        self._model = model
        self._provider = provider  # of the model
        self._organization_id: UUID | None = None
        self._life = AsyncExitStack()
        self.node = LoneNode(node_id - 1)
        self.ring: Ring = ring_nobody
        self._next_scan_at = 0.0
        self.registry: Registry
        self.states: RiggedStates
        self.scan: DueScan

    async def begin(self) -> None:
        """Start the process, with its recovery."""
        self._life = AsyncExitStack()
        self.states = RiggedStates(self.pool)
        self.node = LoneNode(self.node.node_id + 1)
        random = Random(0)  # noqa: S311 -- jitter that is the same each time
        self.registry = await self._life.enter_async_context(
            Registry(
                store=self.states,
                harness=self._builtin_harness(self._model) if self._model else self,
                clock=self.clock,
                supervisor_settings=self._supervisor_settings,
                run_settings=self._run_settings,
                random=random,
                nodes=self.node,
                ring=lambda *ring: self.ring(*ring),
                node_name="web/{}".format,
                max_runs_per_organization=self._max_runs_per_organization,
                models=self._models,
            )
        )
        self.scan = DueScan(self.states, self.registry, self.node, self.clock, random)
        self._next_scan_at = self.clock.monotonic() + SCAN_SECONDS
        await self.scan.recover()
        await self.scan.run_once()
        await self.wait_until_idle()

    async def end(self) -> None:
        """End the process in order: interrupt its runs and store their ends."""
        await self._life.aclose()
        self.clock.forget_timers()

    async def die(self) -> None:
        """Kill the process: nothing of it reaches the database from now on."""
        self.states.is_cut_off = True
        for puppet in self.puppets.values():
            puppet.run.settled.set()  # so that the drain does not wait for dead runs
        await self._life.aclose()
        await self.registry.wait_until_idle()
        self.clock.forget_timers()

    async def restart(self) -> None:
        await self.die()
        await self.begin()

    async def wait_until_idle(self) -> None:
        """Wait until nothing happens any more unless the test acts or time passes."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await self.registry.wait_until_idle()
                at_rest = sum(not puppet.is_ending for puppet in self.puppets.values())
                under_way = self.registry.status.numbers().runs.running - at_rest
                if under_way:
                    await asyncio.sleep(0)
                elif any(moment <= self.clock.monotonic() for moment in self.clock.timers()):
                    self.clock.advance(0)
                else:
                    return

    async def advance(self, seconds: float) -> None:
        """Let time pass; each timer and scan comes at its own time."""
        target = self.clock.monotonic() + seconds
        while True:
            moment = min([*self.clock.timers(), self._next_scan_at])
            if moment > target:
                break
            self.clock.advance(moment - self.clock.monotonic())
            if moment >= self._next_scan_at:
                self._next_scan_at += SCAN_SECONDS
                await self.scan.run_once()
            await self.wait_until_idle()
        self.clock.advance(target - self.clock.monotonic())

    async def go_to(self, second: float) -> None:
        """Let time pass up to this second of the timeline."""
        await self.advance((self.at(second) - self.clock.now()).total_seconds())

    def at(self, second: float) -> datetime:
        """Return the time of this second of the timeline, which begins with the test."""
        return self.began_at + timedelta(seconds=second)

    async def organization(self) -> UUID:
        return (await stored_organization(self.pool)).id

    async def template(self, **fields: Any) -> Template:
        stored = template(await self._home(), **fields)
        await self.storage.templates.insert(stored)
        return stored

    async def agent(self, organization_id: UUID | None = None, **fields: Any) -> Agent:
        return await stored_agent(self.pool, organization_id or await self._home(), **fields)

    async def change(self, agent: Agent, **changes: Any) -> None:
        """PATCH the agent."""
        await self.storage.agents.update(agent.id, changes, self.clock.now())
        self.registry.tell(agent.id, Signal.RELOAD)
        await self.wait_until_idle()

    async def change_template(self, changed: Template, **changes: Any) -> None:
        await self.storage.templates.update(changed.id, changes, self.clock.now())
        concerned = await self.storage.agents.list_holding_of_template(changed.id)
        self.registry.tell_all(concerned, Signal.RELOAD)
        await tell_agents_of_template(changed.id, self.states, self.registry)
        await self.wait_until_idle()

    async def change_organization(self, organization_id: UUID, **changes: Any) -> None:
        await self.storage.organizations.update(organization_id, changes, self.clock.now())
        await tell_agents_of(organization_id, self.states, self.registry)
        await self.wait_until_idle()

    async def spend(self, agent: Agent, usd: str) -> None:
        """Record a model call of the agent with this cost."""
        record = usage_record(agent, cost_usd=Decimal(usd), occurred_at=self.clock.now())
        await self.storage.usage.insert(record)
        self.registry.tell(agent.id, Signal.RELOAD)

    async def delete(self, agent: Agent) -> None:
        await self.storage.agents.delete(agent.id, self.clock.now())
        self.registry.tell(agent.id, Signal.RELOAD)
        await self.wait_until_idle()

    async def pause(self, organization_id: UUID, paused: bool) -> None:
        await self.pool.execute("UPDATE organization SET paused = $2 WHERE id = $1", organization_id, paused)
        for agent_id in await self.states.list_ids(organization_id, None, 1000):
            self.registry.tell(agent_id, Signal.RELOAD)
        await self.wait_until_idle()

    async def notify(self, agent: Agent, source: Source = Source.API, **fields: Any) -> Notification:
        """Create a high-priority notification."""
        new = new_notification(agent.id, source=source, created_at=self.clock.now(), **fields)
        await self.storage.notifications.insert(new, {agent.organization_id})
        stored = await self.storage.notifications.get(new.id)
        assert stored is not None
        await self.wait_until_idle()
        return stored

    async def sms(self, agent: Agent, **fields: Any) -> Notification:
        return await self.notify(agent, Source.SMS, **fields)

    async def remind(self, agent: Agent, second: float, source: Source = Source.API) -> Notification:
        """Create a reminder for this second of the timeline."""
        return await self.notify(agent, source, scheduled_for=self.at(second))

    async def edit(self, notification: Notification, **changes: Any) -> None:
        """PATCH a notification."""
        await self.storage.notifications.update(notification.id, changes, self.clock.now())
        await self.wait_until_idle()

    async def clear(self, notification: Notification) -> None:
        await self.edit(notification, cleared=True)

    async def ask(self, agent: Agent, request: Request[Reply], *, answered_within: float = 0) -> Reply:
        """Return the reply. Time stands still, unless the reply is deferred for `answered_within` seconds."""
        asking = asyncio.ensure_future(self.registry.ask(agent.id, request))
        moment = self.clock.monotonic() + answered_within
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not asking.done():
                await self.registry.wait_until_idle()
                self.clock.advance(0)
                await asyncio.wait({asking}, timeout=0.001)
                if not asking.done() and moment in self.clock.timers():
                    await self.advance(answered_within)
        await self.wait_until_idle()
        return asking.result()

    async def start(self, agent: Agent) -> Puppet:
        """Request a run and return its puppet."""
        await self.ask(agent, RunRequest())
        return self._latest[agent.id]

    async def see(self, agent: Agent) -> Snapshot:
        snapshot = await self.registry.status.snapshot(agent.id)
        assert snapshot is not None
        return snapshot

    async def phase(self, agent: Agent) -> Phase:
        return (await self.see(agent)).phase

    async def agent_now(self, agent_id: UUID) -> Agent:
        agent = await self.storage.agents.get(agent_id)
        assert agent is not None
        return agent

    async def state(self, agent: Agent) -> AgentState:
        seen = await self.states.get_facts(agent.id, self.clock.now())
        assert seen is not None
        return seen.state

    async def ledger(self, agent: Agent) -> list[LedgerEntry]:
        """Return the agent's runs, oldest first."""
        return (await self.storage.runs.list_page(RunFilters(agent_id=agent.id), Page()))[::-1]

    async def queue(self, agent: Agent) -> list[Notification]:
        """Return the agent's uncleared notifications, oldest first."""
        filters = NotificationFilters((agent.organization_id,), agent.id, cleared=False)
        return (await listed_page(self.storage.notifications, Notification, filters))[::-1]

    async def wakes(self, agent: Agent) -> list[tuple[float, str]]:
        """Return the second of the timeline and the wake reason of each run."""
        return [
            ((run.started_at - self.began_at).total_seconds(), run.wake_reason)
            for run in await self.ledger(agent)
        ]

    async def outcomes(self, agent: Agent) -> list[Outcome | None]:
        return [run.outcome for run in await self.ledger(agent)]

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Execute a run as a harness: hand it to the test."""
        puppet = self.puppets[run.agent_id] = self._latest[run.agent_id] = Puppet(self, run, ask)
        try:
            return await puppet.perform()
        finally:
            del self.puppets[run.agent_id]

    def _tell(self, agent_ids: Iterable[UUID]) -> None:
        self.registry.tell_all(agent_ids, Signal.NOTIFIED)

    def _tell_of_clearings(self, agent_ids: Sequence[UUID]) -> None:
        self.registry.tell_all(agent_ids, Signal.CLEARED)

    async def _home(self) -> UUID:
        if self._organization_id is None:
            self._organization_id = await self.organization()
        return self._organization_id

    def _builtin_harness(self, model: Model) -> BuiltinHarness:
        types = {self._provider: {*IMAGE_TYPES, PDF_TYPE}}
        return BuiltinHarness(
            stores=self.storage,
            wakes=WakeContexts(self.storage, self.clock, self._run_settings, types),
            budget_guard=BudgetGuard(self.storage.spending, PriceList(), self.clock),
            prices=PriceList(),
            toolset=self.toolset,
            schema_checker=self._schema_checker,
            providers={self._provider: model},
            feed=self.live_output,
            clock=self.clock,
            settings=self._run_settings,
            tracing=self._tracing_settings,
            max_content_bytes=2**20,
        )


@asynccontextmanager
async def open_world(
    pool: Pool,
    *,
    runs: Mapping[str, Any] | None = None,
    supervisors: Mapping[str, Any] | None = None,
    outbound: Mapping[str, Any] | None = None,
    model: Model | None = None,
    max_runs_per_organization: int = 0,
    tracing: TracingSettings | None = None,
    provider: str = "builtin",
    node_id: int = 1,
) -> AsyncIterator[World]:
    """Open a world with these settings; outbound calls may go to this machine.

    With a model, which is of this provider, the built-in harness executes the runs.
    """
    outbound_settings = OutboundSettings(**{"allow_private": True, **(outbound or {})})
    async with (
        open_guarded_http(outbound_settings, SystemClock()) as client,
        open_schema_checker(SystemClock()) as checker,
    ):
        world = World(
            pool,
            RunSettings(**(runs or {})),
            SupervisorSettings(**(supervisors or {})),
            model,
            client,
            checker,
            max_runs_per_organization,
            tracing,
            provider,
            node_id,
        )
        await world.begin()
        try:
            yield world
        finally:
            await world.end()
