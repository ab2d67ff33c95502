"""Tool execution: concurrent calls, failed tools, long results."""

import asyncio

import orjson
import pytest
from structlog.testing import capture_logs

from storage.errors import DatabaseUnavailable, NodeEnded
from storage.model import AgentStatus, Outcome, Priority
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, StopReply, StopRequest
from supervisors.harness.conversation import MAX_CONVERSATION_CHARACTERS, MAX_RESULT_BYTES
from supervisors.llm.port import ModelResponse
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import PartialResult
from tests.supervisors.harness.scripted_runs import (
    SLEEP,
    answers,
    fails,
    metadata,
    only_run,
    running,
    spans,
    start,
)
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import open_world

BROKEN = ("broken", "")


async def test_tool_calls_of_a_turn_run_concurrently(pool: Pool) -> None:
    async with running(pool, [("first", ""), ("second", "")], []) as (world, agent, script):
        second_has_started = asyncio.Event()

        async def first() -> str:
            await second_has_started.wait()
            return "one"

        async def second() -> str:
            second_has_started.set()
            return "two"

        world.toolset.rigged = {"first": first, "second": second}
        await start(world, agent)

        assert script.outcomes() == [{"result": "one"}, {"result": "two"}]
        assert [message.tool_call_id for message in script.conversation[-2:]] == ["call_0", "call_1"]


async def test_memory_calls_of_a_turn_keep_their_order(pool: Pool) -> None:
    script = Script()
    async with open_world(pool, model=script) as world:
        agent = await world.agent()
        commands = [{"command": "create", "path": "/memories/f", "file_text": "0"}] + [
            {
                "command": "str_replace",
                "path": "/memories/f",
                "old_str": f"{number}",
                "new_str": f"{number + 1}",
            }
            for number in range(5)
        ]
        script.say([("memory", orjson.dumps(command).decode()) for command in commands], [SLEEP])
        await start(world, agent)

        memory = await world.storage.memories.get(agent.id, "/memories/f")
        assert memory is not None
        assert (memory.content, memory.version) == ("5", 6)


async def test_clear_calls_of_a_turn_share_a_commit(pool: Pool) -> None:
    script = Script()
    async with open_world(pool, model=script) as world:
        agent = await world.agent(debounce_window_seconds=60)
        texts = [await world.sms(agent) for _ in range(20)]
        clears = [("clear_notification", f'{{"notification_id": "{text.id}"}}') for text in texts]
        script.say(clears, [SLEEP])
        await world.go_to(61)  # each became active a microsecond after the one before

        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        commits = await pool.fetchval("SELECT count(DISTINCT xmin::text) FROM notification")
        assert commits == 1


async def test_crashed_tool_ends_neither_other_calls_nor_the_run(pool: Pool) -> None:
    turn = [("broken", '{"word": "tea"}'), ("sound", "")]
    async with running(pool, turn, [SLEEP]) as (world, agent, script):
        world.toolset.rigged = {"broken": fails(ZeroDivisionError("oh")), "sound": answers(7)}
        with capture_logs() as logged:
            await start(world, agent)

        broken, sound = script.outcomes()
        assert broken["error"]["code"] == "internal"
        assert "oh" not in str(broken)
        assert sound == {"result": 7}
        assert [line["tool"] for line in logged if line["event"] == "tool crashed"] == ["broken"]
        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        errors = {span.name: span.error for span in await spans(world, agent, "tool")}
        assert errors["execute_tool broken"] == broken["error"]["message"]
        assert errors["execute_tool sound"] == ""


FAILED = {
    "code": "other_call_failed",
    "message": "You do not sleep yet, because other calls of this turn failed: broken. Read their errors, do "
    "what is still to be done, then call sleep again.",
    "calls": ["broken"],
}


@pytest.mark.parametrize("turn", [[BROKEN, SLEEP], [SLEEP, BROKEN]], ids=["before sleep", "after sleep"])
async def test_failed_call_refuses_the_sleep_of_its_turn(pool: Pool, turn: list[tuple[str, str]]) -> None:
    async with running(pool, turn, [SLEEP]) as (world, agent, script):
        world.toolset.rigged = {"broken": fails(ToolError("tool_failed", "The tool answered 500."))}
        await start(world, agent)

        broken, asleep = script.outcomes()
        assert broken["error"]["message"] == "The tool answered 500."
        assert asleep == {"error": FAILED}
        run = await only_run(world, agent)
        assert (run.outcome, run.turns) == (Outcome.SLEPT, 2)
        assert "refused: broken failed" in [entry.outcome for entry in (await world.see(agent)).recent]


async def test_call_that_always_fails_refuses_sleep_twice(pool: Pool) -> None:
    async with running(pool, *[[BROKEN, SLEEP]] * 3) as (world, agent, _):
        world.toolset.rigged = {"broken": fails(ToolError("tool_failed", "The tool answered 500."))}
        await start(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.turns) == (Outcome.SLEPT, 3)


async def test_last_turn_sleeps_although_a_call_failed(pool: Pool) -> None:
    async with running(pool, [BROKEN, ("sleep", '{"hours": 2}')], agent={"max_turns": 1}) as (
        world,
        agent,
        _,
    ):
        world.toolset.rigged = {"broken": fails(ToolError("tool_failed", "The tool answered 500."))}
        await start(world, agent)

        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        assert (await world.agent_now(agent.id)).sleep_until == world.at(7200)


async def test_run_that_ends_after_a_refused_sleep_keeps_its_time(pool: Pool) -> None:
    text = ModelResponse("The gateway is down.", ())
    async with running(pool, [BROKEN, ("sleep", '{"hours": 2}')], text, [SLEEP]) as (world, agent, _):
        world.toolset.rigged = {"broken": fails(ToolError("tool_failed", "The tool answered 500."))}
        await start(world, agent)

        assert (await only_run(world, agent)).outcome is Outcome.ENDED
        assert (await world.agent_now(agent.id)).sleep_until == world.at(7200)


async def test_tool_without_database_lets_the_model_try_again(pool: Pool) -> None:
    async with running(pool, [("slow", "")], [SLEEP]) as (world, agent, script):
        world.toolset.rigged = {"slow": fails(DatabaseUnavailable("no answer in time"))}
        await start(world, agent)

        assert script.outcomes()[0]["error"]["code"] == "unavailable"
        assert (await only_run(world, agent)).outcome is Outcome.SLEPT


async def test_ended_node_ends_the_run(pool: Pool) -> None:
    async with running(pool, [("one", ""), ("two", "")]) as (world, agent, _):
        world.toolset.rigged = {"one": fails(NodeEnded("gone")), "two": answers(2)}
        with capture_logs():
            await start(world, agent)

        assert (await only_run(world, agent)).outcome is Outcome.FAILED
        assert {span.error for span in await spans(world, agent, "tool")} == {"gone", ""}


@pytest.mark.parametrize("tools", [["slow"], ["slow", "slow", "quick"]], ids=["one", "several"])
async def test_stop_cancels_tool_calls_and_keeps_their_spans(pool: Pool, tools: list[str]) -> None:
    async with running(pool, [(tool, "") for tool in tools], stop_grace_seconds=3600) as (world, agent, _):
        is_working = asyncio.Event()

        async def slow() -> None:
            is_working.set()
            await asyncio.Event().wait()

        world.toolset.rigged = {"slow": slow, "quick": answers("done")}
        await world.registry.ask(agent.id, OwnedFieldsRequest(status=AgentStatus.RUNNING))
        await is_working.wait()

        assert await world.ask(agent, StopRequest()) is StopReply.STOPPED

        assert (await only_run(world, agent)).outcome is Outcome.STOPPED
        expected = {"execute_tool slow": "cut short: the run was ended", "execute_tool quick": ""}
        calls = await spans(world, agent, "tool")
        assert sorted(span.name for span in calls) == sorted(f"execute_tool {tool}" for tool in tools)
        assert {span.name: span.error for span in calls} == {span.name: expected[span.name] for span in calls}
        assert [span.error for span in await spans(world, agent, "agent")] == ["stopped"]


async def test_long_result_is_cut_but_keeps_shape_and_ids(pool: Pool) -> None:
    async with running(pool, [("list_notifications", '{"limit": 100}')], []) as (world, agent, script):
        low = [await world.notify(agent, priority=Priority.LOW, body="é" * 20_000) for _ in range(10)]
        await start(world, agent)

        [outcome] = script.outcomes()
        assert [item["id"] for item in outcome["result"]] == [str(notification.id) for notification in low]
        assert outcome["result"][0]["body"].endswith("… (cut: 1000 of 20000 characters)")
        assert outcome["left_out"] == "It was too long: texts of more than 1000 characters were cut."
        [call] = await spans(world, agent, "tool")
        assert (await metadata(world, call))["gen_ai.tool.call.result"] == outcome["result"]


async def test_model_learns_what_a_partial_result_lacks(pool: Pool) -> None:
    async with running(pool, [("count", ""), ("recount", "")], []) as (world, agent, script):
        long = "x" * (MAX_RESULT_BYTES + 1)
        world.toolset.rigged = {
            "count": answers(PartialResult([1, 2], "There are more.")),
            "recount": answers(PartialResult([long], "There are more.")),
        }
        await start(world, agent)

        short_outcome, long_outcome = script.outcomes()
        assert short_outcome == {"result": [1, 2], "left_out": "There are more."}
        assert long_outcome["left_out"].endswith("characters were cut. There are more.")


async def test_full_conversation_takes_no_further_results(pool: Pool) -> None:
    calls = MAX_CONVERSATION_CHARACTERS // MAX_RESULT_BYTES + 2
    async with running(pool, [("count", "")] * calls, []) as (world, agent, script):
        world.toolset.rigged = {"count": answers("x" * (MAX_RESULT_BYTES - 10))}
        await start(world, agent)

        answers_given = script.tool_answers()
        assert sum(map(len, answers_given)) < MAX_CONVERSATION_CHARACTERS + 1000
        assert len(answers_given) == calls
        assert script.outcomes()[-1]["error"]["code"] == "conversation_full"


async def test_other_tool_calls_of_a_turn_precede_sleep(pool: Pool) -> None:
    script = Script([("sleep", '{"hours": 1}'), ("create_notification", '{"title": "Buy milk"}')])
    async with open_world(pool, model=script) as world:
        agent = await world.agent()
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.RUNNING))

        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        assert await world.pool.fetchval("SELECT title FROM notification") == "Buy milk"


async def test_model_sees_the_error_of_a_tool(pool: Pool) -> None:
    script = Script([("sleep", "{"), ("sleep", "[]"), ("launch", ""), ("sleep", '{"hours": -1}')], [])
    async with open_world(pool, model=script) as world:
        agent = await world.agent()
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.RUNNING))

        codes = [text.split('"code":"')[1].split('"')[0] for text in script.tool_answers()]
        assert codes == ["unknown_tool", "invalid", "invalid", "invalid"]
        assert (await only_run(world, agent)).outcome is Outcome.ENDED
        assert all(span.error for span in await spans(world, agent, "tool"))
