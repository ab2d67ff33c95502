"""The budget renewal signals agents that wait for midnight although their budgets are not spent."""

from datetime import datetime
from typing import cast
from uuid import UUID

from storage.ids import new_id
from supervisors.engine.messages import Signal
from supervisors.maintenance.budget_renewal import BudgetRenewal
from supervisors.ports import StateStore
from tests.storage.factories import HOUR, NOW
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.maintenance.recording_registry import RecordingRegistry

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
