"""The due scan signals the agents that are due, and sets timers for those due soon."""

from datetime import datetime
from random import Random
from typing import cast
from uuid import UUID

from storage.ids import new_id
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.engine.timer_queue import HORIZON
from supervisors.maintenance.due_scan import IMMEDIATE_STARTS, PAGE, STARTS_PER_SECOND, DueScan
from supervisors.ports import StateStore
from tests.storage.factories import MINUTE, NOW
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.maintenance.recording_registry import RecordingRegistry


class DueAgents:
    """States of agents that a test lists."""

    def __init__(self) -> None:
        self.due: list[tuple[UUID, datetime]] = []
        self.active: list[UUID] = []
        self.running: list[UUID] = []
        self.queued: list[UUID] = []

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[tuple[UUID, datetime]]:
        ahead = [(id_, at) for id_, at in self.due if at <= until and (after is None or (at, id_) > after)]
        return ahead[:limit]

    async def list_with_active_notification(
        self, now: datetime, after: UUID | None, limit: int
    ) -> list[UUID]:
        return [agent_id for agent_id in self.active if after is None or agent_id > after][:limit]

    async def list_running(self) -> list[UUID]:
        return self.running

    async def list_queued(self) -> list[UUID]:
        return self.queued

    async def list_activated_later(self, _: datetime) -> list[UUID]:
        return []


def new_scan(agents: DueAgents, clock: HeldClock) -> tuple[DueScan, RecordingRegistry]:
    registry = RecordingRegistry()
    random = Random(1)  # noqa: S311 -- the same jitter each time
    return DueScan(cast(StateStore, agents), cast(Registry, registry), clock, random), registry


async def test_due_agents_are_signalled_and_later_ones_get_timers() -> None:
    agents, due, soon, later, active = DueAgents(), new_id(), new_id(), new_id(), new_id()
    agents.due = [(due, NOW), (soon, NOW + MINUTE), (later, NOW + HORIZON + MINUTE)]
    agents.active = [active]
    scan, registry = new_scan(agents, HeldClock())

    await scan.run_once()

    assert registry.signals == [(due, Signal.DUE), (active, Signal.DUE)]
    assert registry.timers == [(soon, NOW + MINUTE)]


async def test_scan_reads_every_page() -> None:
    agents = DueAgents()
    agents.due = [(new_id(), NOW) for _ in range(PAGE + 1)]
    agents.active = [new_id() for _ in range(PAGE + 1)]
    scan, registry = new_scan(agents, HeldClock())

    await scan.run_once()

    assert [agent_id for agent_id, _ in registry.signals] == [
        *(agent_id for agent_id, _ in agents.due),
        *agents.active,
    ]


async def test_recovery_reloads_interrupted_runs_before_queued_starts() -> None:
    agents, interrupted, queued = DueAgents(), new_id(), new_id()
    agents.running, agents.queued = [interrupted], [queued]
    scan, registry = new_scan(agents, HeldClock())

    await scan.recover()

    assert registry.signals == [(interrupted, Signal.RELOAD), (queued, Signal.RELOAD)]
    assert registry.recovery_seconds == 1 / STARTS_PER_SECOND


async def test_recovery_spreads_the_starts_of_overdue_agents() -> None:
    agents, clock = DueAgents(), HeldClock()
    agents.due = [(new_id(), NOW) for _ in range(IMMEDIATE_STARTS + 5)]
    scan, registry = new_scan(agents, clock)

    await scan.recover()

    overdue = [agent_id for agent_id, _ in agents.due]
    assert [agent_id for agent_id, _ in registry.signals] == overdue[:IMMEDIATE_STARTS]
    assert [agent_id for agent_id, _ in registry.timers] == overdue[IMMEDIATE_STARTS:]
    assert all(at > NOW for _, at in registry.timers)

    registry.signals.clear()
    await scan.run_once()
    assert [agent_id for agent_id, _ in registry.signals] == overdue[:IMMEDIATE_STARTS], "the others wait"
    clock.advance((IMMEDIATE_STARTS + 5) / STARTS_PER_SECOND)
    registry.signals.clear()
    await scan.run_once()
    assert [agent_id for agent_id, _ in registry.signals] == overdue
