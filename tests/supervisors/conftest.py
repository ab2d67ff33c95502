"""Fixtures for tests of the supervisors."""

from collections.abc import AsyncIterator

import pytest

from storage.postgres.pool import Pool
from tests.supervisors.world import World, open_world


@pytest.fixture
async def world(pool: Pool) -> AsyncIterator[World]:
    async with open_world(pool) as world:
        yield world
