"""The scans: what they find, and whom they signal."""

import asyncio
from collections.abc import Collection
from datetime import datetime
from random import Random
from typing import cast
from uuid import UUID

import pytest

from storage.agent_facts import AttendedAgent, DueAgent, Orphan, RowVersion
from storage.errors import DatabaseUnavailable
from storage.ids import new_id
from supervisors.engine.context import HORIZON
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.maintenance.scans import (
    IMMEDIATE_STARTS,
    PAGE,
    STARTS_PER_SECOND,
    BudgetRenewal,
    DueScan,
    NodeWatch,
    PauseSync,
    Sweep,
)
from supervisors.ports import StateStore
from tests.nodes import LoneNode
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.maintenance.recording_registry import RecordingRegistry


class DueAgents:
    """States of agents that a test lists."""

    def __init__(self) -> None:
        self.due: list[tuple[UUID, datetime]] = []
        self.active: list[UUID] = []
        self.orphans: list[Orphan] = []
        self.activated_later: list[UUID] = []
        self.is_away = False

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[DueAgent]:
        ahead = [(id_, at) for id_, at in self.due if at <= until and (after is None or (at, id_) > after)]
        return [DueAgent(id_, None, at) for id_, at in ahead[:limit]]

    async def list_with_active_notification(
        self, now: datetime, after: UUID | None, limit: int
    ) -> list[AttendedAgent]:
        found = [agent_id for agent_id in self.active if after is None or agent_id > after]
        return [AttendedAgent(agent_id, None) for agent_id in found[:limit]]

    async def list_orphans(self, living: Collection[int], staying: Collection[int]) -> list[Orphan]:
        assert living == staying == LoneNode().living_ids
        return self.orphans

    async def list_activated_later(self, _: datetime) -> list[UUID]:
        if self.is_away:
            raise DatabaseUnavailable("the server does not answer")
        return self.activated_later


def new_scan(agents: DueAgents, clock: HeldClock) -> tuple[DueScan, RecordingRegistry]:
    registry = RecordingRegistry()
    random = Random(1)  # noqa: S311 -- the same jitter each time
    return DueScan(cast(StateStore, agents), cast(Registry, registry), LoneNode(), clock, random), registry


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


async def test_clock_set_back_during_an_outage_is_noticed_after_it() -> None:
    agents, clock, held = DueAgents(), HeldClock(), new_id()
    scan, registry = new_scan(agents, clock)
    agents.activated_later, agents.is_away = [held], True
    clock.step(-3600)

    with pytest.raises(DatabaseUnavailable):
        await scan.run_once()
    agents.is_away = False
    await scan.run_once()
    await scan.run_once()

    assert registry.signals == [(held, Signal.RELOAD)]


async def test_recovery_reloads_interrupted_runs_before_queued_starts() -> None:
    agents, interrupted, queued = DueAgents(), new_id(), new_id()
    agents.orphans = [Orphan(interrupted, had_run=True), Orphan(queued, had_run=False)]
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


class RecoveryCounter:
    """A due scan that counts its recoveries."""

    def __init__(self) -> None:
        self.recoveries = 0
        self.is_away = False

    async def recover(self) -> None:
        if self.is_away:
            raise DatabaseUnavailable("the server does not answer")
        self.recoveries += 1


async def test_recovery_after_change_of_nodes_is_repeated_if_it_fails() -> None:
    scan, changed = RecoveryCounter(), asyncio.Event()
    watch = NodeWatch(LoneNode(), changed, cast(DueScan, scan))

    changed.set()
    scan.is_away = True
    with pytest.raises(DatabaseUnavailable):
        await watch.run_once()
    scan.is_away = False
    await watch.run_once()

    assert scan.recoveries == 1
    assert not changed.is_set()


class Rows:
    """Rows of this node, and agents that are queued at others."""

    def __init__(self, rows: list[RowVersion], queued: list[UUID]) -> None:
        self._rows, self._queued = rows, queued

    async def list_attended(self, _: int) -> list[RowVersion]:
        return self._rows

    async def list_queued_elsewhere(self, _: int, limit: int, __: int) -> list[UUID]:
        return self._queued[:limit]


async def test_sweep_tells_rows_and_lost_runs_and_pulls_queued_agents() -> None:
    seen, lost, queued = (new_id() for _ in range(3))
    rows = Rows([RowVersion(seen, 2, 1)], [queued])
    registry, node = RecordingRegistry(), LoneNode()
    registry.working_agents, registry.untaken_slots = frozenset({seen, lost}), 1
    sweep = Sweep(cast(StateStore, rows), cast(Registry, registry), node)

    await sweep.run_once()
    assert (registry.rows, registry.signals) == ([], []), "a lone node does nothing"
    node.living_ids = (1, 2)
    await sweep.run_once()

    assert registry.rows == [RowVersion(seen, 2, 1)]
    assert registry.signals == [(lost, Signal.RELOAD), (queued, Signal.RELOAD)]


UNARMED = new_id()


class Agents:
    """One agent without `next_due_at`, and one agent in each organization, with the same id as it."""

    def __init__(self) -> None:
        self.is_available = True

    async def list_without_due_time(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        return [UNARMED]

    async def list_non_idle(self, after: UUID | None, limit: int, *, organization_id: UUID) -> list[UUID]:
        if not self.is_available:
            raise DatabaseUnavailable("no answer in time")
        return [organization_id]


class Organizations:
    """Organizations that a test pauses."""

    def __init__(self) -> None:
        self.paused: list[UUID] = []

    async def list_paused(self) -> list[UUID]:
        return self.paused


async def test_pause_reaches_only_live_supervisors_of_a_node_without_chores() -> None:
    registry, organizations, organization_id = RecordingRegistry(), Organizations(), new_id()
    agents = cast(StateStore, Agents())
    sync = PauseSync(agents, organizations, registry, HeldClock(), is_chosen=lambda: False)
    await sync.run_once()
    assert registry.signalled_organizations == []

    for paused in ([organization_id], []):
        organizations.paused = paused
        await sync.run_once()

    assert registry.signalled_organizations == [organization_id, organization_id]
    assert registry.signals == []


async def test_first_sync_signals_agents_without_next_due_at() -> None:
    registry = RecordingRegistry()

    await PauseSync(cast(StateStore, Agents()), Organizations(), registry, HeldClock()).run_once()

    assert registry.signals == [(UNARMED, Signal.RELOAD)]


async def test_begin_and_end_of_a_pause_signal_the_organization_once() -> None:
    registry, organizations, organization_id = RecordingRegistry(), Organizations(), new_id()
    sync = PauseSync(cast(StateStore, Agents()), organizations, registry, HeldClock())
    await sync.run_once()
    registry.signals.clear()

    organizations.paused = [organization_id]
    await sync.run_once()
    await sync.run_once()
    assert registry.signals == [(organization_id, Signal.RELOAD)]
    organizations.paused = []
    await sync.run_once()

    assert registry.signals == [(organization_id, Signal.RELOAD)] * 2
    assert registry.signalled_organizations == [organization_id] * 2


async def test_failed_sync_is_repeated_by_the_next_one() -> None:
    registry, organizations, agents = RecordingRegistry(), Organizations(), Agents()
    sync = PauseSync(cast(StateStore, agents), organizations, registry, HeldClock())
    await sync.run_once()
    organizations.paused, agents.is_available = [new_id()], False
    with pytest.raises(DatabaseUnavailable):
        await sync.run_once()

    agents.is_available = True
    await sync.run_once()

    assert registry.signals[-1] == (organizations.paused[0], Signal.RELOAD)


AGENT, OTHER = new_id(), new_id()


class OtherBudgets:
    """States of an agent that waits for midnight within its budget, and of one that others put over it."""

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]:
        assert (now, renewed_at) == (NOW, NOW + 15 * HOUR)
        return [AGENT] if after is None else []

    async def list_newly_over_budget(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        assert now == NOW
        return [OTHER] if after is None else []


async def test_budget_renewal_signals_agents_whose_budget_changed() -> None:
    registry = RecordingRegistry()

    await BudgetRenewal(cast(StateStore, OtherBudgets()), registry, HeldClock()).run_once()

    assert registry.signals == [(AGENT, Signal.RELOAD), (OTHER, Signal.RELOAD)]
