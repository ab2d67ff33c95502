"""The process of a simulated world: with short times, in whole quanta, and everything that a node does."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from random import Random
from uuid import UUID

from hostsvc_testing.memory.tables import QUANTUM_SECONDS, Made, Tables
from hostsvc_testing.process import Process, Service
from hostsvc_testing.virtual.clock import Wall
from hostsvc_testing.virtual.virtual_loop import VirtualLoop
from storage.parked_calls import ParkedCall
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.engine.run import Harness
from supervisors.events.feed import EventFeed
from supervisors.maintenance.due_tasks import DueLook
from supervisors.maintenance.parked_calls import ParkedCallRunner
from supervisors.maintenance.scans import NodeWatch, Sweep
from supervisors.maintenance.schedules import ScheduleRunner
from supervisors.policy.parked_calls import CallAnswer, effective_arguments
from supervisors.settings import RunSettings, SupervisorSettings
from tests.simulation.cluster import SimulatedNode
from tests.simulation.faulty_wire import FaultyWire

SUPERVISORS = SupervisorSettings(debounce_cap_seconds=10, scan_interval_seconds=5, idle_seconds=2)
RUNS = RunSettings(max_seconds=8, stop_grace_seconds=1, min_interval_seconds=1)
IDLE_SWEEP_SECONDS = 3.0
MAX_CALL_SECONDS = 8.0  # of the tool server
SWEEP_SECONDS = 1.0


class QuantisedRandom(Random):
    """Jitter in whole quanta, so that it coincides with other events."""

    def uniform(self, a: float, b: float) -> float:
        return QUANTUM_SECONDS * round(super().uniform(a, b) / QUANTUM_SECONDS)


class SimulatedProcess(Process):
    """One node of a simulated world."""

    supervisor_settings = SUPERVISORS
    scan_seconds = SUPERVISORS.scan_interval_seconds

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
        super().__init__(loop, tables, wall, wire, node, QuantisedRandom(seed))
        self.node: SimulatedNode = node
        self.wire: FaultyWire = wire
        node.owner = self
        self.has_begun = False
        self.run_settings = replace(RUNS, max_concurrent=slots)
        self.organization_limit = organization_limit
        self._has_schedules = bool(tables.schedules)
        self._calls = tables.calls
        self.feed = EventFeed(self.storage.events, self.clock)

    async def begin(self, harness: Harness, *, is_one_of_many: bool = False) -> None:
        """Recover all agents and start the maintenance services."""
        self._is_one_of_many = is_one_of_many
        await super().begin(harness)
        self.has_begun = True

    def build_registry(self, harness: Harness) -> Registry:
        registry = super().build_registry(harness)
        self.node.hear = registry.hear
        return registry

    def ring(self, node_id: int, signal: Signal, agent_id: UUID) -> None:
        self.node.ring(node_id, signal, agent_id)

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

    async def regain_confirmation(self) -> None:
        self.node.regain_confirmation()
        if not self._is_one_of_many:
            await self._scan.recover()

    def services(self) -> Iterator[Service]:
        yield "idle supervisors", self._drop_idle, IDLE_SWEEP_SECONDS
        yield "event feed", self.feed.run_once, 0
        yield from self._services_of_due()
        yield from self._services_of_many()

    async def _drop_idle(self) -> None:
        self.registry.drop_idle()

    def _services_of_due(self) -> Iterator[Service]:
        """Return what fires schedules and makes parked calls, at every node, in a world that has any."""
        schedules, calls, clock = self.storage.schedules, self.storage.parked_calls, self.clock

        async def get_next() -> dict[str, datetime | None]:
            return {"schedules": schedules.next_due(), "parked_calls": calls.next_due()}

        look = DueLook(get_next, calls.stored, clock)
        if self._has_schedules or self._calls.rows:
            yield "due look", look.run_once, QUANTUM_SECONDS
        if self._has_schedules:
            yield "schedules", look.when_due("schedules", ScheduleRunner(schedules, clock).fire_due), 0
        if self._calls.rows:
            runner = ParkedCallRunner(calls, self._make_call, MAX_CALL_SECONDS, clock, lambda: True)
            yield "parked calls", look.when_due("parked_calls", runner.run_once, runner.due), 0

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
