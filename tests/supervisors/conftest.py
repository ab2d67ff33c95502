"""The world that the tests of the engine share."""

from collections.abc import AsyncIterator

import pytest

from storage.pool import Pool
from supervisors import registry
from tests.supervisors.world import World, open_world


@pytest.fixture
async def world(pool: Pool) -> AsyncIterator[World]:
    async with open_world(pool) as world:
        yield world


@pytest.fixture(autouse=True)
def patient_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a run may take longer than a second to be gone; here that is no answer."""
    monkeypatch.setattr(registry, "STOP_ANSWER_SECONDS", 20)
