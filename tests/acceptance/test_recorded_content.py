"""Runs explained from what is stored: what their models were told and said, however the runs end."""

from typing import Any

import aiohttp

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.services import Services
from tests.openai_endpoint import BreaksOff, Endpoint, Hangs, Json, Says, open_endpoint

MODEL = "openai/gpt-4o"


def provider(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    return {"models.openai": {"base_url": endpoint.url, "stream": True, "max_retries": 0}}


async def transcript(client: Client, run: str) -> list[Json]:
    entries: list[Json] = (await client.get(f"/api/tracing/traces/{run}/transcript/"))["entries"]
    return entries


async def waiting_call(client: Client, run: str) -> Json | None:
    """Return the span of the model call that goes on."""
    spans = (await client.get(f"/api/tracing/traces/{run}/"))["spans"]
    return next((span for span in spans if span["span_type"] == "llm" and span["ended_at"] is None), None)


async def why_waiting(client: Client, agent: str) -> str | None:
    why: str = (await client.supervisor(agent))["why"]
    return why if "; waiting " in why else None


async def test_call_under_way_is_seen_and_survives_a_kill(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint(Hangs(), Says("Back again.")) as endpoint:
        service = await services.start(**provider(endpoint))
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL, system_prompt="Be kind.")
        run = (await client.post(f"/api/cloud/agents/{agent}/run/"))["run"]
        await endpoint.called()
        span = await eventually(lambda: waiting_call(client, run), "the span of the call")
        why = await eventually(lambda: why_waiting(client, agent), "the sentence about the wait")
        *told, waiting = await transcript(client, run)
        await service.kill()
        service = await services.start(**provider(endpoint))
        client = client.at(service.url)
        await client.ended_run(agent, 2)
        *_, cut_short = await transcript(client, run)

    assert why.endswith(" s for provider openai.")
    assert [entry["role"] for entry in told] == ["system", "user"]
    assert "Be kind." in told[0]["text"]
    assert (waiting["role"], waiting["duration_ms"], waiting["span"]) == ("assistant", None, span["id"])
    assert (cut_short["span"], cut_short["error"]) == (span["id"], "cut short: the run was ended")


async def test_answer_that_broke_off_explains_the_failed_run(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint(BreaksOff(after="I would")) as endpoint:
        service = await services.start(**provider(endpoint))
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL)
        await client.post(f"/api/cloud/agents/{agent}/run/")
        run = await client.ended_run(agent)
        *_, answer = await transcript(client, run["id"])

    assert run["outcome"] == "failed"
    assert (answer["text"], answer["error"]) == ("I would", run["error"])
    assert "ended the connection in the middle of its answer" in answer["error"]


async def test_transcript_of_a_run_has_calls_results_and_costs(
    services: Services, session: aiohttp.ClientSession
) -> None:
    look = Says("I look.", [("list_notifications", "{}")], reasoning="What is new?")
    async with open_endpoint(look, Says("Nothing is new.")) as endpoint:
        service = await services.start(**provider(endpoint))
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL)
        await client.post(f"/api/cloud/agents/{agent}/run/")
        run = await client.ended_run(agent)
        answer = await client.get(f"/api/tracing/traces/{run['id']}/transcript/")
        spent = (await client.get(f"/api/cloud/agents/{agent}/usage/"))["total_cost_usd"]

    said = [entry for entry in answer["entries"] if entry["role"] == "assistant"]
    [result] = [entry for entry in answer["entries"] if entry["role"] == "tool"]
    assert [entry["text"] for entry in said] == ["Ilook.", "Nothingisnew."]  # the endpoint streams words
    assert said[0]["reasoning"] == "What is new?"
    assert said[0]["tool_calls"][0]["id"] == result["tool_call"]
    assert (result["tool"], result["arguments"], result["result"]) == ("list_notifications", {}, [])
    assert {entry["call"]["provider"] for entry in said} == {"openai"}
    assert round(sum(entry["call"]["cost_usd"] for entry in said), 6) == spent > 0
    assert "list_notifications" in {tool["name"] for tool in answer["tools"]}
