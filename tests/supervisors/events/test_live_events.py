"""Live events in the feed: who follows a run, and gets what it shows."""

import pytest

from storage.events.events import Events
from storage.events.model import EVERYTHING, Interest
from storage.ids import new_id
from storage.postgres.pool import Pool
from supervisors.clock import SystemClock
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import MODEL_DELTA, LiveEvent
from tests.storage.factories import NOW

ORGANIZATION, AGENT, RUN, OTHER = (new_id() for _ in range(4))
HELLO = LiveEvent(MODEL_DELTA, NOW, ORGANIZATION, AGENT, RUN, {"turn": 1, "offset": 0, "text": "Hello"})


@pytest.mark.parametrize(
    "interest",
    [
        EVERYTHING,
        Interest(frozenset({ORGANIZATION})),
        Interest(frozenset({ORGANIZATION}), agent_id=AGENT),
        Interest(frozenset({ORGANIZATION}), agent_id=AGENT, run_id=RUN),
    ],
    ids=["everything", "organization", "agent", "run"],
)
async def test_follower_of_a_run_gets_its_live_events(pool: Pool, interest: Interest) -> None:
    feed = EventFeed(Events(pool), SystemClock())
    async with feed.subscribe(interest) as subscription:
        assert feed.is_followed(ORGANIZATION, AGENT, RUN)
        feed.publish(HELLO)
        assert await subscription.get() == [HELLO]
    assert not feed.is_followed(ORGANIZATION, AGENT, RUN)


@pytest.mark.parametrize(
    "interest",
    [
        Interest(frozenset({OTHER})),
        Interest(frozenset({ORGANIZATION}), agent_id=OTHER),
        Interest(frozenset({ORGANIZATION}), agent_id=AGENT, run_id=OTHER),
    ],
    ids=["organization", "agent", "run"],
)
async def test_follower_of_another_one_gets_nothing(pool: Pool, interest: Interest) -> None:
    feed = EventFeed(Events(pool), SystemClock())
    async with feed.subscribe(interest):
        assert not feed.is_followed(ORGANIZATION, AGENT, RUN)
