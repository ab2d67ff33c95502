"""A queue, an agent and another program's connection."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from storage.model import Agent
from storage.notifications.notifications import Notifications
from storage.postgres.pool import Pool
from tests.storage.factories import stored_agent
from tests.storage.notifications.queues import ReportedAgents


@pytest.fixture
def reported() -> ReportedAgents:
    return ReportedAgents()


@pytest.fixture
def queue(pool: Pool, reported: ReportedAgents) -> Notifications:
    return Notifications(pool, reported, sleep=asyncio.sleep)


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)


@pytest.fixture
async def other_program(database_url: str) -> AsyncIterator[Any]:
    """Open a connection that is not the service's."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()
