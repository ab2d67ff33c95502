"""An agent, and the messages of a test's database."""

import asyncio
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
def messages(pool: Pool, reported: list[UUID]) -> Messages:
    notifications = Notifications(pool, reported.extend, sleep=asyncio.sleep)
    return Messages(pool, notifications)


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)
