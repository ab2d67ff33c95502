"""The judge of the timeline: read afterwards, it equals what `why` said at each quiet moment.

A moment is quiet for an agent if all that it was told is done, runs may start, no start is due, and no fault
may have kept anything from it. The caps, what is spent of them and their renewal are found by a scan, so such
a moment counts once a scan has passed. Moments at which a quarantined agent is over a budget are left out. So
are those of an agent that stays over a budget while another program writes its cap: no scan looks which
budget that is. A start that waits for a slot when quiet hours begin is looked at when its turn comes, so its
moments until then are left out. An agent that was changed while the service was down counts again from its
next update.

The log tells moments of the wall clock. If that is set back, the moments that it shows twice are left out.
"""

from bisect import bisect_right
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from hostsvc_testing.memory.memory_states import MemoryStates
from hostsvc_testing.memory.tables import Nobody, ShortWire, Tables
from storage.agent_facts import AgentState, StateUpdate
from storage.model import Notification
from supervisors.engine.inspection import StatusReader
from supervisors.engine.registry import Registry
from supervisors.engine.snapshot import Snapshot
from supervisors.engine.supervisor import Supervisor
from supervisors.policy import explanations
from supervisors.policy.phases import OVER_BUDGET, Phase
from supervisors.timeline.bands import Band, BandPhase, Fallback, State
from tests.simulation.judge import REPAIR_SECONDS, Judge
from tests.supervisors.timeline.bands_of_events import bands

Result = TypeVar("Result")

INVARIANT = "Timeline"
SECONDS_BETWEEN = 1.0  # two observations of an agent that nothing has touched
ALWAYS = datetime.min.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Said:
    """What `why` said of an agent at a moment of the wall clock."""

    at: datetime
    phase: Phase
    why: str


class WhyJudge(Nobody):
    """An observer that asks for each agent at quiet moments, and compares the answers with the timeline."""

    def __init__(self, tables: Tables, judge: Judge) -> None:
        self._tables = tables
        self._judge = judge
        self._store = MemoryStates(tables, ShortWire())
        self._said: dict[UUID, list[Said]] = {}
        self._touched_at: dict[UUID, float] = {}  # on the loop's clock
        self._asked_at: dict[UUID, float] = {}
        self._unheard: set[UUID] = set()  # changed while the service was down
        self._shown_until = ALWAYS  # what the wall clock has shown before it was set back

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None:
        self._touched_at[after.agent_id] = self._judge.loop.time()
        self._unheard.discard(after.agent_id)

    def activated(self, notification: Notification) -> None:
        self._note_if_down(notification.agent_id)

    def changed(self, agent_id: UUID, what: str) -> None:
        self._touched_at[agent_id] = self._judge.loop.time()
        self._note_if_down(agent_id)

    def stepped(self, before: datetime) -> None:
        """Take note that the wall clock was set; it showed `before` until now."""
        now = self._judge.wall.now()
        self._shown_until = max(self._shown_until, before)
        for said in self._said.values():
            said[:] = [each for each in said if each.at < now]

    def observe(self, find_registry: Callable[[UUID], Registry | None]) -> None:
        """Ask for each agent for which the moment is quiet, where it is attended."""
        now, loop_time = self._judge.wall.now(), self._judge.loop.time()
        if not self._judge.is_up or now <= self._shown_until:
            return
        for agent_id in sorted(self._tables.states):
            registry = find_registry(agent_id)
            if registry is None or not registry.may_start:
                continue
            asked_at = self._asked_at.get(agent_id, 0.0)
            is_new = self._touched_at.get(agent_id, 0.0) > asked_at or loop_time >= asked_at + SECONDS_BETWEEN
            supervisor = registry._supervisors.get(agent_id)
            is_excused = agent_id in self._unheard or self._judge.is_lenient(agent_id)
            if not is_new or is_excused or not _is_done(supervisor):
                continue
            self._asked_at[agent_id] = loop_time
            snapshot = self._ask(registry, agent_id)
            wake, state = snapshot.next_wake, self._tables.states[agent_id]
            looks_at = [at for at in (wake.at if wake else None, state.next_due_at) if at is not None]
            is_due = any(at <= self._judge.wall.now() for at in looks_at)  # asking has taken time
            if state.queued_at is not None and snapshot.phase is not Phase.QUEUED:
                continue
            if not is_due and self._is_told_of_budget(agent_id, snapshot):
                said = self._said.setdefault(agent_id, [])
                said.append(Said(now, snapshot.phase, snapshot.why))

    def differences(self) -> Iterator[tuple[UUID, str]]:
        """Yield each agent with the first moment for which the timeline differs from what `why` said."""
        for agent_id, said in self._said.items():
            if not said:
                continue
            timeline = self._timeline(agent_id, said[0].at, said[-1].at + MICROSECOND)
            starts = [band.start for band in timeline]
            for each in said:
                state = timeline[bisect_right(starts, each.at) - 1].state
                if not _agree(state, each):
                    yield agent_id, _difference(each, state)
                    break

    def _note_if_down(self, agent_id: UUID) -> None:
        if not self._judge.is_up:
            self._unheard.add(agent_id)

    def _is_told_of_budget(self, agent_id: UUID, snapshot: Snapshot) -> bool:
        """Return whether the agent knows what is left of its budgets, if the sentence depends on that."""
        was_over = self._tables.states[agent_id].phase == OVER_BUDGET
        if not (was_over or "Over its" in snapshot.why):
            return True
        is_over_another = was_over and "Over its" in snapshot.why and agent_id in self._judge.unheard
        if snapshot.phase is Phase.QUARANTINED or is_over_another:
            return False
        now = self._judge.wall.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        renewed_at = self._judge.loop.time() - (now - midnight).total_seconds()
        changed_at = max(renewed_at, self._touched_at.get(agent_id, 0.0))
        return self._judge.loop.time() >= changed_at + REPAIR_SECONDS

    def _ask(self, registry: Registry, agent_id: UUID) -> Snapshot:
        context = replace(registry._context, store=self._store)
        reader = StatusReader(registry._supervisors, context, registry.statistics, 1, None)
        snapshot = _at_once(reader.snapshot(agent_id))
        assert snapshot is not None
        return snapshot

    def _timeline(self, agent_id: UUID, start: datetime, end: datetime) -> list[Band]:
        tables = self._tables
        organization_id = tables.agents[agent_id].organization_id
        events = [tables.events.rows[id_] for id_ in sorted(tables.events.rows)]
        present = State(BandPhase.ASLEEP, explanations.WHY_ASLEEP)
        is_paused = tables.organizations[organization_id].paused
        return bands(
            [event for event in events if event.agent_id == agent_id],
            [
                event
                for event in events
                if event.agent_id is None and event.organization_id == organization_id
            ],
            start,
            end,
            Fallback(present, None, is_paused, ALWAYS, "There are no events."),
        )


def _is_done(supervisor: Supervisor | None) -> bool:
    """Return whether all is stored that the supervisor was told. It looks again when its last run is gone."""
    if supervisor is None:
        return True
    is_finishing = supervisor.run is not None and supervisor.run.slept.is_set()
    return not (supervisor.is_handling or supervisor.has_uncertain_update or is_finishing)


def _agree(state: State, said: Said) -> bool:
    why = explanations.WHY_ASLEEP if state.why is None else state.why
    phase = said.phase if state.phase in {BandPhase.OVER_BUDGET, BandPhase.HELD_BY_LIMITS} else state.phase
    if phase == said.phase == Phase.QUEUED:
        # What a start waits for changes with the runs of others, and no event tells that.
        return why.split(";")[0] == said.why.split(";")[0]
    return (phase, why) == (said.phase, said.why)


def _difference(said: Said, state: State) -> str:
    told = f"the timeline says {state.phase}, {state.why!r}, by event {state.event_id}"
    return f"was {said.phase} at {said.at:%H:%M:%S.%f}, {said.why!r}; {told}"


def _at_once(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that waits for nothing but its turn."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as done:
            result: Result = done.value
            return result
