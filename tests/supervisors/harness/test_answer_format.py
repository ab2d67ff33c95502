"""Final answers as JSON: they fit the template's schema, after one repair at most."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from supervisors.llm.port import ChatRole, ModelResponse, ToolCall
from tests.supervisors.harness.scripted_runs import SLEEP, only_run, start_once
from tests.supervisors.scripted_model import Script, Turn
from tests.supervisors.world import World, open_world

SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
GOOD, BAD = '{"score": 7}', '{"score": "seven"}'


def says(text: str) -> ModelResponse:
    return ModelResponse(text, ())


@asynccontextmanager
async def judging(pool: Pool, *turns: Turn, **fields: Any) -> AsyncIterator[tuple[World, Agent, Script]]:
    """Open a world with an agent whose final answers are scores."""
    script = Script(*turns)
    async with open_world(pool, model=script) as world:
        shared = await world.template(response_format=SCHEMA, **fields)
        yield world, await world.agent(template_id=shared.id), script


@pytest.mark.parametrize("answer", [GOOD, f" {GOOD}\n", f"```json\n{GOOD}\n```"])
async def test_answer_that_fits_is_the_output(pool: Pool, answer: str) -> None:
    async with judging(pool, says(answer)) as (world, agent, script):
        await start_once(world, agent)
        run = await only_run(world, agent)

    assert (run.outcome, run.output) == (Outcome.ENDED, GOOD)
    [request] = script.requests
    assert request.options.response_format == SCHEMA
    assert 'fits this JSON Schema, and nothing else: {"type":"object"' in request.messages[0].text


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (BAD, '$.score: "seven" is not of type "integer"'),
        ("Seven.", "it is not JSON"),
        ("", "it is empty"),
        (f'{{"score": 7, "why": "{"x" * 20_000}"}}', "it has more than 20000 characters"),
    ],
    ids=["misfit", "text", "nothing", "long"],
)
async def test_model_repairs_its_answer_once(pool: Pool, answer: str, problem: str) -> None:
    async with judging(pool, says(answer), says(GOOD)) as (world, agent, script):
        await start_once(world, agent)
        run = await only_run(world, agent)

    assert (run.outcome, run.output, run.turns) == (Outcome.ENDED, GOOD, 2)
    last = script.conversation[-1]
    assert (last.role, problem in last.text) == (ChatRole.USER, True)


async def test_run_fails_if_the_repaired_answer_does_not_fit(pool: Pool) -> None:
    async with judging(pool, says(BAD), says("Sorry.")) as (world, agent, _):
        await start_once(world, agent)
        run = await only_run(world, agent)

    assert (run.outcome, run.output) == (Outcome.FAILED, "")
    assert run.error.startswith(
        "The final answer does not fit the template's response_format: it is not JSON"
    )


async def test_answer_in_the_last_turn_is_not_repaired(pool: Pool) -> None:
    async with judging(pool, says(BAD), max_turns=1) as (world, agent, _):
        await start_once(world, agent)
        run = await only_run(world, agent)

    assert (run.outcome, run.turns) == (Outcome.FAILED, 1)


async def test_sleep_without_an_answer_is_refused_once(pool: Pool) -> None:
    async with judging(pool, [SLEEP], says(GOOD)) as (world, agent, script):
        await start_once(world, agent)
        run = await only_run(world, agent)

    assert (run.outcome, run.output) == (Outcome.ENDED, GOOD)
    [outcome] = script.outcomes()
    assert (outcome["error"]["code"], outcome["error"]["calls"]) == ("other_call_failed", ["final answer"])
    assert "it is empty" in script.conversation[-1].text


async def test_answer_beside_sleep_that_fits_ends_the_run(pool: Pool) -> None:
    answer = ModelResponse(GOOD, (ToolCall("call_1", *SLEEP),))
    async with judging(pool, answer) as (world, agent, _):
        await start_once(world, agent)
        run = await only_run(world, agent)

    assert (run.outcome, run.output) == (Outcome.SLEPT, GOOD)
