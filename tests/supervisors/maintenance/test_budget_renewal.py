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

AGENT = new_id()


class WithinBudget:
    """States of one agent that waits for midnight within its budget."""

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]:
        assert (now, renewed_at) == (NOW, NOW + 15 * HOUR)
        return [AGENT] if after is None else []


async def test_budget_renewal_signals_agents_within_budget() -> None:
    registry = RecordingRegistry()

    await BudgetRenewal(cast(StateStore, WithinBudget()), registry, HeldClock()).run_once()

    assert registry.signals == [(AGENT, Signal.RELOAD)]
