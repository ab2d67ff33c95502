"""The race that the simulation finds in memory, on two connections to a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import asyncpg
import pytest

from storage.agent_facts import StateUpdate
from storage.model import AgentStatus
from storage.postgres.pool import Pool
from supervisors.tools.arguments import ToolError
from tests.simulation.planted import SLEEP_WITHOUT_WAKE_SEQ
from tests.supervisors.world import open_world

ARRIVE = "INSERT INTO notification (agent_id, title, priority) VALUES ($1, 'Now', 'high')"

COUNT_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("is_planted", [False, True])
async def test_wake_seq_keeps_sleep_from_crossing_an_arrival(
    pool: Pool, database_url: str, is_planted: bool
) -> None:
    """Let sleep meet an uncommitted notification, which locks the agent's row and is in no snapshot."""
    async with open_world(pool) as world, connected(database_url) as other, connected(database_url) as eye:
        agent = await world.agent()
        run = await world.start(agent)
        arrival = other.transaction()

        async def commit_once_sleep_waits() -> None:
            while not await eye.fetchval(COUNT_WAITING):
                pass
            await arrival.commit()

        async def arrive(_: StateUpdate) -> None:
            await arrival.start()
            await other.execute(ARRIVE, agent.id)
            commits.append(asyncio.create_task(commit_once_sleep_waits()))

        commits: list[asyncio.Task[None]] = []
        world.states.before_next_update = arrive
        with SLEEP_WITHOUT_WAKE_SEQ.planted() if is_planted else nullcontext():
            if is_planted:
                await run.call("sleep")
            else:
                with pytest.raises(ToolError, match="uncleared"):
                    await run.call("sleep")
        await asyncio.gather(*commits)

        state = await world.state(agent)
        assert state.wake_seq == 1
        assert state.status is (AgentStatus.SLEEPING if is_planted else AgentStatus.RUNNING)
