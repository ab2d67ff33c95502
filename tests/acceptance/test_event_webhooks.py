"""Event webhooks of the whole process: real receivers, killed services, and replaced secrets."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.acceptance.client import Client, sign_up
from tests.acceptance.services import Services
from tests.receiver import Receiver, receiving

WEBHOOKS = "/api/organizations/webhooks/"
NOTIFICATIONS = "/api/defaults/notifications/"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def notify(client: Client, agent: str, number: int) -> set[str]:
    """Add notifications that wake nobody, and return their ids."""
    created = [
        await client.post(NOTIFICATIONS, agent=agent, title=f"{each}", priority="low")
        for each in range(number)
    ]
    return {str(each["id"]) for each in created}


@pytest.mark.everyday
async def test_receiver_gets_a_verifiable_request_for_each_event(
    services_without_looks: Services, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    service = await services_without_looks.start(outbound={"allow_private": True})
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    hook = await client.post(WEBHOOKS, url=receiver.url, types=["notification.*"], agent=agent)
    rotated = await client.post(f"{WEBHOOKS}{hook['id']}/rotate/")
    await client.post(f"{WEBHOOKS}{hook['id']}/test/")
    [test] = await receiver.wait_for(1)
    [notification] = await notify(client, agent, 1)
    _, received = await receiver.wait_for(2)
    for secret in (hook["secret"], rotated["secret"]):
        assert test.verified_by(secret)["type"] == "webhook.test"
        payload = received.verified_by(secret)
        assert (payload["type"], payload["data"]["resource_id"]) == ("notification.created", notification)


async def test_each_event_around_a_kill_is_delivered(
    services: Services, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    service = await services.start(outbound={"allow_private": True})
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    await client.post(WEBHOOKS, url=receiver.url, types=["notification.created"])
    written = await notify(client, agent, 40)
    await service.kill()

    await services.start(outbound={"allow_private": True})
    ids = {request.id for request in await receiver.wait_for(len(written))}
    while len(ids) < len(written):  # a request that the kill interrupted came twice, with the same id
        ids = {request.id for request in await receiver.wait_for(len(receiver.requests) + 1)}
    delivered = [request.data["resource_id"] for request in receiver.requests]
    assert set(delivered) == written
    assert len(ids) == len(written)
