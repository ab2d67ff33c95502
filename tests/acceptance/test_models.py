"""An agent with a real model, as far as the service can tell: a whole process, and an endpoint that bills."""

import asyncio
from decimal import Decimal
from typing import Any

import aiohttp
import orjson
import pytest

from hostsvc.llm.price_list import PriceList
from supervisors.clock import SystemClock
from supervisors.llm.pricing import ModelCall
from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.openai_endpoint import Endpoint, Hangs, Json, Refuses, Says, clerk, open_endpoint

MODEL = "openai/gpt-4o"  # whose price is known


async def serve(services: Services, endpoint: Endpoint, **provider: Any) -> ServiceProcess:
    settings = {"base_url": endpoint.url, **provider}
    return await services.start(**{"models.openai": settings})


async def bill(endpoint: Endpoint) -> Decimal:
    """What all that was answered costs."""
    prices, now, total = PriceList(), SystemClock().now(), Decimal()
    for said in endpoint.billed:
        cost = await prices.cost_of(
            ModelCall(MODEL, said.input_tokens, said.output_tokens, said.cached_tokens, now)
        )
        assert cost
        total += cost
    return total


async def usage(client: Client, agent: str) -> Json:
    """The usage of the agent's one model."""
    summary: Json = await client.get(f"/api/cloud/agents/{agent}/usage/")
    assert summary["model_breakdown"].keys() == {MODEL}
    found: Json = summary["model_breakdown"][MODEL]
    return found


def priced(body: Json, *calls: tuple[str, str]) -> Says:
    """An answer whose price is that of no other in its conversation."""
    said = len(body["messages"])
    return Says(calls=calls, input_tokens=1000 + 7 * said, output_tokens=13 * said, cached_tokens=512)


def priced_clerk(body: Json) -> Says:
    """A model that lists what is in its queue, clears it, and sleeps."""
    return priced(body, *clerk(body).calls)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_run_calls_tools_and_its_usage_is_what_the_endpoint_billed(
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
        assert first["messages"][0] == {"role": "system", "content": "Be kind."}
        assert {tool["function"]["name"] for tool in first["tools"]} > {"clear_notification", "sleep"}
        assert len(notes) == 2

        used = await usage(client, agent)
        assert used["llm_calls"] == len(endpoint.billed) == 3
        assert Decimal(str(used["total_cost_usd"])) == await bill(endpoint)
        trace = await client.trace(run)
        assert [span["name"] for span in trace["spans"]].count("chat gpt-4o") == 3


async def test_a_run_works_on_what_goes_wrong_and_the_agents_schedule_stays_intact(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint(
        Says(calls=[("launch_rocket", "{}"), ("sleep", '{"hours": ')]),
        Says(calls=[("sleep", '{"hours": 2}')]),
        Refuses(400, '{"error": {"code": "context_length_exceeded", "message": "At most 8192 tokens."}}'),
        Says(calls=[("sleep", "{}")]),
    ) as endpoint:
        service = await serve(services, endpoint)
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL)

        await client.post(f"/api/cloud/agents/{agent}/run/")
        assert (await client.ended_run(agent))["outcome"] == "slept"
        told = [orjson.loads(each["content"]) for each in endpoint.calls[1].body["messages"][-2:]]
        assert [each["error"]["code"] for each in told] == ["unknown_tool", "invalid"]

        await client.post(f"/api/cloud/agents/{agent}/run/")
        failed = await client.ended_run(agent, 2)
        assert failed["outcome"] == "failed"
        assert "The conversation is too long for gpt-4o." in failed["error"]
        trace = await client.trace(failed)
        assert trace["error"] == failed["error"]
        assert (await client.ended_run(agent, 3))["outcome"] == "slept"


async def test_a_stop_of_a_run_that_waits_for_its_model_ends_the_call_at_once(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint(Hangs()) as endpoint:
        service = await serve(services, endpoint)
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL)
        await client.post(f"/api/cloud/agents/{agent}/run/")
        await endpoint.called()

        began = asyncio.get_running_loop().time()
        assert await client.post(f"/api/cloud/agents/{agent}/stop/") == {"status": "stopped"}
        assert asyncio.get_running_loop().time() - began < 0.5, "a stop takes 100 ms, on a quiet machine"
        await endpoint.until(lambda: endpoint.disconnects == 1)
        assert (await client.ended_run(agent))["outcome"] == "stopped"


async def test_after_kill_9_every_answer_that_was_acted_on_is_on_the_bill(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint() as endpoint:

        def note_down(body: Json) -> Says:
            title = orjson.dumps({"title": f"Answer {len(endpoint.calls)}"}).decode()
            return priced(body, ("create_notification", title))

        endpoint.otherwise = note_down
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
        recorded = used["llm_calls"] - 1  # the last is of the second run
        assert acted_on <= recorded <= answered
        assert acted_on >= 18
        # Of the first run it is the first ones: each was stored before it was acted on, and before the next.
        endpoint.billed = [*endpoint.billed[:recorded], endpoint.billed[-1]]
        assert Decimal(str(used["total_cost_usd"])) == await bill(endpoint)


async def test_a_key_that_is_not_set_stops_the_start(services: Services) -> None:
    provider = {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "NOBODY_SET_IT"}
    service = await services.spawn(**{"models.acme": provider})

    assert await service.exit_code() == 2
    assert "models.acme.api_key_env: the variable NOBODY_SET_IT is not set" in service.log()
