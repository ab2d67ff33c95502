"""The built-in harness: whole runs of builtin/inbox and of scripts, and their traces."""

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from storage.history.trace_model import Span
from storage.model import Agent, AgentStatus, Outcome, Priority
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest
from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import FinishReason, ModelResponse
from supervisors.policy.phases import Phase
from tests.storage.factories import stored_spans
from tests.supervisors.harness.scripted_runs import metadata, only_run, running, spans, start, start_once
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import World, open_world


@pytest.fixture
async def world(pool: Pool) -> AsyncIterator[World]:
    async with open_world(pool, model=InboxModel()) as world:
        yield world


async def spans_of(world: World, agent: Agent) -> list[Span]:
    return await stored_spans(world.pool, (await only_run(world, agent)).id)


async def test_a_run_lists_clears_and_sleeps(world: World) -> None:
    agent = await world.agent(max_sleep_hours=8)
    low = await world.notify(agent, priority=Priority.LOW)
    high = await world.notify(agent)

    run = await only_run(world, agent)
    assert (run.outcome, run.turns, run.error) == (Outcome.SLEPT, 3, "")
    assert run.notifications == (high.id,)
    for notification in (low, high):
        stored = await world.storage.notifications.get(notification.id)
        assert stored is not None
        assert stored.cleared
    assert (await world.agent_now(agent.id)).sleep_until == world.at(8 * 3600)
    assert await world.phase(agent) is Phase.ASLEEP


async def test_a_run_leaves_a_tree_of_spans(world: World) -> None:
    agent = await world.agent(name="Ada")
    await world.notify(agent)

    root, *steps = sorted(await spans_of(world, agent), key=lambda span: span.parent_id is not None)
    assert (root.name, root.span_type, root.parent_id) == ("invoke_agent Ada", "agent", None)
    assert {span.parent_id for span in steps} == {root.id}
    assert sorted((span.span_type, span.name) for span in steps) == [
        ("llm", "chat inbox"),
        ("llm", "chat inbox"),
        ("llm", "chat inbox"),
        ("tool", "execute_tool clear_notification"),
        ("tool", "execute_tool list_notifications"),
        ("tool", "execute_tool sleep"),
    ]
    assert all(span.ended_at is not None and span.error == "" for span in [root, *steps])
    trace = await world.storage.traces.get(root.trace_id)
    assert trace is not None
    assert (trace.name, trace.ended_at, trace.error) == ("invoke_agent Ada", world.at(0), "")


async def test_run_ends_at_its_turn_limit(world: World) -> None:
    agent = await world.agent(max_turns=2)
    await world.notify(agent)

    run = await only_run(world, agent)
    assert (run.outcome, run.turns) == (Outcome.TURN_LIMIT, 2)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("nobody/nothing", 'There is no model provider "nobody"; the service knows: builtin.'),
        ("builtin/outbox", "There is no model builtin/outbox; builtin/inbox is the only one."),
        ("outbox", "There is no model builtin/outbox; builtin/inbox is the only one."),
    ],
)
async def test_unknown_model_fails_the_run(world: World, model: str, error: str) -> None:
    agent = await world.agent(model=model)
    await world.notify(agent)

    run, seen = await only_run(world, agent), await world.see(agent)
    assert (run.outcome, run.error) == (Outcome.FAILED, error)
    assert (seen.failures.consecutive, seen.failures.last_error) == (1, error)
    [root] = [span for span in await spans_of(world, agent) if span.parent_id is None]
    assert root.error == error
    trace = await world.storage.traces.get(run.id)
    assert trace is not None
    assert trace.error == error


async def test_run_of_a_deleted_agent_ends_without_an_error_log(pool: Pool) -> None:
    script = Script([("sleep", "{}")])
    async with open_world(pool, model=script) as world:
        agent = await world.agent()
        # When the run asks for sleep, the supervisor does not know of the deletion yet.
        script.during_call = lambda: world.storage.agents.delete(agent.id, world.clock.now())
        with capture_logs() as logged:
            await world.ask(agent, RunRequest())

        assert {line["log_level"] for line in logged} == {"info"}
        numbers = world.registry.status.numbers()
        assert (numbers.runs.running, numbers.supervisors.active) == (0, 0)


async def test_timed_out_run_has_a_complete_trace(pool: Pool) -> None:
    async with running(pool, max_seconds=0.2) as (world, agent, _):
        await world.registry.ask(agent.id, OwnedFieldsRequest(status=AgentStatus.RUNNING))
        await world.registry.wait_for_end(agent.id, (await only_run(world, agent)).id, 3600)

        assert (await only_run(world, agent)).outcome is Outcome.TIMED_OUT
        [call] = await spans(world, agent, "llm")
        assert call.error == "cut short: the run was ended"
        assert call.ended_at is not None


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
        recorded = await metadata(world, call)
        assert recorded["gen_ai.response.finish_reasons"] == [str(reason)]
        assert (recorded["gen_ai.provider.name"], recorded["gen_ai.request.model"]) == ("builtin", "inbox")


async def test_run_whose_calls_all_fail_is_ended(pool: Pool) -> None:
    failing = [("read_document", "{}")]
    turns = [failing] * 9 + [[("get_time", "{}")]] + [failing] * 10
    async with running(pool, *turns) as (world, agent, _):
        await start_once(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.turns) == (Outcome.FAILED, 20)
        assert run.error == "No call of a tool succeeded in the last 10 turns."
