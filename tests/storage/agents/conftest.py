"""The table `agent_state` of a test's database."""

import pytest

from storage.agents.state import AgentStates
from storage.postgres.pool import Pool


@pytest.fixture
def states(pool: Pool) -> AgentStates:
    return AgentStates(pool)
