"""The event log of agents: each change of phase, and what `why` says, written by the update that makes it."""

from decimal import Decimal
from typing import Any

import pytest

from storage.model import Agent, AgentStatus, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest, Signal, StopRequest
from supervisors.maintenance.scans import BudgetRenewal
from supervisors.policy.explanations import WHY_ASLEEP
from supervisors.policy.phases import Phase
from tests.supervisors.engine.situations import (
    SITUATIONS,
    Situation,
    archived,
    backing_off,
    holding,
    paused,
    quarantined,
    start_ten_minutes_before_midnight,
    stopping,
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


async def test_record_ignores_a_pause(world: World) -> None:
    agent = await paused(world)
    before = (await list_events(world, agent))[-1]
    await world.notify(agent)

    assert (await world.see(agent)).phase is Phase.PAUSED
    assert before["phase"] == "asleep"
    await world.pause(agent.organization_id, False)
    assert (await list_types(world, agent))[-1] == "run.started"


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


async def test_never_run_agent_that_reconciles_has_no_event(world: World) -> None:
    agent = await world.agent()

    world.registry.tell(agent.id, Signal.RELOAD)
    await world.wait_until_idle()

    assert await list_types(world, agent) == []


async def test_message_that_extends_a_hold_writes_nothing(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(20)
    await world.sms(agent)

    assert await list_changes(world, agent) == [("agent.holding", "asleep", "holding")]
    await require_record_equals_why(world, agent)
    assert (await world.state(agent)).next_due_at == world.at(60), "the hold is computed again then"


async def test_reminder_set_while_asleep_is_recorded(world: World) -> None:
    agent = await world.agent()
    await world.remind(agent, 30)

    [event] = await list_events(world, agent)
    assert (event["type"], event["data"]["next_at"]) == ("agent.rescheduled", "2126-11-21T09:00:30.000000Z")
    await require_record_equals_why(world, agent)


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


async def test_stop_without_a_run_writes_one_event(world: World) -> None:
    agent = await holding(world)
    await world.ask(agent, StopRequest(reason="Enough.", caller="key:7"))

    last = (await list_events(world, agent))[-1]
    assert (last["type"], last["actor"], last["run_id"]) == ("agent.stopped", "key:7", None)
    assert (last["data"]["from"], last["data"]["to"]) == ("holding", "asleep")
    assert (await list_types(world, agent)).count("agent.asleep") == 0
    await require_record_equals_why(world, agent)


async def test_archive_and_restore_are_recorded(world: World) -> None:
    agent = await archived(world)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING, caller="user:7"))

    assert (await list_changes(world, agent))[-2:] == [
        ("agent.archived", "asleep", "archived"),
        ("agent.restored", "archived", "asleep"),
    ]
    assert (await list_events(world, agent))[-1]["actor"] == "user:7"
    await require_record_equals_why(world, agent)


async def test_archive_of_a_running_agent_ends_its_run_afterwards(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.ARCHIVED))
    await run.gone()

    assert await list_types(world, agent) == ["run.started", "agent.archived", "run.ended"]
    await require_record_equals_why(world, agent)


async def test_run_stopped_by_a_pause_is_stopping(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    await world.start(agent)
    await world.pause(agent.organization_id, True)
    await world.pause(agent.organization_id, False)

    assert (await list_changes(world, agent))[-1] == ("agent.stopping", "running", "stopping")
    await require_record_equals_why(world, agent)


async def test_restored_agent_whose_run_is_stopping_is_stopping(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await stopping(world)
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.ARCHIVED))
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))

        assert (await list_changes(world, agent))[-1] == ("agent.restored", "archived", "stopping")
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


async def test_failed_runs_lead_to_a_recorded_quarantine(world: World) -> None:
    agent = await quarantined(world)

    types = await list_types(world, agent)
    failure = ["run.started", "run.ended", "agent.backing_off"]
    assert types == [*failure * 4, "run.started", "run.ended", "agent.quarantined"]
    ended = (await list_events(world, agent))[-2]
    assert ended["data"] == {
        "outcome": "failed",
        "turns": 0,
        "reason": "retry_after_failure",
        "error": "The model is away.",
    }


async def test_long_error_is_cut_in_the_log(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await run.fail("no model " * 100)

    _, ended, asleep = await list_events(world, agent)
    assert len(ended["data"]["error"]) == 201
    assert len(asleep["data"]["why"]) < 400
    await require_record_equals_why(world, agent)


async def test_run_lost_in_a_restart_is_recorded(world: World) -> None:
    agent = await world.agent()
    await world.start(agent)
    await world.restart()

    assert await list_types(world, agent) == ["run.started", "run.ended", "agent.backing_off"]
    assert (await list_events(world, agent))[1]["data"]["outcome"] == "interrupted"


async def test_crash_of_a_supervisor_is_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = await backing_off(world)
    await world.remind(agent, 5)

    with monkeypatch.context() as broken:
        broken.setattr("supervisors.engine.supervisor.decide", None)
        world.registry.tell(agent.id, Signal.RELOAD)
        await world.wait_until_idle()

    last = (await list_events(world, agent))[-1]
    assert (last["phase"], last["data"]["from"]) == ("backing_off", "backing_off")
    assert "the last one: TypeError in the supervisor." in last["data"]["why"]
    assert last["data"]["next_at"] == "2126-11-21T09:00:05.000000Z"


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


async def test_budget_of_the_organization_that_others_spend_is_recorded(world: World) -> None:
    spender, idle = await world.agent(), await world.agent()
    await world.change_organization(idle.organization_id, max_cost_usd_per_day=Decimal(2))
    await world.spend(spender, "2")
    renewal = BudgetRenewal(world.states, world.registry, world.clock)
    await renewal.run_once()
    await world.wait_until_idle()
    await require_record_equals_why(world, idle)

    await world.pool.execute("UPDATE organization SET max_cost_usd_per_day = 3")
    await renewal.run_once()
    await world.wait_until_idle()

    assert await list_changes(world, idle) == [
        ("agent.over_budget", "asleep", "over_budget"),
        ("agent.asleep", "over_budget", "asleep"),
    ]
    await require_record_equals_why(world, idle)


async def test_quarantine_that_ends_over_budget_is_recorded(world: World) -> None:
    agent = await quarantined(world)
    await world.change(agent, max_cost_usd_per_day=Decimal(5))
    await world.spend(agent, "5")
    await world.wait_until_idle()
    await require_record_equals_why(world, agent)

    await world.go_to(15 + 900)

    assert (await list_changes(world, agent))[-1] == ("agent.over_budget", "quarantined", "over_budget")
    await require_record_equals_why(world, agent)
