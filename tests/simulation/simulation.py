"""One seed: a small world, its service and all that happens to them, in virtual time."""

import asyncio
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import structlog

from hostsvc_testing.memory.tables import QUANTUM_SECONDS, Tables
from hostsvc_testing.virtual.clock import Wall
from hostsvc_testing.virtual.history import History
from hostsvc_testing.virtual.virtual_loop import EndlessMoment, NothingAhead, VirtualLoop, end_leftovers
from storage.agent_facts import AgentState
from storage.model import Agent, Organization
from storage.notifications.schedules import IfUncleared
from supervisors.engine import supervisor, updates
from supervisors.maintenance.parked_calls import STORE_SECONDS
from supervisors.policy.schedules import changed
from tests.simulation import call_judge, log_judge, schedule_judge, why_judge
from tests.simulation.clients import parked_call_of
from tests.simulation.followers import Followers
from tests.simulation.ids import Ids
from tests.simulation.judge import REPAIR_SECONDS, Judge, Violation
from tests.simulation.ledger import Ledger
from tests.simulation.log_judge import LogJudge
from tests.simulation.node_judge import NodeJudge
from tests.simulation.process import MAX_CALL_SECONDS
from tests.simulation.service import ORGANIZATION_LIMITS, SHARE_WITH_CAPS, SLOTS, Service, World
from tests.simulation.why_judge import WhyJudge
from tests.simulation.witnesses import Witnesses
from tests.simulation.workload import EVERY_SECONDS, Action, Workload
from tests.storage.factories import NOW
from tests.storage.factories import schedule as plain_schedule
from tests.storage.factories import template as plain_template

HOUR_SECONDS = 3600.0
READS_PER_TICK = (None, 1, 1, 4)
NODES = (1, 1, 1, 1, 2, 2, 3, 4)
SHARE_WITH_PAUSES = 0.25  # of single agents
SHARE_WITH_SCHEDULES = 0.2
SHARE_WITH_CALLS = 0.2
CALL_SECONDS = MAX_CALL_SECONDS + STORE_SECONDS + QUANTUM_SECONDS  # until a lease is over
NINE_DAYS = timedelta(days=9)
LATE_SECONDS = (None, 10)
ERROR_METHODS = frozenset({"error", "exception", "critical"})
BEFORE_MIDNIGHT_SECONDS = 15 * HOUR_SECONDS - 20  # counted from the usual start


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a seed: the violation, None if there was none, and the history."""

    seed: int
    violation: str | None
    history: History


class Simulation:
    """The world of one seed."""

    def __init__(self, seed: int, nodes: int | None = None) -> None:
        self.seed = seed
        self.loop = VirtualLoop(self._random("loop"))
        self.history = History(self.loop)
        self.ids = Ids()
        self._chance = self._random("world")
        self._wall = Wall(self.loop, NOW, self._random("clock").choice(READS_PER_TICK))
        self._wall.step(self._random("time of day").choice((0, BEFORE_MIDNIGHT_SECONDS)))
        self._tables = Tables()
        slots = self._random("slots").choice(SLOTS)
        self._organization_limit = self._random("organization limit").choice(ORGANIZATION_LIMITS)
        self.judge = Judge(self._tables, self._wall, self.loop, self.history, slots, self._organization_limit)
        ledger = Ledger(self._tables)
        reads_along = LogJudge(self._tables, self.history, self.judge.condemn)
        self._followers = Followers(self._tables, self.judge.condemn)
        self._why_judge = WhyJudge(self._tables, self.judge)
        has_caps = self._random("caps").random() < SHARE_WITH_CAPS
        world = World(
            seed,
            self.loop,
            self._tables,
            self._wall,
            self.history,
            self.judge,
            ledger,
            self.ids,
            self._followers,
            has_caps,
            self._organization_limit,
        )
        count = self._random("nodes").choice(NODES) if nodes is None else nodes
        self.service = Service(world, count, slots, self._chance)
        self._node_judge = NodeJudge(self.judge, self.service.cluster)
        self._tables.witness = Witnesses(
            self.judge, reads_along, self._followers, self._why_judge, self._node_judge
        )
        lots = self._random("schedules")
        self._schedule_lots = lots if lots.random() < SHARE_WITH_SCHEDULES else None
        lots = self._random("parked calls")
        self._call_lots = lots if lots.random() < SHARE_WITH_CALLS else None
        self._workload = Workload(
            self._chance,
            self._tables,
            self.ids,
            self._wall.now,
            self._random("wakes"),
            has_caps=has_caps,
            has_pauses=self._random("pauses").random() < SHARE_WITH_PAUSES,
            has_schedules=self._schedule_lots is not None,
            calls=self._call_lots,
        )
        self.loop.before_time_passes = self._at_rest

    async def run(self) -> None:
        """Start the service, let things happen, then wait until all is repaired."""
        self._populate()
        await self.service.begin()
        for _ in range(self._chance.randint(10, 40)):
            await asyncio.sleep(self._workload.pause_before_next())
            await self._let_something_happen()
        await self.service.settle()
        await asyncio.sleep(2 * REPAIR_SECONDS)
        self.service.check_ledger()
        last_id = self._tables.events.last_id
        await asyncio.sleep(REPAIR_SECONDS)
        for what in self._followers.missed(last_id):
            self.judge.condemn(log_judge.INVARIANT, None, what)
        for agent_id, what in self._why_judge.differences():
            self.judge.condemn(why_judge.INVARIANT, agent_id, what)
        for schedule, what in schedule_judge.differences(self._tables, self._wall.now()):
            self.judge.condemn(schedule_judge.INVARIANT, schedule.agent_id, what)
        await self._judge_calls()
        await self.service.die()

    async def _judge_calls(self) -> None:
        """Judge parked calls when the leases of dead processes are over."""
        if self._call_lots is None:
            return
        await asyncio.sleep(CALL_SECONDS + 2 * REPAIR_SECONDS)
        patience = timedelta(seconds=REPAIR_SECONDS)
        for call, what in call_judge.differences(self._tables, self._wall.now(), patience):
            self.judge.condemn(call_judge.INVARIANT, call.agent_id, what)

    def _at_rest(self) -> None:
        self.judge.at_rest()
        self._node_judge.at_rest()
        self._why_judge.observe(self._node_judge.find_registry)

    async def _let_something_happen(self) -> None:
        service, draw = self.service, self._chance.random()
        if draw < 0.09 and service.is_many:
            service.befall()
        elif draw < 0.04:
            await service.crash()
        elif draw < 0.07:
            self._step_the_clock()
        elif draw < 0.09:
            service.do(Action("lead", service.lose_lead_for_a_while))
        elif draw < 0.13 and self._has_faults():
            seconds = QUANTUM_SECONDS * self._chance.randint(1, 12)
            service.pick().process.wire.trouble(seconds, self._chance.choice((0.1, 0.4)))
        elif draw < 0.18:
            for step, action in self._workload.conversation():
                await asyncio.sleep(step)
                service.do(action)
        else:
            drawn = self._workload.next_action()
            if drawn is not None:
                service.do(drawn)

    def _has_faults(self) -> bool:
        """Return whether the database has faults: every other world has none, and so no excuse."""
        return self.seed % 2 == 1

    def _step_the_clock(self) -> None:
        seconds = self._chance.choice((-HOUR_SECONDS, HOUR_SECONDS))
        before = self._wall.now()
        self._wall.step(seconds)
        self.judge.stepped(seconds)
        self._why_judge.stepped(before)
        self.history.note(f"the clock is set by {seconds:+g} s, to {self._wall.now():%H:%M:%S}")

    def _populate(self) -> None:
        for name in ("us", "them"):
            organization = Organization(self.ids.new(), name, NOW)
            self._tables.organizations[organization.id] = organization
            self.history.call(organization.id, name)
            template = plain_template(
                organization.id, id=self.ids.new(), debounce_window_seconds=self._chance.choice((0, 2, 4))
            )
            self._tables.templates[template.id] = template
        us, them = self._tables.organizations
        for organization_id in (us, them, us, *((us, us) if self._organization_limit else ())):
            agent = self._workload.new_agent(organization_id)
            self._tables.agents[agent.id] = agent
            self._tables.states[agent.id] = AgentState(agent.id)
            self.history.call(agent.id, f"agent {agent.id.int}")
        self._followers.populate(agent.organization_id, agent.id)
        if self._schedule_lots is not None:
            for each in list(self._tables.agents.values()):
                self._add_schedule(each, self._schedule_lots)
        if self._call_lots is not None:
            for each in list(self._tables.agents.values()):
                self._add_calls(each, self._call_lots)

    def _add_calls(self, agent: Agent, lots: Random) -> None:
        """Have the agent wait for decisions since nine days; some of them expire soon."""
        calls = self._tables.calls
        for amount in (1, 5, 9):
            call_id, made_at = self.ids.new(), self._wall.now() - NINE_DAYS
            lasts = NINE_DAYS + timedelta(seconds=lots.choice((4, 30, 3600)))
            calls.rows[call_id] = parked_call_of(agent, call_id, amount, made_at, lasts)
            calls.harmless |= {call_id} if lots.random() < 0.3 else set()

    def _add_schedule(self, agent: Agent, lots: Random) -> None:
        new = plain_schedule(
            agent,
            id=self.ids.new(),
            title=f"schedule of {self.history.name(agent.id)}",
            cron=None,
            every_seconds=lots.choice(EVERY_SECONDS),
            late_seconds=lots.choice(LATE_SECONDS),
            if_uncleared=lots.choice(list(IfUncleared)),
            created_at=self._wall.now(),
        )
        self._tables.schedules[new.id] = changed(new, {}, self._wall.now())

    def _random(self, of: str) -> Random:
        return Random(f"{self.seed} {of}")  # noqa: S311 -- lots, not secrets


def simulate(seed: int, nodes: int | None = None) -> Verdict:
    """Simulate the seed and return its verdict, which is the same at each call and in each process.

    `nodes`: how many nodes there are, if not as many as the seed says.
    """
    simulation = Simulation(seed, nodes)
    loop = simulation.loop
    with _ids_from(simulation.ids), _silent_log(simulation.judge):
        try:
            loop.run_until_complete(simulation.run())
        except Violation:
            pass  # the judge has recorded it
        except (EndlessMoment, NothingAhead) as error:
            simulation.judge.condemn("Progress", None, str(error) or "nothing lies ahead")
        finally:
            asyncio.set_event_loop(None)
            end_leftovers(loop)
    verdict = simulation.judge.verdict
    return Verdict(seed, None if verdict is None else str(verdict), simulation.history)


@contextmanager
def _ids_from(ids: Ids) -> Iterator[None]:
    """Give runs and system notices the ids of the simulation."""
    makers = (vars(supervisor), vars(updates))
    real = [maker["new_id"] for maker in makers]
    for maker in makers:
        maker["new_id"] = ids.new
    try:
        yield
    finally:
        for maker, new_id in zip(makers, real, strict=True):
            maker["new_id"] = new_id


@contextmanager
def _silent_log(judge: Judge) -> Iterator[None]:
    """Suppress logging; a line that reports a crash of ours is a violation."""

    def check_line(_: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        if method in ERROR_METHODS:
            judge.condemn("no defect", None, f"{event['event']}: {sys.exc_info()[1]!r}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[check_line], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
