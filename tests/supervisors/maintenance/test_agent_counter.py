"""The agent counter keeps the counts of the overview."""

from datetime import datetime
from typing import cast

from storage.agent_facts import Counts
from supervisors.engine.inspection import Statistics
from supervisors.maintenance.agent_counter import AgentCounter
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from supervisors.ports import StateStore
from tests.storage.factories import NOW
from tests.supervisors.held_clock import HeldClock

COUNTS = Counts(1, 2, 3, frozenset(), 4, NOW, None)


class CountingStore:
    """A store that always counts the same."""

    async def count(self, now: datetime, *, quarantine_failures: int) -> Counts:
        assert (now, quarantine_failures) == (NOW, QUARANTINE_AFTER_FAILURES)
        return COUNTS


async def test_agent_counter_replaces_the_counts() -> None:
    statistics = Statistics()

    await AgentCounter(cast(StateStore, CountingStore()), statistics, HeldClock()).run_once()

    assert statistics.counts == COUNTS
