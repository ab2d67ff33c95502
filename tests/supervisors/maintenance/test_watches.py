"""The watches: counts, stuck agents, and the lag of the loop."""

from datetime import datetime
from typing import cast
from uuid import UUID

import pytest

from storage.agent_facts import Counts
from storage.agents.state import AgentStates
from storage.ids import new_id
from supervisors.engine.inspection import Statistics
from supervisors.maintenance.watches import STUCK_AFTER_SECONDS, AgentCounter, LoopLagProbe, StuckAgentWatch
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


class SleepingAgents(AgentStates):
    """The agents that are stuck at present."""

    def __init__(self, *stuck: UUID) -> None:
        self.stuck = list(stuck)

    async def list_stuck(self, now: datetime, limit: int) -> list[UUID]:
        return self.stuck


async def test_agent_stuck_for_a_minute_is_reported() -> None:
    agent_id, clock = new_id(), HeldClock()
    watch, began_at = StuckAgentWatch(SleepingAgents(agent_id), clock), clock.now()
    await watch.run_once()
    clock.advance(STUCK_AFTER_SECONDS - 1)
    await watch.run_once()
    assert (watch.reasons(), watch.forgotten()) == ((), {})

    clock.advance(1)

    assert watch.forgotten() == {agent_id: began_at}
    [reason] = watch.reasons()
    assert reason.endswith(f"although a high-priority notification is active: {agent_id}.")


async def test_agent_not_stuck_at_every_check_is_not_reported() -> None:
    agent_id, clock, agents = new_id(), HeldClock(), SleepingAgents()
    watch = StuckAgentWatch(agents, clock)
    for agents.stuck in ([agent_id], [], [agent_id]):
        await watch.run_once()
        clock.advance(STUCK_AFTER_SECONDS / 2)

    assert watch.reasons() == ()


class LateClock(HeldClock):
    """A clock on which every sleep takes longer than asked for."""

    def __init__(self, lag_seconds: float) -> None:
        super().__init__()
        self._lag_seconds = lag_seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds + self._lag_seconds)


@pytest.mark.parametrize("lag_seconds", [0.0, 0.2])
async def test_loop_lag_is_the_delay_after_the_sleep(lag_seconds: float) -> None:
    statistics = Statistics()

    await LoopLagProbe(statistics, LateClock(lag_seconds)).run_once()

    [measured] = statistics.loop_lag_seconds
    assert measured == pytest.approx(lag_seconds)
