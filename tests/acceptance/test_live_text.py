"""The text of a model arrives in the streams of its run, agent and organization while the model writes it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import asyncpg
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from supervisors.clock import SystemClock
from tests.acceptance.client import Client, sign_up
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.openai_endpoint import Says, open_endpoint
from tests.patience import PATIENCE_SECONDS
from tests.receiver import receiving

MODEL = "openai/gpt-4o"


@dataclass
class Writer:
    """A model that writes one word, and the rest when the test lets it."""

    words: tuple[str, ...] = ("Hello, ", "Ada. ", "Tea?")
    may_go_on: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        first, *others = self.words
        await self._send(response, {"content": first})
        for word in others:
            await self.wait()
            await self._send(response, {"content": word})
        await self._send(response, {}, "stop")
        await response.write(b"data: [DONE]\n\n")
        return response

    async def wait(self) -> None:
        """Wait before a word that is not the first one."""
        await self.may_go_on.wait()

    async def _send(self, response: web.StreamResponse, delta: dict[str, Any], reason: str = "") -> None:
        chunk = {"id": "c-1", "choices": [{"delta": delta, "finish_reason": reason or None}]}
        await response.write(b"data: " + orjson.dumps(chunk) + b"\n\n")


AnyWriter = TypeVar("AnyWriter", bound=Writer)


@asynccontextmanager
async def writing(writer: AnyWriter) -> AsyncIterator[AnyWriter]:
    """Serve the model at its `url`."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", writer.answer)
    async with TestServer(app) as server:
        writer.url = str(server.make_url("/v1"))
        yield writer


@asynccontextmanager
async def followed(client: Client, path: str, **query: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Yield the events of a stream."""
    headers = {"Authorization": client.authorization, "Accept": "text/event-stream"}
    async with client.session.get(client.url + path, params=query, headers=headers) as response:
        assert response.status == 200, await response.text()
        await response.content.readline()  # the stream has begun
        yield _events(response.content)


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in content:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


@pytest.mark.everyday
async def test_text_arrives_while_the_model_writes(
    services: Services, session: aiohttp.ClientSession
) -> None:
    """It arrives at followers of the agent, of its organization and of the whole service."""
    async with writing(Writer()) as model, AsyncExitStack() as streams:
        provider = {"base_url": model.url, "stream": True}
        service = await services.start(**{"models.openai": provider})
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL)
        operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
        followers = [
            await streams.enter_async_context(followed(reader, path, type="model.*"))
            for reader, path in (
                (client, f"/api/cloud/agents/{agent}/events/"),
                (client, "/api/events/"),
                (operator, "/status/events/"),
            )
        ]
        await client.post(f"/api/cloud/agents/{agent}/run/")
        for events in followers:
            first = await anext(events)  # the model waits until this has arrived
            assert first["data"] == {"turn": 1, "offset": 0, "text": "Hello, "}
            assert (first["id"], first["agent"], first["resource"]) == (None, agent, None)
            assert first["by"] == {"type": "run", "id": first["run"]}
        model.may_go_on.set()
        for events in followers:
            text = "Hello, "
            while text != "Hello, Ada. Tea?":
                event = await anext(events)
                assert event["data"]["offset"] == len(text)
                text += event["data"]["text"]
        ended = await client.ended_run(agent)
        assert (ended["id"], ended["output"]) == (first["run"], text)


async def until_followed(database_url: str, agent: str) -> None:
    """Wait until some node says that it follows the agent, and each has read that."""
    connection = await asyncpg.connect(database_url)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await connection.fetchval(FOLLOWED, agent):
                await SystemClock().sleep(0.05)
            beats = await connection.fetchval(BEATS)
            while await connection.fetchval(BEATS) < beats + 2:
                await SystemClock().sleep(0.05)
    finally:
        await connection.close()


FOLLOWED = "SELECT EXISTS (SELECT FROM node WHERE facts::jsonb -> 'followed' ? $1)"
BEATS = "SELECT min(beat) FROM node WHERE state = 'alive'"


async def test_text_arrives_at_followers_of_another_node(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    async with writing(Writer()) as model:
        provider = {"base_url": model.url, "stream": True}
        runner, other = [await services.start(**{"models.openai": provider}) for _ in range(2)]
        client = await sign_up(session, runner.url)
        agent = await client.create_agent(model=MODEL)
        path = f"/api/cloud/agents/{agent}/events/"
        async with followed(client.at(other.url), path, type="model.*") as events:
            await until_followed(database_url, agent)
            await client.post(f"/api/cloud/agents/{agent}/run/")
            model.may_go_on.set()
            text = ""
            while text != "Hello, Ada. Tea?":
                text += (await anext(events))["data"]["text"]


async def test_text_is_not_shown_to_followers_of_others(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with writing(Writer()) as model:
        model.may_go_on.set()
        provider = {"base_url": model.url, "stream": True}
        service = await services.start(**{"models.openai": provider})
        client, stranger = [await sign_up(session, service.url) for _ in range(2)]
        agent, other = [await client.create_agent(model=MODEL) for _ in range(2)]
        async with (
            followed(client, f"/api/cloud/agents/{other}/events/") as of_other,
            followed(stranger, "/api/events/") as of_stranger,
        ):
            await client.post(f"/api/cloud/agents/{agent}/run/")
            await client.ended_run(agent)
            await client.notify(other, priority="low")
            await stranger.notify(await stranger.create_agent(), priority="low")
            assert (await anext(of_other))["type"] == "notification.created"
            types = {(await anext(of_stranger))["type"] for _ in range(2)}
            assert types == {"agent.created", "notification.created"}


def repeat_the_tool(body: dict[str, Any]) -> Says:
    """Call the tool, and then say what it has answered."""
    last = body["messages"][-1]
    return Says(last["content"]) if last["role"] == "tool" else Says(calls=[("look_up", "{}")])


async def create_agent_with_tool(client: Client, url: str, secret: str) -> str:
    """Create an agent whose only adapter sends a secret in a header."""
    adapter = await client.post("/api/toolbox/adapters/", name="CRM")
    await client.post("/api/toolbox/tools/", adapter=adapter["id"], name="look_up", url=url)
    template = await client.post("/api/templates/", name="Desk")
    headers = {"Authorization": "CRM_KEY"}
    config = {"template": template["id"], "adapter": adapter["id"], "secret_headers": headers}
    await client.post("/api/toolbox/adapter-configs/", **config)
    await client.post("/api/organizations/secrets/", name="CRM_KEY", value=secret)
    return await client.create_agent(model=MODEL, template=template["id"], adapters=[adapter["id"]])


async def test_text_holds_no_secret_that_a_tool_repeats(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"key": request.headers["Authorization"]})

    async with receiving() as tool, open_endpoint() as endpoint:
        tool.answer, endpoint.otherwise = echo, repeat_the_tool
        provider = {"base_url": endpoint.url, "stream": True}
        outbound = {"allow_private": True}
        service = await services.start(outbound=outbound, **{"models.openai": provider})
        client = await sign_up(session, service.url)
        agent = await create_agent_with_tool(client, tool.url, "Bearer sk-live-0123456789")
        async with followed(client, f"/api/cloud/agents/{agent}/events/", type="model.*") as events:
            await client.post(f"/api/cloud/agents/{agent}/run/")
            text = ""
            while "secret" not in text:
                text += (await anext(events))["data"]["text"]
    assert "[secret]" in text
    assert "sk-live" not in text
