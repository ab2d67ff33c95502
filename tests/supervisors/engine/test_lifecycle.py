"""The lifecycle of agents and runs in the log: one line for each event, with who and why."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs

from storage.model import Agent, AgentStatus, Outcome
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest, StopReply, StopRequest
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from supervisors.text import format_timestamp
from tests.supervisors.world import World

Lines = list[dict[str, Any]]
CALLER = "user:0"


@pytest.fixture
def logged() -> Iterator[Lines]:
    with capture_logs() as captured:
        yield captured  # type: ignore[misc] # a list of mappings


def of_agent(agent: Agent, **fields: Any) -> dict[str, Any]:
    """Return the fields that lines about the agent have, and others."""
    return {
        "agent": str(agent.id),
        "name": agent.name,
        "organization": str(agent.organization_id),
        **fields,
    }


def take(logged: Lines) -> Lines:
    """Return the lines since the last call, without their level."""
    lines = [{key: value for key, value in line.items() if key != "log_level"} for line in logged]
    logged.clear()
    return lines


async def test_run_logs_one_line_at_start_and_end(world: World, logged: Lines) -> None:
    agent = await world.agent()
    logged.clear()
    await world.notify(agent)
    run = world.puppets[agent.id]
    shared = of_agent(agent, run=str(run.run.id), wake_reason="notification:api")
    assert take(logged) == [{"event": "run started", **shared}]

    run.run.turns = 3
    world.registry.add_cost(agent.id, run.run.id, Decimal("0.25"))
    await world.advance(2)
    await run.end(Outcome.TURN_LIMIT)
    shared |= {"outcome": "turn_limit", "turns": 3, "cost_usd": 0.25, "duration_seconds": 2.0, "error": ""}
    assert take(logged) == [{"event": "run ended", **shared}]


async def test_error_is_one_bounded_line(world: World, logged: Lines) -> None:
    run = await world.start(await world.agent())
    await run.fail("The model said:\n" + "no " * 500)
    [line] = [line for line in logged if line["event"] == "run ended"]
    assert (line["outcome"], line["error"][:18]) == ("failed", "The model said: no")
    assert len(line["error"]) == 201


async def test_lost_run_has_an_end_after_the_restart(world: World, logged: Lines) -> None:
    agent = await world.agent()
    await world.start(agent)
    await world.die()
    world.clock.advance(60)
    logged.clear()
    await world.begin()
    recovered, ended, *_ = take(logged)
    assert (recovered["event"], recovered["interrupted_runs"]) == ("recovered", 1)
    assert (ended["event"], ended["outcome"], ended["cost_usd"]) == ("run ended", "interrupted", None)
    assert (ended["wake_reason"], ended["duration_seconds"]) == ("run_requested", 60.0)


async def test_quarantine_is_told_once_with_its_cause_and_its_end(world: World, logged: Lines) -> None:
    agent = await world.agent()
    await world.start(agent)
    for _ in range(QUARANTINE_AFTER_FAILURES + 1):
        await world.puppets[agent.id].fail("no model")
        await world.ask(agent, RunRequest())
    [line] = [line for line in logged if line["event"] == "agent quarantined"]
    assert (line["log_level"], line["failures"], line["last_error"]) == ("warning", 5, "no model")
    assert line["until"] == format_timestamp(world.clock.now() + timedelta(minutes=15))
    await world.puppets[agent.id].sleeps()
    assert [line["event"] for line in logged[-2:]] == ["quarantine ended", "run ended"]


async def test_stop_ends_quarantine_and_next_one_is_told(world: World, logged: Lines) -> None:
    agent = await world.agent()
    for _ in range(2):
        await world.start(agent)
        for _ in range(QUARANTINE_AFTER_FAILURES - 1):
            await world.puppets[agent.id].fail("no model")
            await world.ask(agent, RunRequest())
        await world.puppets[agent.id].fail("no model")
        await world.ask(agent, StopRequest(reason="repair", caller=CALLER))
    told = [line["event"] for line in logged if line["event"].startswith(("agent", "quarantine"))]
    assert told == ["agent quarantined", "agent stopped", "quarantine ended"] * 2


async def test_stop_names_caller_and_reason_once(world: World, logged: Lines) -> None:
    agent = await world.agent()
    world.puppets_are_stubborn = True
    run = await world.start(agent)
    logged.clear()
    request = StopRequest(reason="too\nloud", caller=CALLER)
    for _ in range(3):
        assert await world.ask(agent, request, answered_within=1) is StopReply.STOPPING
    stopped = of_agent(agent, run=str(run.run.id), caller=CALLER, reason="too loud")
    assert take(logged) == [{"event": "agent stopped", **stopped}]


async def test_archive_and_restore_name_the_caller(world: World, logged: Lines) -> None:
    agent = await world.agent()
    logged.clear()
    for status in (AgentStatus.ARCHIVED, AgentStatus.SLEEPING):
        await world.ask(agent, OwnedFieldsRequest(status=status, caller=CALLER))
    shared = of_agent(agent, caller=CALLER)
    assert take(logged) == [{"event": "agent archived", **shared}, {"event": "agent restored", **shared}]


async def test_sleeping_agents_log_nothing(world: World, logged: Lines) -> None:
    agent = await world.agent()
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(3600)))
    await world.notify(agent, priority="low")
    await world.advance(600)
    assert logged == []
