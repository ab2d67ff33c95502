"""The agent counter keeps the counts of the overview."""

from datetime import datetime
from typing import cast

from storage.model import Counts
from supervisors.engine.inspection import Statistics
from supervisors.maintenance.agent_counter import AgentCounter
from supervisors.ports import StateStore
from tests.storage.factories import NOW
from tests.supervisors.held_clock import HeldClock

COUNTS = Counts(1, 2, 3, frozenset(), 4, NOW, None)


class CountingStore:
    """States of which there are always the same number."""

    async def count(self, now: datetime) -> Counts:
        assert now == NOW
        return COUNTS


async def test_agent_counter_replaces_the_counts() -> None:
    statistics = Statistics()

    await AgentCounter(cast(StateStore, CountingStore()), statistics, HeldClock()).run_once()

    assert statistics.counts == COUNTS
