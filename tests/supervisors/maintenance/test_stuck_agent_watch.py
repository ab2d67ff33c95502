"""The stuck agent watch reports agents that are stuck for more than a minute (invariant I2)."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from storage.ids import new_id
from supervisors.maintenance.stuck_agent_watch import STUCK_AFTER_SECONDS, StuckAgentWatch
from tests.supervisors.held_clock import HeldClock


class SleepingAgents:
    """The agents that are stuck at present."""

    def __init__(self, *stuck: UUID) -> None:
        self.stuck: Sequence[UUID] = stuck

    async def list_stuck(self, now: datetime, limit: int) -> Sequence[UUID]:
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
    for agents.stuck in ((agent_id,), (), (agent_id,)):
        await watch.run_once()
        clock.advance(STUCK_AFTER_SECONDS / 2)

    assert watch.reasons() == ()
