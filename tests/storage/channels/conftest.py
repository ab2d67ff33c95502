"""An agent, and the messages of a test's database."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from storage.channels.messages import Messages
from storage.model import Agent
from storage.notifications.notifications import Notifications
from storage.postgres.pool import Pool
from tests.storage.factories import stored_agent


@pytest.fixture
def reported() -> list[UUID]:
    """Collect the agents that commits were reported for."""
    return []


@pytest.fixture
async def messages(pool: Pool, reported: list[UUID]) -> AsyncIterator[Messages]:
    notifications = Notifications(pool, reported.extend, sleep=asyncio.sleep)
    yield Messages(pool, notifications)
    await notifications.close()


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)
