"""The table `agent_state` of a test's database."""

from collections.abc import AsyncIterator

import pytest

from storage.agents.state import AgentStates
from storage.postgres.pool import Pool


@pytest.fixture
async def states(pool: Pool) -> AsyncIterator[AgentStates]:
    states = AgentStates(pool)
    yield states
    await states.close()
