"""What runs of the built-in harness record of their models and tools."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from hostsvc.llm.chat_models import connect
from hostsvc.llm.providers import ProviderSettings
from storage.history.trace_model import Span
from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunRequest, StopRequest
from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import ModelCallFailed, ModelRequest, ModelResponse, ToolCall
from supervisors.settings import TracingSettings
from tests.acceptance.client import eventually
from tests.openai_endpoint import Refuses, open_endpoint
from tests.supervisors.harness.scripted_runs import (
    SLEEP,
    answers,
    metadata,
    only_run,
    running,
    spans,
    start,
    start_once,
)
from tests.supervisors.world import World, open_world

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
SHARED = {"gen_ai.system_instructions", "gen_ai.tool.definitions"}
CONTENT = {INPUT, OUTPUT, *SHARED, "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}


class Failing:
    """A model whose answer breaks off."""

    async def complete(self, _: ModelRequest) -> ModelResponse:
        raise ModelCallFailed("The model is away.", ModelResponse("I would", (), reasoning="Hm."))


async def recorded(world: World, agent: Agent, span_type: str) -> list[dict[str, Any]]:
    """Return the metadata of the spans of this type, oldest first."""
    return [await metadata(world, span) for span in await spans(world, agent, span_type)]


async def open_call(world: World, agent: Agent) -> Span | None:
    calls = await spans(world, agent, "llm")
    return next((call for call in calls if call.ended_at is None), None)


def parts(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(message["role"], part["type"]) for message in messages for part in message["parts"]]


async def test_each_call_records_what_the_model_was_told_and_said(pool: Pool) -> None:
    thinking = ModelResponse(
        "I look.", (ToolCall("call_1", "list_notifications", "{}"),), 5, 5, reasoning="Hm."
    )
    async with running(pool, thinking, [SLEEP], agent={"system_prompt": "Be kind."}) as (world, agent, _):
        await start(world, agent)
        first, second = await recorded(world, agent, "llm")

    assert parts(first[INPUT]) == [("user", "text")]
    assert parts(first[OUTPUT]) == [
        ("assistant", "reasoning"),
        ("assistant", "text"),
        ("assistant", "tool_call"),
    ]
    [instructions] = first["gen_ai.system_instructions"]
    assert (instructions["type"], instructions["content"][-9:]) == ("text", "\nBe kind.")
    assert "sleep" in {tool["name"] for tool in first["gen_ai.tool.definitions"]}
    assert second[INPUT] == [
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "call_1", "response": {"result": []}}],
        }
    ]
    assert parts(second[OUTPUT]) == [("assistant", "tool_call")]
    assert not SHARED & second.keys()


@pytest.mark.parametrize("of_template", [None, "none"])
async def test_content_is_not_recorded_if_turned_off(pool: Pool, of_template: str | None) -> None:
    settings = TracingSettings("full" if of_template else "none")
    async with open_world(pool, model=InboxModel(), tracing=settings) as world:
        shared = await world.template(content=of_template or "")
        agent = await world.agent(template_id=shared.id)
        await world.notify(agent)

        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        stored = [*await recorded(world, agent, "llm"), *await recorded(world, agent, "tool")]
        assert len(stored) == 6
        assert not any(CONTENT & each.keys() for each in stored)
        assert await pool.fetchval("SELECT count(*) FROM shared_content") == 0


@pytest.mark.parametrize("of_template", [None, "none"])
async def test_error_of_the_provider_is_not_quoted_if_turned_off(pool: Pool, of_template: str | None) -> None:
    settings = TracingSettings("full" if of_template else "none")
    async with open_endpoint(Refuses(400, "I do not like: Dear Ada, your parcel")) as endpoint:
        provider = ProviderSettings(endpoint.url, max_retries=0)
        async with (
            connect({"acme": provider}, {}) as models,
            open_world(pool, model=models["acme"], tracing=settings) as world,
        ):
            shared = await world.template(content=of_template or "")
            agent = await world.agent(template_id=shared.id)
            with capture_logs() as logged:
                await start_once(world, agent)
            run = await only_run(world, agent)

    assert run.error == "The model provider acme refused the call with 400 Bad Request."
    tables = ("run", "trace", "span", "span_metadata", "agent_state", "notification", "event")
    rows = [await pool.fetchval(f"SELECT string_agg(t::text, '') FROM {table} t") for table in tables]  # noqa: S608
    assert "Dear Ada" not in f"{rows} {logged}"


async def test_broken_off_answer_is_recorded(pool: Pool) -> None:
    async with open_world(pool, model=Failing()) as world:
        agent = await world.agent()
        await start_once(world, agent)
        [call] = await recorded(world, agent, "llm")

    assert parts(call[INPUT]) == [("user", "text")]
    [answer] = call[OUTPUT]
    assert [part["content"] for part in answer["parts"]] == ["Hm.", "I would"]


async def test_key_of_the_provider_is_in_nothing_that_is_stored(pool: Pool) -> None:
    key = "sk-the-key-of-this-test"
    quoting = Refuses(400, f'{{"error": {{"message": "The key {key} is refused."}}}}')
    async with open_endpoint(quoting) as endpoint:
        provider = ProviderSettings(endpoint.url, api_key_env="THE_KEY", max_retries=0)
        async with (
            connect({"acme": provider}, {"acme": key}) as models,
            open_world(pool, model=models["acme"]) as world,
        ):
            agent = await world.agent(system_prompt="Be kind.")
            await start_once(world, agent)
            [call] = await recorded(world, agent, "llm")
        assert endpoint.calls[0].headers["authorization"] == f"Bearer {key}"

    assert call[INPUT]
    for table in ("run", "trace", "span", "span_metadata", "shared_content", "agent_state"):
        stored = await pool.fetchval(f"SELECT string_agg(t::text, '') FROM {table} t")  # noqa: S608
        assert key not in (stored or "")


async def test_waiting_run_says_for_what_and_shows_its_span(pool: Pool) -> None:
    async with running(pool, [("look_up", "{}")]) as (world, agent, script):
        world.toolset.rigged["look_up"] = answers("tea")
        await world.registry.ask(agent.id, RunRequest())
        await script.is_thinking.wait()
        world.clock.advance(24)
        snapshot = await world.see(agent)
        waiting = await eventually(lambda: open_call(world, agent), "the open span", 10)
        told = (await metadata(world, waiting))[INPUT]
        await world.ask(agent, StopRequest())
        ended = await spans(world, agent, "llm")

    assert snapshot.why.endswith("; waiting 24 s for provider builtin.")
    assert parts(told) == [("tool", "tool_call_response")]
    assert sorted(span.error for span in ended if span.ended_at) == ["", "stopped"]
