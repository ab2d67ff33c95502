"""The event log of agents: each change of phase, and what `why` says, written by the update that makes it."""

from decimal import Decimal
from typing import Any

import pytest

from storage.model import Agent, AgentStatus, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest, Signal, StopRequest
from supervisors.policy.explanations import WHY_ASLEEP
from supervisors.policy.phases import Phase
from tests.supervisors.engine.situations import (
    SITUATIONS,
    Situation,
    holding,
    paused,
    start_ten_minutes_before_midnight,
)
from tests.supervisors.world import World, open_world

EVENTS = "SELECT * FROM event WHERE agent_id = $1 AND type = ANY($2) ORDER BY id"
STATE_TYPES = [
    *(f"agent.{phase}" for phase in Phase),
    "agent.over_budget",
    "agent.stopped",
    "agent.restored",
    "agent.unpaused",
    "agent.rescheduled",
    "run.started",
    "run.ended",
]


async def list_events(world: World, agent: Agent) -> list[dict[str, Any]]:
    return [dict(row) for row in await world.pool.fetch(EVENTS, agent.id, STATE_TYPES)]


async def list_types(world: World, agent: Agent) -> list[str]:
    return [event["type"] for event in await list_events(world, agent)]


async def list_changes(world: World, agent: Agent) -> list[tuple[str, str, str]]:
    """Return the type, the phase before and the phase after of each event that has a phase."""
    events = await list_events(world, agent)
    return [(event["type"], event["data"]["from"], event["phase"]) for event in events if event["phase"]]


async def require_record_equals_why(world: World, agent: Agent) -> None:
    """Compare the last event of the agent with what the status says of it."""
    seen = await world.see(agent)
    last = next((event for event in reversed(await list_events(world, agent)) if event["phase"]), None)
    phase, why = (last["phase"], last["data"]["why"]) if last else (Phase.ASLEEP, WHY_ASLEEP)
    next_at = last["data"].get("next_at") if last else None
    assert why == seen.why
    if seen.phase is not Phase.HOLDING:  # its messages postpone the next wake
        assert next_at == (seen.next_wake.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if seen.next_wake else None)
    assert phase in {seen.phase, "over_budget"}
    assert (phase == "over_budget") == (seen.phase is Phase.ASLEEP and why.startswith("Over its "))
    if last is not None:
        state = await world.state(agent)
        assert (state.phase, state.phase_since) == (phase, seen.since)


@pytest.mark.parametrize(
    "situation", [each for each in SITUATIONS if each is not paused], ids=lambda each: each.__name__
)
async def test_record_says_the_same_as_why(pool: Pool, situation: Situation) -> None:
    async with open_world(pool, runs={"max_concurrent": 1, "stop_grace_seconds": 3600}) as world:
        agent = await situation(world)
        await require_record_equals_why(world, agent)


async def test_cycle_writes_three_events(world: World) -> None:
    agent = await world.agent()
    message = await world.notify(agent)
    run = world.puppets[agent.id]
    await world.go_to(5)
    await run.clears(message)
    await run.sleeps(until=world.at(60).isoformat())

    started, ended, asleep = await list_events(world, agent)

    assert (started["type"], started["run_id"], started["phase"]) == ("run.started", run.run.id, "running")
    assert started["data"] == {
        "from": "asleep",
        "to": "running",
        "why": "Running since 2126-11-21 09:00 UTC, woken by a high-priority notification from api.",
        "reason": "notification:api",
    }
    assert (ended["type"], ended["run_id"], ended["phase"]) == ("run.ended", run.run.id, None)
    assert ended["data"] == {"outcome": "slept", "turns": 0, "reason": "notification:api"}
    assert (asleep["type"], asleep["run_id"], asleep["phase"]) == ("agent.asleep", run.run.id, "asleep")
    assert asleep["data"] == {
        "from": "running",
        "to": "asleep",
        "why": (
            "Asleep until 2126-11-21 09:01 UTC, as requested; "
            "any high-priority notification wakes it earlier."
        ),
        "next_at": "2126-11-21T09:01:00.000000Z",
        "outcome": "slept",
    }
    assert [event["at"] for event in (started, ended, asleep)] == [world.at(0), world.at(5), world.at(5)]
    assert [event["actor"] for event in (started, ended, asleep)] == ["", *[f"run:{run.run.id}"] * 2]
    assert {event["organization_id"] for event in (started, ended, asleep)} == {agent.organization_id}


async def test_reconcile_without_a_change_writes_no_event(world: World) -> None:
    agent = await holding(world)
    before = await list_types(world, agent)

    world.registry.tell(agent.id, Signal.RELOAD)
    await world.wait_until_idle()

    assert await list_types(world, agent) == before


async def test_clearing_by_a_person_during_a_backoff_is_recorded(world: World) -> None:
    agent = await world.agent()
    first = await world.notify(agent)
    await world.notify(agent)
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].end()
    assert "left 2 high-priority notifications" in (await world.see(agent)).why

    await world.clear(first)

    assert "left 1 high-priority notification " in (await world.see(agent)).why
    assert (await list_types(world, agent))[-1] == "agent.rescheduled"
    await require_record_equals_why(world, agent)


async def test_stop_of_a_run_is_recorded_with_its_caller(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await world.agent()
        world.puppets_are_stubborn = True
        run = await world.start(agent)
        await world.ask(agent, StopRequest(reason="Enough.", caller="user:7"), answered_within=1)
        stop = (await list_events(world, agent))[-1]
        await require_record_equals_why(world, agent)
        await run.end(Outcome.STOPPED)

    assert (stop["type"], stop["actor"], stop["run_id"]) == ("agent.stopping", "user:7", run.run.id)
    assert stop["data"]["stop_reason"] == "Enough."
    assert (await list_types(world, agent))[-2:] == ["run.ended", "agent.asleep"]
    last = (await list_events(world, agent))[-1]
    assert (last["data"]["from"], last["data"]["outcome"], last["actor"]) == ("stopping", "stopped", "")


async def test_archive_of_a_running_agent_ends_its_run_afterwards(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.ARCHIVED))
    await run.gone()

    assert await list_types(world, agent) == ["run.started", "agent.archived", "run.ended"]
    await require_record_equals_why(world, agent)


async def test_queued_start_names_who_asked_for_it(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        first, second = await world.agent(), await world.agent()
        run = await world.start(first)
        await world.ask(second, RunRequest(caller="key:7"))
        await world.go_to(3)
        await run.end()

        queued, started = await list_events(world, second)
        assert (queued["type"], queued["actor"], queued["data"]["from"]) == (
            "agent.queued",
            "key:7",
            "asleep",
        )
        assert "next_at" not in queued["data"]
        assert (started["type"], started["data"]["from"], started["at"]) == (
            "run.started",
            "queued",
            world.at(3),
        )


async def test_run_lost_in_a_restart_is_recorded(world: World) -> None:
    agent = await world.agent()
    await world.start(agent)
    await world.restart()

    assert await list_types(world, agent) == ["run.started", "run.ended", "agent.backing_off"]
    assert (await list_events(world, agent))[1]["data"]["outcome"] == "interrupted"


async def test_writer_of_a_sleep_is_named(world: World) -> None:
    agent = await world.agent()
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(600), caller="user:7"))

    [event] = await list_events(world, agent)
    assert (event["type"], event["actor"]) == ("agent.rescheduled", "user:7")


async def test_budget_that_a_late_report_spends_is_recorded(world: World) -> None:
    start_ten_minutes_before_midnight(world)
    agent = await world.agent(max_cost_usd_per_day=Decimal(5))
    await world.spend(agent, "6")
    await world.wait_until_idle()
    await require_record_equals_why(world, agent)
    await world.go_to(600)
    await world.scan.run_once()
    await world.wait_until_idle()

    assert await list_changes(world, agent) == [
        ("agent.over_budget", "asleep", "over_budget"),
        ("agent.asleep", "over_budget", "asleep"),
    ]
    await require_record_equals_why(world, agent)
