"""The rows of a recording: the events of a period in the order of their ids."""

from datetime import timedelta

import pytest

from storage.events.rewind import RecordedEvents
from storage.postgres.pool import Pool
from tests.storage.events.test_timeline import AGENT, OTHER, write_runs
from tests.storage.factories import MINUTE, NOW

pytestmark = pytest.mark.own_database

TYPES = ["notification.created", "run.started", "run.ended", "agent.asleep"]


async def test_events_of_a_period_come_with_ends_of_runs(pool: Pool) -> None:
    await write_runs(pool, OTHER, NOW, 2)
    await write_runs(pool, AGENT, NOW, 5)
    recorded, start, end = RecordedEvents(pool), NOW + MINUTE, NOW + 3 * MINUTE

    events = await recorded.list_events(AGENT, start, end, 100)

    assert [event.type for event in events] == 2 * TYPES
    assert {event.agent_id for event in events} == {AGENT}
    assert [event.id for event in events] == sorted(event.id for event in events)
    assert len(await recorded.list_events(AGENT, start, end, 4)) == 4
    assert await recorded.list_events(AGENT, NOW - timedelta(days=1), NOW, 100) == []
