"""The simulated service: one process or several over the same tables, and what befalls them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from hostsvc_testing.memory.tables import QUANTUM_SECONDS, Tables
from hostsvc_testing.virtual.clock import Wall
from hostsvc_testing.virtual.history import History
from hostsvc_testing.virtual.virtual_loop import VirtualLoop
from storage.errors import StorageError
from tests.simulation.clients import Clients
from tests.simulation.cluster import LATEST_READ_SECONDS, Cluster
from tests.simulation.faulty_wire import FaultyWire
from tests.simulation.followers import Followers
from tests.simulation.ids import Ids
from tests.simulation.judge import Judge
from tests.simulation.ledger import Ledger
from tests.simulation.process import SimulatedProcess
from tests.simulation.scripted_harness import ScriptedHarness
from tests.simulation.workload import Action

SLOTS = (1, 2, 2)
ORGANIZATION_LIMITS = (0, 0, 0, 0, 1, 1, 2, 3)  # of the runs of one organization in all processes; 0: none
SHARE_WITH_CAPS = 0.4
SHARE_LINGERING = 0.5  # of the worlds: runs go on for a while after their sleep
LOST_RINGS = (0.0, 0.0, 0.3, 1.0)
DRAIN_SECONDS = 1.5
MOST_NODES = 4


@dataclass(slots=True)
class World:
    """What all processes of a seed share."""

    seed: int
    loop: VirtualLoop
    tables: Tables
    wall: Wall
    history: History
    judge: Judge
    ledger: Ledger
    ids: Ids
    followers: Followers
    has_caps: bool
    organization_limit: int

    def random(self, of: str) -> Random:
        return Random(f"{self.seed} {of}")  # noqa: S311 -- lots, not secrets


@dataclass(slots=True, eq=False)
class Life:
    """One process, and the clients that use it."""

    process: SimulatedProcess
    clients: Clients
    is_leaving: bool = False


class Service:
    """The processes. A lone one is started again after each crash; of several, the others go on."""

    def __init__(self, world: World, count: int, slots: int, chance: Random) -> None:
        self.is_many = count > 1
        self.lives: list[Life] = []  # those that clients can reach, the oldest first
        self._count = count
        self._slots = slots
        self._world = world
        self._chance = chance
        rings = world.random("rings")
        self.cluster = Cluster(
            world.loop,
            rings,
            share_lost=rings.choice(LOST_RINGS),
            has_delays=rings.random() < 0.5,
        )
        self.cluster.on_late = world.judge.ring_is_late
        self._lingers = world.random("lingering").random() < SHARE_LINGERING
        self._followed: SimulatedProcess | None = None
        self._faults: list[asyncio.Task[None]] = []
        self._joining = 0

    async def begin(self) -> None:
        for _ in range(self._count):
            await self.join()

    async def join(self) -> None:
        """Begin a process, as a node of its own."""
        world, cluster = self._world, self.cluster
        node = cluster.join()
        number = node.node_id
        world.history.note(f"life {number} of the service begins, at {world.wall.now():%H:%M:%S}")
        wire = FaultyWire(world.loop, world.random(f"wire {number}"), world.history, world.judge.disturbed)
        seed = f"{world.seed} process {number}"
        limit = world.organization_limit
        process = SimulatedProcess(world.loop, world.tables, world.wall, wire, self._slots, limit, seed, node)
        costs = world.random(f"costs {number}") if world.has_caps else None
        harness = ScriptedHarness(
            process,
            world.judge,
            world.history,
            world.ledger,
            world.random(f"harness {number}"),
            world.ids,
            costs,
            lingers=self._lingers,
        )
        clients = Clients(process, world.tables, world.judge, world.history, world.ledger, world.ids)
        world.judge.begins(process)
        with world.loop.acting(process):
            task = world.loop.create_task(process.begin(harness, is_one_of_many=self.is_many))
        await task
        self.lives.append(Life(process, clients))
        if len(self.lives) == 1:
            self._follow(process)
        world.judge.began()

    def pick(self) -> Life:
        """Draw a process for a client."""
        return self.lives[0] if not self.is_many else self._chance.choice(self.lives)

    def do(self, action: Action) -> None:
        """Let a client of one of the processes act."""
        life = self.pick()
        if self.is_many:
            self._world.history.note(f"node {life.process.node.node_id} gets {action.name}")
        with self._world.loop.acting(life.process):
            self._world.loop.create_task(life.clients.attempt(action.name, action.act), name=action.name)

    async def settle(self) -> None:
        """Wait until no fault is under way any more; raise what went wrong in the simulation of one."""
        await asyncio.gather(*self._faults)

    async def die(self) -> None:
        """End all processes."""
        for life in self.lives:
            await life.process.die()

    # What befalls the only process

    async def crash(self) -> None:
        [life] = self.lives
        self._world.history.note("the service dies")
        self._world.judge.died()
        self.lives.clear()
        await life.process.die()
        self.cluster.bury(life.process.node.node_id)
        self.check_ledger()
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((0, 0, 4, 12, 40)))
        await self.join()

    async def lose_lead_for_a_while(self, _: Clients) -> None:
        [life] = self.lives
        process, judge = life.process, self._world.judge
        if not process.registry.may_start:
            return
        self._world.history.note("the lead is lost")
        judge.lost_lead(process.node.node_id)
        process.node.lose_confirmation()
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((1, 4, 12)))
        self._world.history.note("the lead is regained")
        judge.regained_lead(process.node.node_id)
        await process.regain_confirmation()
        if process.registry.may_start:
            judge.began()

    # What befalls one of several

    def befall(self) -> None:
        """Let something happen to one of the nodes, or let one join."""
        kinds: list[Callable[[Life], Awaitable[None]]] = [
            self._kill,
            self._kill,
            self._freeze,
            self._bury_frozen,
            self._lose_confirmation,
            self._leave,
        ]
        staying = [life for life in self.lives if not life.is_leaving]
        kind, life = self._chance.choice(kinds), self._chance.choice(staying)
        if len(self.lives) + self._joining < self._count and self._chance.random() < 0.5:
            self._joining += 1
            self._spawn(self._join_later(0))
        elif len(staying) > 1:
            self._spawn(self._befall(kind, life))

    async def _befall(self, kind: Callable[[Life], Awaitable[None]], life: Life) -> None:
        staying = [each for each in self.lives if not each.is_leaving]
        if life in staying and len(staying) > 1:  # nothing else befell it at the same moment
            await kind(life)

    def check_ledger(self) -> None:
        for agent_id, what in self._world.ledger.lost():
            self._world.judge.condemn("I3", agent_id, what)

    def _spawn(self, fault: Awaitable[None]) -> None:
        self._faults.append(self._world.loop.create_task(fault, name="fault"))  # type: ignore[arg-type]

    async def _join_later(self, quanta: int) -> None:
        await asyncio.sleep(QUANTUM_SECONDS * quanta)
        while True:
            try:
                await self.join()
                break
            except StorageError:
                await asyncio.sleep(QUANTUM_SECONDS)
        self._joining -= 1

    async def _kill(self, life: Life) -> None:
        process = life.process
        self._lose(life, "dies")
        self._world.judge.node_died(process)
        await process.die()
        self.check_ledger()
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((0, 1, 4, 8)))
        self._bury(process)

    async def _freeze(self, life: Life) -> None:
        """Stop a process for a while, but not long enough for the others to bury it."""
        process = life.process
        self._lose(life, "is frozen")
        process.freeze()
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((1, 4, 8, 16)))
        self._world.history.note(f"node {process.node.node_id} thaws")
        process.thaw()
        self.lives.append(life)
        self._recover(process)

    async def _bury_frozen(self, life: Life) -> None:
        """Stop a process; it is buried, and finds out when it goes on."""
        process = life.process
        self._lose(life, "is frozen for good")
        process.freeze()
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((8, 12)))
        process.node.lose_confirmation()
        await process.wire.sever()
        self._world.judge.node_died(process)
        self._bury(process)
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((0, 4, 12)))
        self._world.history.note(f"node {process.node.node_id} thaws, though it is dead")
        process.thaw()
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((0, 1)))
        with self._world.loop.acting(process):
            process.registry.abandon()
        await process.die()

    async def _lose_confirmation(self, life: Life) -> None:
        process, judge = life.process, self._world.judge
        node_id = process.node.node_id
        if not process.node.is_confirmed:
            return
        self._world.history.note(f"node {node_id} is unconfirmed")
        judge.node_in_trouble(process)
        judge.lost_lead(node_id)
        process.node.lose_confirmation()
        await asyncio.sleep(QUANTUM_SECONDS * self._chance.choice((1, 4, 12)))
        if node_id not in self.cluster.rows or process.clock.is_stopped:
            return
        self._world.history.note(f"node {node_id} is confirmed again")
        judge.regained_lead(node_id)
        await process.regain_confirmation()
        self._recover(process)

    async def _leave(self, life: Life) -> None:
        process, world = life.process, self._world
        node_id, life.is_leaving = process.node.node_id, True
        if self._chance.random() < 0.5:
            self._lose(life, "leaves")
        else:
            world.history.note(f"node {node_id} leaves, and clients still come")
            world.judge.node_in_trouble(process)
        self.cluster.leave(node_id)
        with world.loop.acting(process):
            drain = world.loop.create_task(process.registry.drain(DRAIN_SECONDS), name="drain")
        self._recover(process)
        await asyncio.wait([drain])
        if life in self.lives:
            self._lose(life, "has left")
        if node_id in self.cluster.rows and not process.clock.is_stopped:
            world.judge.node_in_trouble(process)  # a request that came late may still be under way
            world.judge.node_died(process)
            await process.die()
            self._bury(process)

    def _lose(self, life: Life, what: str) -> None:
        """Let no client reach the process from now on."""
        process = life.process
        self._world.history.note(f"node {process.node.node_id} {what}")
        self._world.judge.node_in_trouble(process)
        if life in self.lives:
            self.lives.remove(life)
        if process is self._followed and self.lives:
            self._follow(self.lives[0].process)

    def _bury(self, process: SimulatedProcess) -> None:
        self._world.history.note(f"node {process.node.node_id} is dead")
        self.cluster.bury(process.node.node_id)
        self._recover(process)
        if self._chance.random() < 0.5 and len(self.lives) + self._joining < MOST_NODES:
            self._joining += 1
            self._spawn(self._join_later(self._chance.choice((0, 4, 12))))

    def _recover(self, process: SimulatedProcess) -> None:
        self._world.judge.node_is_made_up_for(process, LATEST_READ_SECONDS + 2 * QUANTUM_SECONDS)

    def _follow(self, process: SimulatedProcess) -> None:
        self._followed = process
        with self._world.loop.acting(process):
            self._world.followers.follow(process.feed, process.storage.events)
