"""Webhooks of the whole process, with failing receivers and killed services."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.acceptance.client import Client, Json, eventually, sign_up
from tests.acceptance.services import Services
from tests.receiver import Receiver, receiving

DELIVERIES = "/api/organizations/webhook-deliveries/"
SECRET = "whsec_c2VjcmV0IG9mIHRoZSBkZXNr"


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
    services_without_looks: Services, session: aiohttp.ClientSession, receiver: Receiver
) -> None:
    service = await services_without_looks.start(outbound={"allow_private": True})
    client = await sign_up(session, service.url)
    template = await template_with_webhook(client, f"{receiver.url}/hook")
    agent = await client.create_agent(template=template, tags=["vip"])
    [received] = await receiver.wait_for(1)

    event = received.verified_by(SECRET)
    assert (event["type"], event["data"]["agent"], event["data"]["tags"]) == ("agent.created", agent, ["vip"])
    delivered = await delivery_with_status(client, "delivered", template)
    assert (delivered["id"], delivered["attempts"], delivered["last_status"]) == (received.id, 1, 204)

    again = await client.post(f"{DELIVERIES}{received.id}/redeliver/")
    assert again["status"] == "pending"
    _, repeated = await receiver.wait_for(2)
    assert (repeated.id, repeated.body) == (received.id, received.body)
