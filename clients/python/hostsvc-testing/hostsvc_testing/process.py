"""One process of the service, composed as `hostsvc.service` composes it, on a store in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar
from uuid import UUID

import aiojobs

from hostsvc_testing.memory.memory_store import build_memory_storage
from hostsvc_testing.memory.process_wire import ProcessWire
from hostsvc_testing.memory.tables import Tables
from hostsvc_testing.virtual.clock import ProcessClock, Wall
from hostsvc_testing.virtual.virtual_loop import OwnedTask, VirtualLoop
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.engine.run import Harness
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.scans import BudgetRenewal, DueScan, PauseSync
from supervisors.ports import Nodes
from supervisors.settings import RunSettings, SupervisorSettings

Service = tuple[str, Callable[[], Awaitable[object]], float]
"""The name of a maintenance service, its function, and the seconds between two calls."""


@dataclass(frozen=True, slots=True)
class LoneNode:
    """The only node of a service, as its supervisors see it: a `supervisors.ports.Nodes`."""

    node_id: int
    is_confirmed: ClassVar[bool] = True
    starts_runs: ClassVar[bool] = True

    @property
    def living_ids(self) -> tuple[int, ...]:
        return (self.node_id,)

    staying_ids = living_ids

    def is_living(self, node_id: int) -> bool:
        return node_id == self.node_id

    def is_leaving(self, _: int) -> bool:
        return False

    def responsible_for(self, _: UUID) -> int:
        return self.node_id

    async def wait_until_confirmed(self) -> None:
        """Do nothing: nobody can have declared it dead."""


class Process:
    """A process from start to death; everything in its memory dies with it."""

    supervisor_settings = SupervisorSettings()
    run_settings = RunSettings()
    organization_limit = 0
    scan_seconds = 86_400.0  # between two scans

    def __init__(
        self,
        loop: VirtualLoop,
        tables: Tables,
        wall: Wall,
        wire: ProcessWire,
        node: Nodes,
        random: Random,
    ) -> None:
        self.node = node
        self.clock = ProcessClock(loop, wall, self)
        self.wire = wire
        self.storage = build_memory_storage(tables, self.tell, wire, self._tell_of_clearings)
        self._tables = tables
        self._loop = loop
        self._random = random

    async def begin(self, harness: Harness) -> None:
        """Recover all agents and start the maintenance services."""
        self.registry = self.build_registry(harness)
        stores, registry, clock = self.storage, self.registry, self.clock
        self._scan = DueScan(stores.agent_states, registry, self.node, clock, self._random)
        pauses = PauseSync(stores.agent_states, stores.organizations, registry, clock)
        budgets = BudgetRenewal(stores.agent_states, registry, clock)
        await self._scan.recover()
        services = aiojobs.Scheduler(limit=None)
        for name, run_once, seconds in (
            ("due scan", self._scan.run_once, self.scan_seconds),
            ("pauses", pauses.run_once, self.scan_seconds),
            ("budgets", budgets.run_once, self.scan_seconds),
            *self.services(),
        ):
            await services.spawn(repeat(name, run_once, seconds, clock), name=name)

    def build_registry(self, harness: Harness) -> Registry:
        return Registry(
            store=self.storage.agent_states,
            harness=harness,
            clock=self.clock,
            supervisor_settings=self.supervisor_settings,
            run_settings=self.run_settings,
            random=self._random,
            nodes=self.node,
            ring=self.ring,
            max_runs_per_organization=self.organization_limit,
        )

    def ring(self, node_id: int, signal: Signal, agent_id: UUID) -> None:
        """Ring for an agent at another node. There is none here."""

    def services(self) -> Iterator[Service]:
        """Yield the maintenance services that this kind of process has besides."""
        yield from ()

    async def die(self) -> None:
        """Die at once: no task gets any further, and writes under way may or may not arrive."""
        self.clock.is_stopped = True
        under_way = self.wire.cut()
        spared = {asyncio.current_task(), *under_way}
        while doomed := [task for task in self._tasks() if task not in spared]:
            for task in doomed:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*under_way, return_exceptions=True)

    def _tasks(self) -> list[OwnedTask]:
        return [task for task in self._loop.unfinished_tasks() if task.owner is self]

    def tell(self, attendants: Mapping[UUID, int | None]) -> None:
        if not self.wire.is_cut:
            for agent_id, node_id in attendants.items():
                self.registry.tell_attendant(agent_id, node_id, Signal.NOTIFIED)

    def _tell_of_clearings(self, agent_ids: Sequence[UUID]) -> None:
        if not self.wire.is_cut:
            self.registry.tell_all(agent_ids, Signal.CLEARED)
