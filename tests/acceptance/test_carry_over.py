"""Runs tell the next ones what happened: by the journal and by the transcript, also after kill -9."""

from typing import Any

import aiohttp
import orjson

from tests.acceptance.client import Client, Json, eventually, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.openai_endpoint import Endpoint, Hangs, Says, clerk, open_endpoint

SLEEP = Says(calls=[("sleep", "{}")])
SUMMARY = "You write the memory of an agent"  # how the request for a summary begins


async def serve(services: Services, endpoint: Endpoint, **runs: Any) -> ServiceProcess:
    return await services.start(**{"models.real": {"base_url": endpoint.url}, "runs": runs})


async def create_agent(client: Client, carry_over: str) -> str:
    template = await client.post("/api/templates/", name="Desk", carry_over=carry_over)
    return await client.create_agent(model="real/clerk", template=template["id"])


async def run_again(client: Client, agent: str, number: int) -> Json:
    await client.post(f"/api/cloud/agents/{agent}/run/")
    return await client.ended_run(agent, number)


def told(endpoint: Endpoint) -> list[Json]:
    """Return the messages of the last request."""
    messages: list[Json] = endpoint.calls[-1].body["messages"]
    return messages


def require_valid(messages: list[Json]) -> None:
    """Fail if a tool call has no result right after it, or a result has no call: providers refuse both."""
    expected: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            expected.remove(message["tool_call_id"])
        else:
            assert not expected
            expected = [call["id"] for call in message.get("tool_calls") or ()]
    assert not expected


async def test_killed_run_is_told_by_its_journal_before_the_next(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint() as endpoint:
        service = await serve(services, endpoint)
        client = await sign_up(session, service.url)
        agent = await create_agent(client, "journal")
        notification = await client.notify(agent, "New sms from Ada")
        clear = ("clear_notification", orjson.dumps({"notification_id": notification["id"]}).decode())
        endpoint.acts[:] = [Says(calls=[clear]), Hangs()]
        await endpoint.called(2)
        await _has_spans(client, agent)
        await service.kill()
        endpoint.acts[:] = [SLEEP]

        client = client.at((await serve(services, endpoint)).url)
        first, second = await client.ended_run(agent, 1), await client.ended_run(agent, 2)

        assert (first["outcome"], second["outcome"]) == ("interrupted", "slept")
        assert first["ended_at"] <= second["started_at"]
        journal = first["journal"]
        assert journal["woken_by"] == journal["cleared"] == ["New sms from Ada"]
        assert journal["tools"] == [{"name": "clear_notification", "calls": 1, "errors": 0, "last_error": ""}]
        assert second["journal"]["cleared"] == []
        [told_first] = [message["content"] for message in told(endpoint) if message["role"] == "user"]
        assert 'woken by notification:api ("New sms from Ada"). Cleared "New sms from Ada".' in told_first
        assert "It was interrupted and may have done more than this journal says" in told_first


async def _has_spans(client: Client, agent: str) -> None:
    """Wait until the steps of the run are stored, which happens once a second."""
    [run] = await client.runs(agent)

    async def look() -> bool | None:
        trace = await client.get(f"/api/tracing/traces/{run['trace']}/")
        return any(span["span_type"] == "tool" for span in trace["spans"]) or None

    await eventually(look, "the first turn to be in the trace")


async def test_transcript_is_carried_over_kill_9_and_deleted(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint(Says(calls=[("list_notifications", "{}")]), Hangs()) as endpoint:
        service = await serve(services, endpoint)
        client = await sign_up(session, service.url)
        agent = await create_agent(client, "transcript")
        await client.post(f"/api/cloud/agents/{agent}/run/")
        await endpoint.called(2)
        await service.kill()

        endpoint.acts[:] = [SLEEP]
        client = client.at((await serve(services, endpoint)).url)
        await client.ended_run(agent, 2)

        messages = told(endpoint)
        require_valid(messages)
        calls = [call["function"]["name"] for one in messages for call in one.get("tool_calls") or ()]
        assert calls == ["list_notifications"]
        assert "It was interrupted" in messages[-1]["content"]
        path = f"/api/cloud/agents/{agent}/transcript/"
        assert [turn["kind"] for turn in await client.get(path)] == ["turn", "turn"]

        assert await client.status_of(path, "DELETE") == 204
        endpoint.acts[:] = [SLEEP]
        await run_again(client, agent, 3)
        assert not any(one.get("tool_calls") for one in told(endpoint))


async def test_long_transcript_is_summarized_billed_and_kept(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with open_endpoint() as endpoint:
        endpoint.otherwise = lambda body: (
            Says("Ada likes green tea.", input_tokens=777)
            if body["messages"][0]["content"].startswith(SUMMARY)
            else clerk(body)
        )
        service = await serve(services, endpoint, transcript_tokens=1000)
        client = await sign_up(session, service.url)
        agent = await create_agent(client, "transcript")
        for number in range(1, 7):
            await client.notify(agent, f"Fact {number}", body="tea " * 200)
            run = await client.ended_run(agent, number)
            assert run["outcome"] == "slept"
            require_valid(told(endpoint))

        bodies = [call.body for call in endpoint.calls]
        summaries = [body for body in bodies if body["messages"][0]["content"].startswith(SUMMARY)]
        assert summaries
        assert all("tools" not in body for body in summaries)
        assert any(
            "Ada likes green tea." in one["content"] for one in told(endpoint) if one["role"] == "user"
        )
        path = f"/api/cloud/agents/{agent}/transcript/"
        carried, replaced = await client.get(path), await client.get(path, carried="false")
        assert [turn["kind"] for turn in carried].count("summary") == 1
        assert "Fact 1" in orjson.dumps(replaced).decode()
        usage = await client.get(f"/api/cloud/agents/{agent}/usage/")
        assert usage["llm_calls"] == len(endpoint.calls)
        await _has_span_of_summary(client, agent)


async def _has_span_of_summary(client: Client, agent: str) -> None:
    traces = [await client.trace(run) for run in await client.runs(agent)]
    spans = [span for trace in traces for span in trace["spans"]]
    compacting = {span["id"] for span in spans if span["name"] == "compact_transcript"}
    assert any(span["parent"] in compacting and span["span_type"] == "llm" for span in spans)
