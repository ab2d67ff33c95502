"""Webhooks of the whole process, with failing receivers and killed services."""

from collections.abc import AsyncIterator
from time import perf_counter

import aiohttp
import pytest

from tests.acceptance.client import Client, Json, eventually, sign_up
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.receiver import Receiver, hang, receiving

DELIVERIES = "/api/organizations/webhook-deliveries/"
SECRET = "whsec_c2VjcmV0IG9mIHRoZSBkZXNr"
PROMPT_SECONDS = 1.0  # on a busy machine, too


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def template_with_webhook(client: Client, url: str) -> str:
    template = await client.post(
        "/api/templates/",
        name="Desk",
        default_model="builtin/inbox",
        agent_created_webhook_url=url,
        tool_call_secret=SECRET,
    )
    return str(template["id"])


async def delivery_with_status(client: Client, status: str, template: str) -> Json:
    """Wait until the only delivery of the template has this status, and return it."""

    async def poll() -> Json | None:
        deliveries = await client.get(DELIVERIES, template=template, status=status)
        return deliveries[0] if deliveries else None

    return await eventually(poll, f"a delivery that is {status}")


@pytest.mark.everyday
async def test_receiver_gets_a_verifiable_webhook_for_a_new_agent(
    services: Services, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    service = await services.start(outbound={"allow_private": True})
    client = await sign_up(session, service.url)
    template = await template_with_webhook(client, f"{receiver.url}/hook")
    agent = await client.create_agent(template=template, tags=["vip"])
    [received] = await receiver.wait_for(1, PROMPT_SECONDS)

    event = received.verified_by(SECRET)
    assert (event["type"], event["data"]["agent"], event["data"]["tags"]) == ("agent.created", agent, ["vip"])
    delivered = await delivery_with_status(client, "delivered", template)
    assert (delivered["id"], delivered["attempts"], delivered["last_status"]) == (received.id, 1, 204)

    again = await client.post(f"{DELIVERIES}{received.id}/redeliver/")
    assert again["status"] == "pending"
    _, repeated = await receiver.wait_for(2, PROMPT_SECONDS)
    assert (repeated.id, repeated.body) == (received.id, received.body)


async def test_delivery_interrupted_by_kill_is_repeated_after_start(
    services: Services, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    receiver.answer = hang
    service = await services.start(outbound={"allow_private": True})
    client = await sign_up(session, service.url)
    await client.create_agent(template=await template_with_webhook(client, receiver.url))
    await receiver.wait_for(1)
    await service.kill()

    receiver.answer = None
    await services.start(outbound={"allow_private": True})
    first, second = await receiver.wait_for(2)
    assert (first.id, first.body) == (second.id, second.body)


async def test_hanging_receiver_delays_no_creation_and_no_other_receiver(
    services: Services, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    service = await services.start(outbound={"allow_private": True})
    client = await sign_up(session, service.url)
    async with receiving() as hanging:
        hanging.answer = hang
        silent = await client.post("/api/templates/", name="Silent", default_model="builtin/inbox")
        stuck = await template_with_webhook(client, hanging.url)
        took = [await seconds_to_create_agents(client, template) for template in (silent["id"], stuck)]
        await client.create_agent(template=await template_with_webhook(client, receiver.url))
        await receiver.wait_for(1, PROMPT_SECONDS)
        assert took[1] < 3 * took[0] + 0.5, "creating agents became slow"
        await service.kill()


async def seconds_to_create_agents(client: Client, template: str) -> float:
    started = perf_counter()
    for _ in range(30):
        await client.create_agent(template=template)
    return perf_counter() - started


async def test_delivery_to_a_private_address_fails_and_is_counted(
    services: Services, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    service = await services.start(supervisors={"scan_interval_seconds": 0.1})
    client = await sign_up(session, service.url)
    template = await template_with_webhook(client, receiver.url)
    await client.create_agent(template=template)
    failed = await delivery_with_status(client, "failed", template)
    assert failed["last_error"] == (
        "The address 127.0.0.1 is loopback; outbound calls go to public addresses only."
    )
    assert receiver.requests == []
    operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")

    async def look() -> bool | None:
        return (await operator.get("/status/"))["outbox"] == {"pending": 0, "failed": 1} or None

    await eventually(look, "the outbox to be counted")
