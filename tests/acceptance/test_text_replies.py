"""Texts of agents with `reply: text`: a whole process, a gateway, and kill -9 between the two."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.openai_endpoint import Endpoint, Says, open_endpoint
from tests.receiver import Receiver, answering, receiving


async def serve(services: Services, endpoint: Endpoint) -> ServiceProcess:
    sections: dict[str, dict[str, Any]] = {
        "models.real": {"base_url": endpoint.url},
        "outbound": {"allow_private": True},
    }
    return await services.start(**sections)


async def ask(client: Client, gateway: Receiver) -> str:
    """Create an agent that answers by text, have a contact write to it, and return its id."""
    template = await client.post("/api/templates/", name="Desk", reply="text")
    adapter = await client.post("/api/toolbox/adapters/", name="Gateway")
    tool = {"adapter": adapter["id"], "name": "send", "handler": "channel:sms", "url": gateway.url}
    await client.post("/api/toolbox/tools/", **tool)
    agent = await client.create_agent(model="real/styled", template=template["id"], adapters=[adapter["id"]])
    contact = await client.post("/api/defaults/contacts/", name="Ann", phone="+493012345")
    message = {"agent": agent, "contact": contact["id"], "channel": "sms", "direction": "inbound"}
    await client.post("/api/defaults/messages/", **message, body="What time is it?")
    return agent


@pytest.mark.everyday
async def test_killed_service_repeats_the_stored_text_under_its_id(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with open_endpoint() as endpoint, receiving() as gateway:
        gateway.answer, endpoint.otherwise = hang, lambda _: Says("It is nine o'clock.")
        service = await serve(services, endpoint)
        client = await sign_up(session, service.url)
        agent = await ask(client, gateway)
        await gateway.wait_for(1)
        await service.kill()

        gateway.answer, endpoint.otherwise = answering(200), lambda _: Says("It is ten o'clock.")
        client = client.at((await serve(services, endpoint)).url)
        run = await client.ended_run(agent, 2)

        assert (run["outcome"], run["output"]) == ("ended", "It is ten o'clock.")
        calls = [(call.id, call.data["arguments"]["body"]) for call in gateway.requests]
        [sent] = await client.get("/api/defaults/messages/", agent=agent, direction="outbound")
        assert calls == [(sent["id"], "It is nine o'clock.")] * 2
        assert (sent["body"], sent["status"]) == ("It is nine o'clock.", "sent")
        assert [one["cleared"] for one in await client.notifications(agent)] == [True]
