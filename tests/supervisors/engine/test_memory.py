"""Memory of supervisors: none for an agent without one, little for an idle one, and no growth."""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from uuid import UUID

import pytest

from storage.postgres.pool import Pool
from supervisors.engine.messages import Signal, StopRequest
from supervisors.engine.supervisor import Supervisor
from tests.supervisors.world import World

MAX_IDLE_BYTES = 1536
IDLE_SECONDS = 61
PAGE = 1000

INSERT_AGENTS = """
WITH made AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    SELECT gen_random_uuid(), $1, 'Scout', 'builtin/inbox', now() FROM generate_series(1, $2) RETURNING id
)
INSERT INTO agent_state (agent_id) SELECT id FROM made RETURNING agent_id
"""


@pytest.fixture
def traced() -> Iterator[None]:
    """Trace memory allocations."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def bytes_in_use() -> int:
    """Return the bytes in use after a garbage collection."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def many_agents(world: World, pool: Pool, count: int) -> list[UUID]:
    return [row["agent_id"] for row in await pool.fetch(INSERT_AGENTS, await world.organization(), count)]


async def send_signals(world: World, agent_ids: list[UUID], times: int) -> None:
    for _ in range(times):
        for first in range(0, len(agent_ids), PAGE):
            world.registry.tell_all(agent_ids[first : first + PAGE], Signal.NOTIFIED)
            await world.registry.wait_until_idle()


async def drop_all(world: World) -> int:
    await asyncio.sleep(0)
    world.clock.advance(IDLE_SECONDS)
    return world.registry.drop_idle()


@pytest.mark.usefixtures("traced")
async def test_idle_supervisor_with_a_full_log_is_small(world: World, pool: Pool) -> None:
    agent_ids = await many_agents(world, pool, 300)
    await send_signals(world, agent_ids, times=1)
    long_request = StopRequest(reason="for a reason that takes a whole line of text to be told in full " * 2)
    for _ in range(10):
        await asyncio.gather(*(world.registry.ask(agent_id, long_request) for agent_id in agent_ids))
    await asyncio.sleep(0)  # lets the loop drop finished tasks
    live = bytes_in_use()
    assert await drop_all(world) == 300

    bytes_each = (live - bytes_in_use()) / 300
    assert 500 < bytes_each <= MAX_IDLE_BYTES


async def test_agent_without_a_supervisor_takes_no_memory(world: World, pool: Pool) -> None:
    agent_ids = await many_agents(world, pool, 300)
    await send_signals(world, agent_ids, times=1)
    await drop_all(world)
    await world.scan.run_once()
    await world.wait_until_idle()
    gc.collect()

    objects = gc.get_objects()
    remaining = [obj for obj in objects if isinstance(obj, Supervisor) and obj.agent_id in agent_ids]
    assert remaining == []
    assert len(world.registry._context.timer_queue) == 0


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("count", [500, pytest.param(4000, marks=pytest.mark.long)])
async def test_dropped_supervisors_leave_no_memory_behind(world: World, pool: Pool, count: int) -> None:
    agent_ids = await many_agents(world, pool, count)
    sizes = []
    for _ in range(5):
        await send_signals(world, agent_ids, times=1)
        assert await drop_all(world) == count
        sizes.append(bytes_in_use())

    # One that is left behind weighs more than a kilobyte, and four were made for each agent meanwhile.
    assert sizes[-1] - sizes[0] < count * 1000
