"""Agents with models: a whole process, and an endpoint that counts what it bills."""

from decimal import Decimal
from typing import Any

import aiohttp
import orjson
import pytest

from hostsvc.llm.price_list import PriceList
from supervisors.clock import SystemClock
from supervisors.llm.catalog import ModelCall
from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.openai_endpoint import Endpoint, Json, Refuses, Says, clerk, open_endpoint

MODEL = "openai/gpt-4o"  # has a price in the list


async def serve(services: Services, endpoint: Endpoint, **provider: Any) -> ServiceProcess:
    settings = {"base_url": endpoint.url, **provider}
    return await services.start(**{"models.openai": settings})


async def bill(endpoint: Endpoint) -> Decimal:
    """Return the cost of all responses of the endpoint."""
    prices, now, total = PriceList(), SystemClock().now(), Decimal()
    for response in endpoint.billed:
        cost = await prices.cost_of(
            ModelCall(MODEL, response.input_tokens, response.output_tokens, response.cached_tokens, now)
        )
        assert cost
        total += cost
    return total


async def usage(client: Client, agent: str) -> Json:
    """Return the usage of the agent's only model."""
    summary: Json = await client.get(f"/api/cloud/agents/{agent}/usage/")
    assert summary["model_breakdown"].keys() == {MODEL}
    breakdown: Json = summary["model_breakdown"][MODEL]
    return breakdown


def priced(body: Json, *calls: tuple[str, str]) -> Says:
    """Return a response with a price that no other one in its conversation has."""
    length = len(body["messages"])
    return Says(calls=calls, input_tokens=1000 + 7 * length, output_tokens=13 * length, cached_tokens=512)


def priced_clerk(body: Json) -> Says:
    """Act as a model that lists its notifications, clears them, and sleeps."""
    return priced(body, *clerk(body).calls)


@pytest.mark.everyday
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_usage_of_a_run_equals_the_bill_of_the_endpoint(
    services: Services, session: aiohttp.ClientSession, stream: bool
) -> None:
    async with open_endpoint(Refuses(429, retry_after="0.05")) as endpoint:
        endpoint.otherwise = priced_clerk
        service = await serve(services, endpoint, stream=stream)
        client = await sign_up(session, service.url)
        template = await client.post(
            "/api/templates/", name="Desk", system_prompt="Be kind.", default_reasoning_effort="low"
        )
        agent = await client.create_agent(model=MODEL, template=template["id"])
        notes = [await client.notify(agent, f"Note {number}", priority="low") for number in (1, 2)]
        await client.notify(agent, "Hello")
        run = await client.ended_run(agent)

        assert (run["outcome"], run["turns"], run["error"]) == ("slept", 3, "")
        assert all(one["cleared"] for one in await client.notifications(agent))
        first = endpoint.calls[0].body
        assert (first["model"], first["reasoning_effort"]) == ("gpt-4o", "low")
        assert first["messages"][0]["role"] == "system"
        assert first["messages"][0]["content"].endswith("\n\nBe kind.")
        assert {tool["function"]["name"] for tool in first["tools"]} > {"clear_notification", "sleep"}
        assert len(notes) == 2

        used = await usage(client, agent)
        assert used["llm_calls"] == len(endpoint.billed) == 3
        assert Decimal(str(used["total_cost_usd"])) == await bill(endpoint)
        trace = await client.trace(run)
        assert [span["name"] for span in trace["spans"]].count("chat gpt-4o") == 3


async def test_killed_service_has_recorded_every_response_with_effects(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint() as endpoint:

        def create_a_notification(body: Json) -> Says:
            title = orjson.dumps({"title": f"Answer {len(endpoint.calls)}"}).decode()
            return priced(body, ("create_notification", title))

        endpoint.otherwise = create_a_notification
        service = await serve(services, endpoint)
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL)
        await client.post(f"/api/cloud/agents/{agent}/run/")
        await endpoint.called(20)
        await service.kill()

        answered = len(endpoint.billed)
        endpoint.otherwise = lambda body: priced(body, ("sleep", "{}"))
        client = client.at((await serve(services, endpoint)).url)
        await client.ended_run(agent, 2)
        assert [run["outcome"] for run in await client.runs(agent)] == ["interrupted", "slept"]

        used = await usage(client, agent)
        acted_on = len(await client.notifications(agent))
        recorded = used["llm_calls"] - 1  # the last call is of the second run
        assert acted_on <= recorded <= answered
        assert acted_on >= 18
        # Each call was recorded before its effect and before the next call, so only last ones can be missing.
        endpoint.billed = [*endpoint.billed[:recorded], endpoint.billed[-1]]
        assert Decimal(str(used["total_cost_usd"])) == await bill(endpoint)
