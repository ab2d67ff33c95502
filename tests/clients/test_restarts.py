"""A service that is killed again and again: what is sent is stored once, and followed once."""

import asyncio
import threading
from collections.abc import Iterator
from itertools import islice

import pytest
from hostsvc_client import AsyncHostsvc, Hostsvc

from tests.clients.process import Service
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

KILLS = 4
BETWEEN_KILLS = 40


def follow(url: str, key: str, agent: str, count: int) -> list[str]:
    """Follow the agent with the synchronous client; a new client goes on every 15 events."""
    seen: list[str] = []
    since = 0
    while len(seen) < count:
        with Hostsvc(url, key, deadline=PATIENCE_SECONDS) as client:
            events = client.agent(agent).events(since=since, type=["notification.created"])
            for event in islice(events, min(15, count - len(seen))):
                assert event.id is not None
                since = event.id
                seen.append(event.to_dict()["resource"]["title"])
    return seen


async def follow_asynchronously(url: str, key: str, agent: str, count: int) -> list[str]:
    seen: list[str] = []
    async with AsyncHostsvc(url, key, deadline=PATIENCE_SECONDS) as client:
        async for event in client.agent(agent).events(since=0, type=["notification.created"]):
            seen.append(event.to_dict()["resource"]["title"])
            if len(seen) == count:
                break
    return seen


def sent_while_killed(service: Service, client: Hostsvc, agent: str) -> Iterator[str]:
    """Send notifications, and kill the service after each few of them, while others are under way."""
    for number in range(KILLS * BETWEEN_KILLS):
        if number % BETWEEN_KILLS == BETWEEN_KILLS - 1:
            killer = threading.Thread(target=service.restart)
            killer.start()
        title = f"{number}"
        client.notifications.create(agent=agent, title=title)
        yield title
    killer.join()


async def test_nothing_is_lost_or_repeated_across_kills(own_service: Service) -> None:
    key = own_service.sign_up("restarts@example.org")
    with Hostsvc(own_service.url, key, deadline=PATIENCE_SECONDS) as client:
        agent = client.agents.create(name="Ada", model="builtin/inbox", paused=True).id
        count = KILLS * BETWEEN_KILLS
        followed = asyncio.create_task(asyncio.to_thread(follow, own_service.url, key, agent, count))
        followed_too = asyncio.create_task(follow_asynchronously(own_service.url, key, agent, count))
        sent = await asyncio.to_thread(list, sent_while_killed(own_service, client, agent))
        assert await followed == await followed_too == sent
        assert [each.title for each in client.notifications.list(agent=agent)] == sent[::-1]
