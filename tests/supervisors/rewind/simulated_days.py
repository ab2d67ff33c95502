"""Days of the simulated service, as recordings. In them nobody changes settings or sets the clock."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import UUID

from hostsvc_testing.memory import memory_facts
from storage.agent_facts import AgentFacts
from storage.events.model import PAUSES, EventType
from storage.events.rewind import KnownNotification, RecordedRun
from storage.model import Agent
from supervisors.engine.run import ActiveRun
from supervisors.policy.decisions import Policy, policy_of
from supervisors.rewind.recording import Recording, replayed_from
from tests.simulation import service, simulation
from tests.simulation.process import RUNS, SUPERVISORS
from tests.simulation.scripted_harness import ScriptedHarness
from tests.simulation.simulation import Simulation, simulate

SETTINGS = {"_change_agent", "_change_template", "_change_cap", "_delete_agent", "_create_agent"}
ARRIVALS = {"_notify", "_remind"}
CAPS = (None, None, Decimal(1), Decimal(2))
PACE = 150  # times slower than the simulation: what happens takes hours
Option = TypeVar("Option")


@dataclass(frozen=True, slots=True)
class Day:
    """A day of one agent: its recording, and its settings."""

    recording: Recording
    facts: AgentFacts
    policy: Policy


class CalmSimulation(Simulation):
    """A world with one node, without faults, crashes and changes of settings."""

    def _populate(self) -> None:
        super()._populate()
        lots = self._random("fixed caps")
        for agent in list(self._tables.agents.values()):
            hours = agent.max_sleep_hours or None  # with 0 it would wake every second
            self._tables.agents[agent.id] = replace(
                agent, max_cost_usd_per_day=lots.choice(CAPS), max_sleep_hours=hours
            )
        self._slow_down(lots, lambda name: name not in SETTINGS)

    def _slow_down(self, lots: Random, is_wanted: Callable[[str], bool]) -> None:
        workload = self._workload
        workload._kinds = [kind for kind in workload._kinds if is_wanted(kind[1].__name__)]
        pause = workload.pause_before_next
        slow = lambda: pause() * lots.choice((1, 1, PACE))  # noqa: E731
        workload.pause_before_next = slow  # type: ignore[method-assign]

    def _at_rest(self) -> None:
        """Judge nothing: that takes most of the time, and other tests do it."""

    async def _let_something_happen(self) -> None:
        if self._chance.random() < 0.2:
            for step, action in self._workload.conversation():
                await asyncio.sleep(step)
                self.service.do(action)
        elif drawn := self._workload.next_action():
            self.service.do(drawn)


class WithoutFeedback(CalmSimulation):
    """A world in which nothing depends on when runs start: each takes no time, clears all and sleeps."""

    settings: Mapping[str, Any] = {}

    def _populate(self) -> None:
        Simulation._populate(self)
        for agent in list(self._tables.agents.values()):
            plain = replace(agent, template_id=None, max_sleep_hours=None, debounce_window_seconds=0)
            plain = replace(
                plain, max_wakes_per_hour=None, max_wakes_per_day=None, quiet_hours="", timezone="UTC"
            )
            self._tables.agents[agent.id] = replace(plain, **self.settings)
        self._slow_down(self._random("pauses"), lambda name: name in ARRIVALS)


class Firstborn(Random):
    """No chance: always the first choice."""

    def choice(self, options: Sequence[Option]) -> Option:  # type: ignore[override]
        return options[0]


def days(seed: int) -> list[Day]:
    """Return the day of each agent in the calm world of this seed."""
    with patch.object(service, "SHARE_LINGERING", 0):  # nothing in the log tells of it
        return _days(seed, CalmSimulation, READS_PER_TICK=(1,))


def days_without_feedback(seed: int, settings: Mapping[str, Any]) -> list[Day]:
    """Return the day of each agent in a world without feedback in which they have these settings."""
    kind = type("World", (WithoutFeedback,), {"settings": settings})
    init = ScriptedHarness.__init__

    def without_chance(self: ScriptedHarness, *args: Any, **others: Any) -> None:
        init(self, *args, **others)
        self._random, self._lingers = Firstborn(), False

    never = {"SHARE_WITH_SCHEDULES": 0, "SHARE_WITH_CALLS": 0, "SHARE_WITH_PAUSES": 0}
    with (
        patch.object(ScriptedHarness, "__init__", without_chance),
        patch.object(service, "SHARE_WITH_CAPS", 0),
    ):
        return _days(seed, kind, SLOTS=(9,), ORGANIZATION_LIMITS=(0,), READS_PER_TICK=(None,), **never)


def _days(seed: int, kind: type[CalmSimulation], **constants: Any) -> list[Day]:
    worlds: list[CalmSimulation] = []

    def build(*args: Any) -> CalmSimulation:
        worlds.append(kind(*args))
        return worlds[-1]

    costs: dict[UUID, Decimal] = {}
    with _counted_costs(costs), patch.multiple(simulation, Simulation=build, **constants):
        verdict = simulate(seed, 1)
    assert verdict.violation is None, f"{verdict.violation}\n{verdict.history}"
    [world] = worlds
    return [_day(world, agent, costs) for agent in world._tables.agents.values()]


@contextmanager
def _counted_costs(costs: dict[UUID, Decimal]) -> Iterator[None]:
    spend = ScriptedHarness._spend

    async def counted(self: ScriptedHarness, run: ActiveRun, cost: Decimal) -> None:
        await spend(self, run, cost)
        costs[run.id] = costs.get(run.id, Decimal(0)) + cost

    with patch.object(ScriptedHarness, "_spend", counted):
        yield


def _day(world: CalmSimulation, agent: Agent, costs: dict[UUID, Decimal]) -> Day:
    tables, now = world._tables, world._wall.now()
    facts = memory_facts.facts(tables, agent.id, now)
    assert facts is not None
    rows = sorted(tables.events.rows.values(), key=lambda event: (event.at, event.id))
    events = [
        event
        for event in rows
        if event.agent_id == agent.id
        or (event.type in PAUSES and event.organization_id == agent.organization_id)
    ]
    runs = sorted(
        (one for one in tables.runs.values() if one.agent_id == agent.id), key=lambda one: one.started_at
    )
    recorded = [
        RecordedRun(
            one.id, one.wake_reason, one.started_at, one.ended_at, one.outcome, one.interrupted_sleep_until,
            costs.get(one.id, Decimal(0)),
        )
        for one in runs
    ]  # fmt: skip
    known = {
        one.id: KnownNotification(
            one.id, one.organization_id, one.agent_id, one.source, one.source_id, one.priority,
            one.created_at, one.scheduled_for, one.urgent, one.cleared,
        )
        for one in tables.queue(agent.id)
    }  # fmt: skip
    start = min([agent.created_at, *(event.at for event in events)])
    state = tables.states[agent.id]
    recording = Recording(state, start, start, now, events, recorded, known)
    return Day(recording, facts, policy_of(SUPERVISORS, RUNS))


def second_half(day: Day) -> Day | None:
    """Return the day from shortly before its middle run on, as the database tells it; None without runs."""
    whole = day.recording
    if not whole.runs:
        return None
    middle = whole.runs[len(whole.runs) // 2].started_at
    start = middle - (middle - whole.start) / 7
    first = replayed_from(whole.runs, start, whole.start)
    before = [event for event in whole.events if event.at < first]
    pauses = [event for event in before if event.type in PAUSES]
    events = [event for event in whole.events if event.at >= first]
    told = {event.resource_id for event in events}
    known = {id_: one for id_, one in whole.notifications.items() if id_ in told or not one.cleared}
    was_paused = bool(pauses) and pauses[-1].type is EventType.ORGANIZATION_PAUSED
    recording = Recording(whole.present, first, start, whole.end, events, whole.runs, known, was_paused)
    return replace(day, recording=recording)
