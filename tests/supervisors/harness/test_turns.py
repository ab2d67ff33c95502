"""The turn loop: what the model is asked and shown, its tool calls, and how a run ends in the middle."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from storage.errors import DatabaseUnavailable, LeadershipLost
from storage.model import Agent, AgentStatus, Outcome, Priority, ReasoningEffort, Run, Span
from storage.notifications.inserts import NewNotification
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFields, StopReply, StopRequest
from supervisors.harness.inbox_updates import MAX_FETCHED
from supervisors.harness.tool_execution import MAX_RESULT_BYTES
from supervisors.llm.port import ChatRole, FinishReason, ModelResponse
from tests.storage.factories import new_notification
from tests.supervisors.scripted_model import Script, Turn
from tests.supervisors.world import World, open_world

SLEEP = ("sleep", "{}")


@asynccontextmanager
async def running(
    pool: Pool, *turns: Turn, agent: dict[str, Any] | None = None, **runs: Any
) -> AsyncIterator[tuple[World, Agent, Script]]:
    """A world in which an agent is about to run by this script."""
    script = Script(*turns)
    async with open_world(pool, model=script, runs=runs) as world:
        yield world, await world.agent(**(agent or {})), script


async def start(world: World, agent: Agent) -> None:
    """Let the agent run to the end of its script."""
    await world.ask(agent, OwnedFields(status=AgentStatus.RUNNING))


async def notify(world: World, agent: Agent, title: str, **fields: Any) -> NewNotification:
    """A notification arrives while the run goes on."""
    new = new_notification(agent.id, title=title, created_at=world.clock.now(), **fields)
    await world.storage.notifications.insert(new, {agent.organization_id})
    return new


async def only_run(world: World, agent: Agent) -> Run:
    [run] = await world.ledger(agent)
    return run


async def spans(world: World, agent: Agent, span_type: str) -> list[Span]:
    found = await world.storage.traces.spans((await only_run(world, agent)).id)
    return [span for span in found if span.span_type == span_type]


async def metadata(world: World, span: Span) -> dict[str, Any]:
    found: dict[str, Any] = await world.pool.fetchval(
        "SELECT metadata FROM span_metadata WHERE span_id = $1", span.id
    )
    return found


def answers(value: Any) -> Callable[[], Awaitable[Any]]:
    async def answer() -> Any:
        return value

    return answer


def fails(error: BaseException) -> Callable[[], Awaitable[Any]]:
    async def fail() -> Any:
        raise error

    return fail


async def test_tool_calls_of_a_turn_run_concurrently(pool: Pool) -> None:
    async with running(pool, [("first", ""), ("second", "")], []) as (world, agent, script):
        second_has_begun = asyncio.Event()

        async def first() -> str:
            await second_has_begun.wait()
            return "one"

        async def second() -> str:
            second_has_begun.set()
            return "two"

        world.toolbox.rigged = {"first": first, "second": second}
        await start(world, agent)

        assert script.outcomes() == [{"result": "one"}, {"result": "two"}]
        assert [message.tool_call_id for message in script.heard[-2:]] == ["call_0", "call_1"]


async def test_clear_calls_of_a_turn_share_a_commit(pool: Pool) -> None:
    script = Script()
    async with open_world(pool, model=script) as world:
        agent = await world.agent(debounce_window_seconds=60)
        texts = [await world.sms(agent) for _ in range(20)]
        clears = [("clear_notification", f'{{"notification_id": "{text.id}"}}') for text in texts]
        script.say(clears, [SLEEP])
        await world.go_to(60)

        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        commits = await pool.fetchval("SELECT count(DISTINCT xmin::text) FROM notification")
        assert commits == 1


async def test_crashed_tool_ends_neither_other_calls_nor_the_run(pool: Pool) -> None:
    turn = [("broken", '{"word": "tea"}'), ("whole", "")]
    async with running(pool, turn, [SLEEP]) as (world, agent, script):
        world.toolbox.rigged = {"broken": fails(ZeroDivisionError("oh")), "whole": answers(7)}
        with capture_logs() as logged:
            await start(world, agent)

        broken, whole = script.outcomes()
        assert broken["error"]["code"] == "internal"
        assert "oh" not in str(broken)
        assert whole == {"result": 7}
        assert [(line["event"], line["tool"]) for line in logged] == [("tool crashed", "broken")]
        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        errors = {span.name: span.error for span in await spans(world, agent, "tool")}
        assert errors["execute_tool broken"] == broken["error"]["message"]
        assert errors["execute_tool whole"] == ""


async def test_tool_without_database_lets_the_model_try_again(pool: Pool) -> None:
    async with running(pool, [("slow", "")], [SLEEP]) as (world, agent, script):
        world.toolbox.rigged = {"slow": fails(DatabaseUnavailable("no answer in time"))}
        await start(world, agent)

        assert script.outcomes()[0]["error"]["code"] == "unavailable"
        assert (await only_run(world, agent)).outcome is Outcome.SLEPT


async def test_lost_leadership_ends_the_run(pool: Pool) -> None:
    async with running(pool, [("one", ""), ("two", "")]) as (world, agent, _):
        world.toolbox.rigged = {"one": fails(LeadershipLost("gone")), "two": answers(2)}
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

        world.toolbox.rigged = {"slow": slow, "quick": answers("done")}
        await world.registry.ask(agent.id, OwnedFields(status=AgentStatus.RUNNING))
        await is_working.wait()

        assert await world.ask(agent, StopRequest()) is StopReply.STOPPED

        assert (await only_run(world, agent)).outcome is Outcome.STOPPED
        cut = {"execute_tool slow": "cut short: the run was ended", "execute_tool quick": ""}
        calls = await spans(world, agent, "tool")
        assert sorted(span.name for span in calls) == sorted(f"execute_tool {tool}" for tool in tools)
        assert {span.name: span.error for span in calls} == {span.name: cut[span.name] for span in calls}
        assert [span.error for span in await spans(world, agent, "agent")] == ["stopped"]


async def test_timed_out_run_has_a_complete_trace(pool: Pool) -> None:
    async with running(pool, max_seconds=0.2) as (world, agent, _):
        await world.registry.ask(agent.id, OwnedFields(status=AgentStatus.RUNNING))
        await world.registry.wait_for_end(agent.id, (await only_run(world, agent)).id, 3600)

        assert (await only_run(world, agent)).outcome is Outcome.TIMED_OUT
        [call] = await spans(world, agent, "llm")
        assert call.error == "cut short: the run was ended"
        assert call.ended_at is not None


async def test_long_result_is_cut_but_keeps_shape_and_ids(pool: Pool) -> None:
    async with running(pool, [("list_notifications", '{"limit": 100}')], []) as (world, agent, script):
        low = [await world.notify(agent, priority=Priority.LOW, body="é" * 20_000) for _ in range(10)]
        await start(world, agent)

        [outcome] = script.outcomes()
        assert [one["id"] for one in outcome["result"]] == [str(one.id) for one in low]
        assert outcome["result"][0]["body"].endswith("… (cut: 1000 of 20000 characters)")
        assert outcome["left_out"] == "It was too long: texts of more than 1000 characters were cut."
        [call] = await spans(world, agent, "tool")
        assert (await metadata(world, call))["gen_ai.tool.call.result"] == outcome["result"]


async def test_result_with_too_many_items_is_cut_to_its_beginning(pool: Pool) -> None:
    async with running(pool, [("count", "")], []) as (world, agent, script):
        world.toolbox.rigged = {"count": answers(list(range(100_000)))}
        await start(world, agent)

        [outcome] = script.outcomes()
        assert outcome["result"].startswith("[0,1,2,")
        assert len(outcome["result"]) == MAX_RESULT_BYTES
        assert outcome["left_out"].endswith(f"the beginning of its JSON, {MAX_RESULT_BYTES} of 588891 bytes.")


async def test_arrival_is_shown_once_at_the_next_turn_boundary(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [("wait", "")], []) as (world, agent, script):
        arrived: list[str] = []

        async def wait() -> None:
            if not arrived:
                arrived.append(str((await notify(world, agent, "A fire")).id))

        world.toolbox.rigged = {"wait": wait}
        await start(world, agent)

        shown = [message.text for message in script.heard if message.speaker is ChatRole.USER][1:]
        named = f'[{{"id":"{arrived[0]}","priority":"high","source":"api","title":"A fire"}}]'
        assert shown == [
            f"Since this run began, this came into your queue: {named}. list_notifications shows it in full."
        ]
        assert script.heard[3].text == shown[0], "it stands behind the tool's answer"


async def test_arrival_is_shown_despite_many_older_notifications(pool: Pool) -> None:
    async with running(pool, [("wait", "")], []) as (world, agent, script):

        async def wait() -> None:
            before = world.clock.now() - timedelta(minutes=1)
            for _ in range(MAX_FETCHED):
                old = new_notification(agent.id, created_at=before)
                await world.storage.notifications.insert(old, {agent.organization_id})
            await notify(world, agent, "A fire")

        world.toolbox.rigged = {"wait": wait}
        await start(world, agent)

        assert '"title":"A fire"' in script.heard[-1].text


async def test_more_arrivals_than_fetched_are_counted_as_at_least(pool: Pool) -> None:
    async with running(pool, [("wait", "")], []) as (world, agent, script):

        async def wait() -> None:
            for number in range(MAX_FETCHED + 1):
                await notify(world, agent, f"Fire {number}")

        world.toolbox.rigged = {"wait": wait}
        await start(world, agent)

        assert "] and at least 90 more. list_notifications" in script.heard[-1].text


async def test_notification_of_another_program_is_shown_after_its_signal(pool: Pool) -> None:
    async with running(pool, [("wait", "")], []) as (world, agent, script):

        async def wait() -> None:
            await world.pool.execute(
                "INSERT INTO notification "
                "(id, organization_id, agent_id, title, priority, created_at, activated_at) "
                "VALUES (gen_random_uuid(), $1, $2, 'By psql', 'high', $3, $3)",
                agent.organization_id,
                agent.id,
                world.clock.now(),
            )
            world._tell([agent.id])

        world.toolbox.rigged = {"wait": wait}
        await start(world, agent)

        assert "By psql" in script.heard[-1].text


async def test_notification_raised_to_high_during_the_run_is_shown(pool: Pool) -> None:
    async with running(pool, [("wait", "")], []) as (world, agent, script):
        low = await world.notify(agent, priority=Priority.LOW, title="Smoke")
        world.clock.advance(60)

        async def wait() -> None:
            raised = {"priority": Priority.HIGH}
            await world.storage.notifications.update(low.id, raised, world.clock.now())

        world.toolbox.rigged = {"wait": wait}
        await start(world, agent)

        assert "Smoke" in script.heard[-1].text


async def test_ten_of_many_arrivals_are_named(pool: Pool) -> None:
    async with running(pool, [("wait", "")], []) as (world, agent, script):

        async def wait() -> None:
            for number in range(12):
                await notify(world, agent, f"Fire {number}")

        world.toolbox.rigged = {"wait": wait}
        await start(world, agent)

        assert "Fire 9" in script.heard[-1].text
        assert "Fire 10" not in script.heard[-1].text
        assert "] and 2 more." in script.heard[-1].text


async def test_arrival_without_signal_is_shown_after_an_interval(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [("wait", "")], []) as (world, agent, script):

        async def wait() -> None:
            if len(script.requests) == 1:
                await notify(world, agent, "By the way", priority=Priority.LOW)
            else:
                assert "By the way" not in str(script.heard), "the queue is not read at every turn"
                world.clock.advance(30)

        world.toolbox.rigged = {"wait": wait}
        await start(world, agent)

        assert "By the way" in script.heard[-1].text


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (FinishReason.LENGTH, "The model's answer was cut off at its length limit"),
        (FinishReason.CONTENT_FILTER, "The provider's content filter withheld the model's answer."),
    ],
)
async def test_cut_off_answer_fails_the_run_and_is_billed(
    pool: Pool, reason: FinishReason, error: str
) -> None:
    cut = ModelResponse("Let me thi", (), input_tokens=7, output_tokens=3, finish_reason=reason)
    async with running(pool, cut) as (world, agent, _):
        await start(world, agent)

        run = await only_run(world, agent)
        assert run.outcome is Outcome.FAILED
        assert run.error.startswith(error)
        assert await pool.fetchval("SELECT sum(input_tokens) FROM usage_record") == 7
        [call] = await spans(world, agent, "llm")
        shown = await metadata(world, call)
        assert shown["gen_ai.response.finish_reasons"] == [str(reason)]
        assert (shown["gen_ai.provider.name"], shown["gen_ai.request.model"]) == ("builtin", "inbox")


async def test_agent_without_prompt_gets_no_system_message(pool: Pool) -> None:
    async with running(pool, []) as (world, agent, script):
        await start(world, agent)

        assert [message.speaker for message in script.heard] == [ChatRole.USER]


@pytest.mark.parametrize(
    ("of_agent", "of_template", "sent"),
    [
        ("", ReasoningEffort.HIGH, "high"),
        ("low", ReasoningEffort.HIGH, "low"),
        ("none", ReasoningEffort.HIGH, ""),
        ("", ReasoningEffort.NONE, ""),
    ],
)
async def test_reasoning_effort_of_agent_overrides_template(
    pool: Pool, of_agent: str, of_template: ReasoningEffort, sent: str
) -> None:
    script = Script([])
    async with open_world(pool, model=script) as world:
        shared = await world.template(default_reasoning_effort=of_template, thinking_max_tokens=2000)
        agent = await world.agent(template_id=shared.id, reasoning_effort=of_agent)
        await start(world, agent)

        [request] = script.requests
        assert (request.reasoning_effort, request.thinking_max_tokens) == (sent, 2000)
