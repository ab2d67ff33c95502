"""The whole built-in harness: a run of builtin/inbox, as its trace tells it."""

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from storage.model import Agent, AgentStatus, Outcome, Priority, Run, Span
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFields, RunRequest, StopReply, StopRequest
from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import ChatRole
from supervisors.policy.phases import Phase
from tests.supervisors.scripted_model import Script
from tests.supervisors.world import World, open_world


@pytest.fixture
async def world(pool: Pool) -> AsyncIterator[World]:
    async with open_world(pool, model=InboxModel()) as world:
        yield world


async def only_run(world: World, agent: Agent) -> Run:
    [run] = await world.ledger(agent)
    return run


async def spans_of(world: World, agent: Agent) -> list[Span]:
    return await world.storage.traces.spans((await only_run(world, agent)).id)


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


async def test_a_tools_span_holds_what_was_asked_and_answered(world: World) -> None:
    agent = await world.agent()
    await world.notify(agent)

    [sleep] = [span for span in await spans_of(world, agent) if span.name == "execute_tool sleep"]
    metadata = await world.pool.fetchval("SELECT metadata FROM span_metadata WHERE span_id = $1", sleep.id)

    assert metadata["gen_ai.operation.name"] == "execute_tool"
    assert metadata["gen_ai.tool.call.arguments"] == "{}"
    assert metadata["gen_ai.tool.call.result"] == {"sleep_until": None, "clamped": False}


async def test_more_notifications_than_a_page_are_cleared_page_by_page(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    for _ in range(101):
        await world.sms(agent)
    await world.go_to(60)

    run = await only_run(world, agent)
    assert (run.outcome, run.turns) == (Outcome.SLEPT, 5)
    assert (await world.see(agent)).blockers == ()


@pytest.mark.parametrize(
    ("of_agent", "of_template", "outcome", "turns"),
    [
        (2, 0, Outcome.TURN_LIMIT, 2),
        (0, 1, Outcome.TURN_LIMIT, 1),
        (-1, 1, Outcome.SLEPT, 3),
        (0, 0, Outcome.SLEPT, 3),
    ],
)
async def test_a_run_ends_at_its_limit_of_turns(
    world: World, of_agent: int, of_template: int, outcome: Outcome, turns: int
) -> None:
    shared = await world.template(max_turns=of_template)
    agent = await world.agent(template_id=shared.id, max_turns=of_agent)
    await world.notify(agent)

    run = await only_run(world, agent)
    assert (run.outcome, run.turns) == (outcome, turns)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("nobody/nothing", 'There is no model provider "nobody"; the service knows: builtin.'),
        ("builtin/outbox", "There is no model builtin/outbox; builtin/inbox is the only one."),
        ("outbox", "There is no model builtin/outbox; builtin/inbox is the only one."),
    ],
)
async def test_a_model_that_does_not_exist_fails_the_run(world: World, model: str, error: str) -> None:
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


async def test_a_model_without_a_prefix_is_of_the_default_provider(world: World) -> None:
    agent = await world.agent(model="inbox")
    await world.notify(agent)

    assert (await only_run(world, agent)).outcome is Outcome.SLEPT


async def test_what_else_is_called_in_the_turn_of_a_sleep_comes_first(pool: Pool) -> None:
    script = Script([("sleep", '{"hours": 1}'), ("create_notification", '{"title": "Buy milk"}')])
    async with open_world(pool, model=script) as world:
        agent = await world.agent()
        await world.ask(agent, OwnedFields(status=AgentStatus.RUNNING))

        assert (await only_run(world, agent)).outcome is Outcome.SLEPT
        assert await world.pool.fetchval("SELECT title FROM notification") == "Buy milk"


async def test_a_model_that_calls_no_tool_ends_the_run(pool: Pool) -> None:
    async with open_world(pool, model=Script([])) as world:
        agent = await world.agent()
        await world.ask(agent, OwnedFields(status=AgentStatus.RUNNING))

        run = await only_run(world, agent)
        assert (run.outcome, run.turns) == (Outcome.ENDED, 1)


async def test_a_model_sees_what_a_tool_refused(pool: Pool) -> None:
    script = Script([("sleep", "{"), ("sleep", "[]"), ("launch", ""), ("sleep", '{"hours": -1}')], [])
    async with open_world(pool, model=script) as world:
        agent = await world.agent()
        await world.ask(agent, OwnedFields(status=AgentStatus.RUNNING))

        codes = [text.split('"code":"')[1].split('"')[0] for text in script.told()]
        assert codes == ["unknown_tool", "invalid", "invalid", "invalid"]
        assert (await only_run(world, agent)).outcome is Outcome.ENDED
        refused = [span for span in await spans_of(world, agent) if span.span_type == "tool"]
        assert all(span.error for span in refused)


async def test_an_agent_is_told_why_it_woke_and_how_long_it_may_sleep(pool: Pool) -> None:
    script = Script([])
    async with open_world(pool, model=script) as world:
        shared = await world.template(system_prompt="Be kind.")
        agent = await world.agent(template_id=shared.id, timezone="Europe/Berlin", max_sleep_hours=8)
        await world.notify(agent)

        system, user = script.heard
        assert (system.speaker, system.text) == (ChatRole.SYSTEM, "Be kind.")
        assert user.speaker is ChatRole.USER
        assert user.text == (
            "You were woken: notification:api. It is Thursday, 2126-11-21 10:00:00 CET. "
            "High-priority notifications that are uncleared: 1. You may sleep until 2126-11-21 18:00 CET."
        )


async def test_a_stop_cuts_a_model_call_short(pool: Pool) -> None:
    script = Script()
    async with open_world(pool, runs={"stop_grace_seconds": 3600}, model=script) as world:
        agent = await world.agent()
        await world.registry.ask(agent.id, OwnedFields(status=AgentStatus.RUNNING))
        await script.is_thinking.wait()

        assert await world.ask(agent, StopRequest()) is StopReply.STOPPED

        assert (await only_run(world, agent)).outcome is Outcome.STOPPED
        assert {(span.span_type, span.error) for span in await spans_of(world, agent)} == {
            ("agent", "stopped"),
            ("llm", "stopped"),
        }


async def test_a_run_that_finds_its_agent_deleted_is_over_and_no_defect(pool: Pool) -> None:
    script = Script([("sleep", "{}")])
    async with open_world(pool, model=script) as world:
        agent = await world.agent()
        # As the sleep is asked for, nobody has told the supervisor yet.
        script.meanwhile = lambda: world.storage.agents.delete(agent.id, world.clock.now())
        with capture_logs() as logged:
            await world.ask(agent, RunRequest())

        assert logged == []
        overview = world.registry.status.overview()
        assert (overview.runs.running, overview.supervisors.active) == (0, 0)
