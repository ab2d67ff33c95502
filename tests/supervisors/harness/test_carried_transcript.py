"""Runs that carry the transcript over: what the next run is told, also after a stop, a crash or a summary."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import orjson
import pytest

from storage.errors import DatabaseUnavailable
from storage.history.transcripts import TranscriptTurn, TurnKind
from storage.model import Agent, CarryOver, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunRequest, StopRequest
from supervisors.harness.transcript import UNKNOWN_RESULT
from supervisors.llm.port import ChatMessage, ChatRole, ModelResponse, ToolCall
from tests.storage.factories import stored_spans
from tests.supervisors.harness.scripted_runs import SLEEP, answers, start, start_once
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import World, open_world

LOOK = [("look", "{}")]
SAYS_BYE = ModelResponse("Bye.", ())


@asynccontextmanager
async def carrying(
    pool: Pool, carry_over: CarryOver = CarryOver.TRANSCRIPT, tokens: int = 16_000
) -> AsyncIterator[tuple[World, Agent, Script]]:
    """Open a world with an agent that carries its transcript over."""
    script = Script()
    async with open_world(pool, model=script, runs={"transcript_tokens": tokens}) as world:
        template = await world.template(carry_over=carry_over, system_prompt="Be kind.")
        world.toolset.rigged["look"] = answers("a bird")
        yield world, await world.agent(template_id=template.id), script


def roles(messages: tuple[ChatMessage, ...]) -> str:
    return "".join(message.role[0] for message in messages)


def require_valid(messages: tuple[ChatMessage, ...]) -> None:
    """Fail if a tool call has no result right after it, or a result has no call: providers refuse both."""
    expected: list[str] = []
    for message in messages:
        if message.role is ChatRole.TOOL:
            assert message.tool_call_id in expected
            expected.remove(message.tool_call_id)
        else:
            assert not expected
            expected = [call.id for call in message.tool_calls]
    assert not expected


async def has_many_turns(world: World, agent: Agent, script: Script, count: int) -> None:
    """Let the agent run once, with many turns."""
    world.toolset.rigged["look"] = answers("x" * 2000)
    script.say(*[LOOK] * count, [SLEEP])
    await start(world, agent)
    script.requests.clear()


async def last_spans(world: World, agent: Agent, span_type: str) -> list[Any]:
    run = (await world.ledger(agent))[-1]
    return [span for span in await stored_spans(world.pool, run.id) if span.span_type == span_type]


async def test_next_run_starts_with_what_the_last_one_said(pool: Pool) -> None:
    async with carrying(pool) as (world, agent, script):
        script.say(LOOK, [SLEEP], [SLEEP], SAYS_BYE)
        await start(world, agent)
        first = script.conversation
        await start(world, agent)
        second = script.conversation
        assert roles(second) == "suatatu"
        assert second[0].text == first[0].text
        assert second[1:4] == first[1:4]
        assert [call.name for call in second[4].tool_calls] == ["sleep"]
        assert "sleep_until" in second[5].text
        await start_once(world, agent)
        assert roles(script.conversation) == "suatatuatu"
        require_valid(script.conversation)


@pytest.mark.parametrize("carry_over", [CarryOver.NONE, CarryOver.JOURNAL])
async def test_transcript_is_carried_only_if_the_template_says_so(pool: Pool, carry_over: CarryOver) -> None:
    async with carrying(pool, carry_over) as (world, agent, script):
        script.say([SLEEP], [SLEEP])
        await start(world, agent)
        await start(world, agent)
        assert roles(script.conversation) == "su"
        assert await world.storage.transcripts.list_carried(agent.id, 1000) == []


async def test_turns_before_a_crash_are_carried(pool: Pool) -> None:
    async with carrying(pool) as (world, agent, script):
        script.say(LOOK, LOOK)
        await world.registry.ask(agent.id, RunRequest())
        await script.is_thinking.wait()
        stored = await world.storage.transcripts.list_carried(agent.id, 10_000)
        assert [len(turn.messages) for turn in stored] == [3, 2]


async def test_stopped_run_leaves_a_valid_transcript(pool: Pool) -> None:
    async with carrying(pool) as (world, agent, script):

        async def stop() -> None:
            await world.registry.ask(agent.id, StopRequest())

        world.toolset.rigged["look"] = stop
        script.say([("look", "{}"), ("look", "{}")])
        await start_once(world, agent)
        world.registry.allow_starts(True)
        script.say([SLEEP])
        await start(world, agent)
        require_valid(script.conversation)
        assert [m.text for m in script.conversation if m.role is ChatRole.TOOL] == [UNKNOWN_RESULT] * 2


async def test_long_transcript_is_summarized_by_the_agents_model(pool: Pool) -> None:
    async with carrying(pool, tokens=2000) as (world, agent, script):
        await has_many_turns(world, agent, script, 4)
        assert agent.template_id is not None
        options = {"max_output_tokens": 900, "response_format": {"type": "object"}}
        await world.storage.templates.update(agent.template_id, options, world.clock.now())
        answer = ModelResponse("{}", (ToolCall("call_1", *SLEEP),))
        script.say(ModelResponse("Ada likes tea.", (), 500, 20), answer)
        await start(world, agent)

        request, run_request = script.requests
        assert (request.options.max_output_tokens, request.options.response_format) == (0, None)
        assert run_request.options.max_output_tokens == 900
        assert (roles(request.messages), request.tools) == ("su", ())
        assert roles(run_request.messages).startswith("suat")
        assert "Ada likes tea." in run_request.messages[1].text
        require_valid(run_request.messages)
        carried = await world.storage.transcripts.list_carried(agent.id, 10_000)
        assert [turn.kind for turn in carried].count(TurnKind.SUMMARY) == 1
        assert sum(turn.tokens for turn in carried) < 2000
        kept = await world.pool.fetchval("SELECT count(*) FROM transcript_turn WHERE NOT carried")
        assert kept == 5 - (len(carried) - 2)
        assert len(await last_spans(world, agent, "llm")) == 2
        used = await world.pool.fetchrow("SELECT count(*), sum(input_tokens) FROM usage_record")
        assert tuple(used or ()) == (7, 500)
        assert (await world.ledger(agent))[-1].turns == 1


async def test_failed_summary_keeps_the_transcript_and_the_run(pool: Pool) -> None:
    async with carrying(pool, tokens=2000) as (world, agent, script):
        await has_many_turns(world, agent, script, 4)
        before = await world.storage.transcripts.list_carried(agent.id, 10_000)
        script.say(ModelResponse("", ()), [SLEEP])
        await start(world, agent)

        run = (await world.ledger(agent))[-1]
        assert run.outcome is Outcome.SLEPT
        carried = await world.storage.transcripts.list_carried(agent.id, 10_000)
        assert carried[:-1] == before
        told = script.requests[-1].messages
        assert roles(told).startswith("suat")
        assert "are left out here" in told[1].text
        require_valid(told)
        [span] = [one for one in await last_spans(world, agent, "other") if one.name == "compact_transcript"]
        assert span.error == "The transcript was not summarized: The model answered without a text."


async def test_no_summary_is_asked_for_beyond_the_budget(pool: Pool) -> None:
    async with carrying(pool, tokens=2000) as (world, agent, script):
        await has_many_turns(world, agent, script, 4)
        await world.change(agent, max_cost_usd_per_day=1)
        list_carried = world.storage.transcripts.list_carried

        async def spend_first(agent_id: UUID, max_tokens: int) -> list[TranscriptTurn]:
            await world.spend(agent, "1")
            return await list_carried(agent_id, max_tokens)

        world.storage.transcripts.list_carried = spend_first  # type: ignore[method-assign]
        await start_once(world, agent)
        assert (await world.ledger(agent))[-1].outcome is Outcome.BUDGET
        assert script.requests == []


async def test_deleted_transcript_does_not_come_back_by_a_summary(pool: Pool) -> None:
    async with carrying(pool, tokens=2000) as (world, agent, script):
        await has_many_turns(world, agent, script, 4)

        async def delete_at_summary() -> None:
            if len(script.requests) == 1:
                await world.storage.transcripts.delete_of_agent(agent.id)

        script.during_call = delete_at_summary
        script.say(ModelResponse("Ada likes tea.", ()), [SLEEP])
        await start(world, agent)
        assert roles(script.requests[-1].messages) == "su"
        [turn] = await world.storage.transcripts.list_carried(agent.id, 10_000)
        assert "tea" not in orjson.dumps(turn.messages).decode()


async def test_unavailable_database_loses_no_turn(pool: Pool) -> None:
    async with carrying(pool) as (world, agent, script):
        insert = world.storage.transcripts.insert
        failures = [DatabaseUnavailable("away")]

        async def fails_once(turn: Any) -> None:
            if failures:
                raise failures.pop()
            await insert(turn)

        world.storage.transcripts.insert = fails_once  # type: ignore[method-assign]
        script.say(LOOK, [SLEEP])
        await start(world, agent)
        [turn] = await world.storage.transcripts.list_carried(agent.id, 1000)
        assert [message["role"][0] for message in turn.messages] == list("uatat")
