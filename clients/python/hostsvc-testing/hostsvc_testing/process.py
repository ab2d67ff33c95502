"""One process of the service, composed as `hostsvc.service` composes it, on a store in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import aiojobs

from hostsvc_testing.cluster import SimulatedNode
from hostsvc_testing.memory.faulty_wire import QUANTUM_SECONDS, FaultyWire
from hostsvc_testing.memory.memory_store import build_memory_storage
from hostsvc_testing.memory.tables import Made, Tables
from hostsvc_testing.virtual.clock import ProcessClock, Wall
from hostsvc_testing.virtual.virtual_loop import OwnedTask, VirtualLoop
from storage.parked_calls import ParkedCall
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.engine.run import Harness
from supervisors.events.feed import EventFeed
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.maintenance.scans import BudgetRenewal, DueScan, NodeWatch, PauseSync, Sweep
from supervisors.maintenance.schedules import ScheduleRunner
from supervisors.policy.parked_calls import CallAnswer, effective_arguments
from supervisors.settings import RunSettings, SupervisorSettings

SUPERVISORS = SupervisorSettings(debounce_cap_seconds=10, scan_interval_seconds=5, idle_seconds=2)
RUNS = RunSettings(max_seconds=8, stop_grace_seconds=1, min_interval_seconds=1)
IDLE_SWEEP_SECONDS = 3.0
MAX_CALL_SECONDS = 8.0  # of the tool server
SWEEP_SECONDS = 1.0

Service = tuple[str, Callable[[], Awaitable[object]], float]


class QuantisedRandom(Random):
    """Jitter in whole quanta, so that it coincides with other events."""

    def uniform(self, a: float, b: float) -> float:
        return QUANTUM_SECONDS * round(super().uniform(a, b) / QUANTUM_SECONDS)


class Process:
    """A process from start to death; everything in its memory dies with it."""

    def __init__(
        self,
        loop: VirtualLoop,
        tables: Tables,
        wall: Wall,
        wire: FaultyWire,
        slots: int,
        organization_limit: int,
        seed: str,
        node: SimulatedNode,
    ) -> None:
        self.node = node
        node.owner = self
        self.clock = ProcessClock(loop, wall, self)
        self.wire = wire
        self._runs = replace(RUNS, max_concurrent=slots)
        self._organization_limit = organization_limit
        self._has_schedules = bool(tables.schedules)
        self._calls = tables.calls
        self.storage = build_memory_storage(tables, self._tell, wire, self._tell_of_clearings)
        self.feed = EventFeed(self.storage.events, self.clock)
        self._loop = loop
        self._random = QuantisedRandom(seed)
        self.has_begun = False
        self.registry: Registry
        self._scan: DueScan

    async def begin(self, harness: Harness, *, is_one_of_many: bool = False) -> None:
        """Recover all agents and start the maintenance services."""
        self._is_one_of_many = is_one_of_many
        self.registry = Registry(
            store=self.storage.agent_states,
            harness=harness,
            clock=self.clock,
            supervisor_settings=SUPERVISORS,
            run_settings=self._runs,
            random=self._random,
            nodes=self.node,
            ring=self.node.ring,
            max_runs_per_organization=self._organization_limit,
        )
        self._scan = DueScan(self.storage.agent_states, self.registry, self.node, self.clock, self._random)
        self.node.hear = self.registry.hear
        stores, registry = self.storage, self.registry
        pauses = PauseSync(stores.agent_states, stores.organizations, registry, self.clock)
        budgets = BudgetRenewal(self.storage.agent_states, self.registry, self.clock)
        await self._scan.recover()
        services = aiojobs.Scheduler(limit=None)
        for name, run_once, seconds in (
            ("due scan", self._scan.run_once, SUPERVISORS.scan_interval_seconds),
            ("pauses", pauses.run_once, SUPERVISORS.scan_interval_seconds),
            ("budgets", budgets.run_once, SUPERVISORS.scan_interval_seconds),
            ("idle supervisors", self._drop_idle, IDLE_SWEEP_SECONDS),
            ("event feed", self.feed.run_once, 0),
            *self._services_of_schedules(),
            *self._services_of_calls(),
            *self._services_of_many(),
        ):
            await services.spawn(repeat(name, run_once, seconds, self.clock), name=name)
        self.has_begun = True

    async def regain_confirmation(self) -> None:
        self.node.regain_confirmation()
        if not self._is_one_of_many:
            await self._scan.recover()

    async def die(self) -> None:
        """Die at once: no task gets any further, and writes under way may or may not arrive."""
        self.clock.is_stopped = True
        under_way = self.wire.cut()
        self._loop.thaw(self)
        spared = {asyncio.current_task(), *under_way}
        while doomed := [task for task in self._tasks() if task not in spared]:
            for task in doomed:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*under_way, return_exceptions=True)

    def freeze(self) -> None:
        """Do nothing from now on, as after a SIGSTOP."""
        self.wire.freeze()
        self._loop.freeze(self)
        self.clock.freeze()
        self.node.freeze()

    def thaw(self) -> None:
        """Go on."""
        self.wire.thaw()
        self._loop.thaw(self)
        self.clock.thaw()
        self.node.thaw()

    def _tasks(self) -> list[OwnedTask]:
        return [task for task in self._loop.unfinished_tasks() if task.owner is self]

    def _services_of_schedules(self) -> tuple[Service, ...]:
        """Return what fires schedules, at every node, in a world that has any."""
        if not self._has_schedules:
            return ()
        runner = ScheduleRunner(self.storage.schedules, self.clock)
        return (("schedules", runner.run_once, QUANTUM_SECONDS),)

    def _services_of_calls(self) -> tuple[Service, ...]:
        """Return what looks after parked calls, at every node, in a world that has any."""
        if not self._calls.rows:
            return ()
        store, clock = self.storage.parked_calls, self.clock
        runner = ParkedCallRunner(store, self._make_call, MAX_CALL_SECONDS, clock, lambda: True)
        return (("parked calls", runner.run_once, QUANTUM_SECONDS),)

    async def _make_call(self, call: ParkedCall) -> CallAnswer:
        """Call the tool server, which takes a while before and after it does what it is asked."""
        await self.clock.sleep(QUANTUM_SECONDS * self._random.randint(0, 8))
        amount = effective_arguments(call)["amount"]
        self._calls.made.append(Made(call.id, call.agent_id, amount, self.clock.now()))
        await self.clock.sleep(QUANTUM_SECONDS * self._random.randint(0, 20))
        return CallAnswer(error="no money") if amount % 7 == 0 else CallAnswer(amount)

    def _services_of_many(self) -> tuple[Service, ...]:
        """Return what a node does that is not alone."""
        if not self._is_one_of_many:
            return ()
        watch = NodeWatch(self.node, self.node.changed, self._scan)
        sweep = Sweep(self.storage.agent_states, self.registry, self.node)
        return (("nodes", watch.run_once, QUANTUM_SECONDS), ("sweep", sweep.run_once, SWEEP_SECONDS))

    def _tell(self, attendants: Mapping[UUID, int | None]) -> None:
        if not self.wire.is_cut:
            for agent_id, node_id in attendants.items():
                self.registry.tell_attendant(agent_id, node_id, Signal.NOTIFIED)

    def _tell_of_clearings(self, agent_ids: Sequence[UUID]) -> None:
        if not self.wire.is_cut:
            self.registry.tell_all(agent_ids, Signal.CLEARED)

    async def _drop_idle(self) -> Any:
        self.registry.drop_idle()
