"""The pause sync signals the agents of organizations whose pause began or ended."""

from datetime import datetime
from typing import cast
from uuid import UUID

import pytest

from storage.errors import DatabaseUnavailable
from storage.ids import new_id
from supervisors.engine.messages import Signal
from supervisors.engine.pause_log import PauseLog
from supervisors.maintenance.pause_sync import PauseSync
from supervisors.ports import StateStore
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.maintenance.recording_registry import RecordingRegistry

UNARMED = new_id()


class Agents:
    """One agent without `next_due_at`, and one agent in each organization, with the same id as it."""

    def __init__(self) -> None:
        self.is_available = True

    async def list_without_due_time(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        return [UNARMED]

    async def list_non_idle_of_organization(
        self, organization_id: UUID, after: UUID | None, limit: int
    ) -> list[UUID]:
        if not self.is_available:
            raise DatabaseUnavailable("no answer in time")
        return [organization_id]


class Organizations:
    """Organizations that a test pauses."""

    def __init__(self) -> None:
        self.paused: list[UUID] = []

    async def list_paused(self) -> list[UUID]:
        return self.paused


async def test_first_sync_signals_agents_without_next_due_at() -> None:
    registry = RecordingRegistry()

    await PauseSync(cast(StateStore, Agents()), Organizations(), registry, HeldClock(), PauseLog()).run_once()

    assert registry.signals == [(UNARMED, Signal.RELOAD)]


async def test_begin_and_end_of_a_pause_signal_the_organization_once() -> None:
    registry, organizations, organization_id = RecordingRegistry(), Organizations(), new_id()
    sync = PauseSync(cast(StateStore, Agents()), organizations, registry, HeldClock(), PauseLog())
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
    sync = PauseSync(cast(StateStore, agents), organizations, registry, HeldClock(), PauseLog())
    await sync.run_once()
    organizations.paused, agents.is_available = [new_id()], False
    with pytest.raises(DatabaseUnavailable):
        await sync.run_once()

    agents.is_available = True
    await sync.run_once()

    assert registry.signals[-1] == (organizations.paused[0], Signal.RELOAD)
