"""What a preview says is what the engine then does: in each quiet situation, for events and changes."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from storage.model import Agent, AgentStatus, Priority, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest
from supervisors.engine.snapshot import Present
from supervisors.policy.phases import Phase
from supervisors.preview.changes import Change
from supervisors.preview.paths import Event
from supervisors.preview.preview import Preview, preview
from tests.supervisors.engine.situations import SITUATIONS, Situation
from tests.supervisors.world import World, open_world

BUSY = {Phase.RUNNING, Phase.STOPPING, Phase.QUEUED}
QUIET = [situation for situation, phase in SITUATIONS.items() if phase not in BUSY]
MILLISECOND = timedelta(milliseconds=1)
LONG_SECONDS = 2 * 86_400
MORE_TURNS = (1, 2, 3)  # of events and changes, each of which meets another situation at each turn

Case = tuple[Event, float]  # the notifications, and the seconds until the first one comes

CASES: list[Case] = [
    (Event(Source.SMS, Priority.HIGH), 0),
    (Event(Source.API, Priority.HIGH), 0),
    (Event(Source.EMAIL, Priority.HIGH, count=4, seconds_apart=20), 0),
    (Event(Source.API, Priority.LOW), 0),
    (Event(Source.SMS, Priority.HIGH, count=2, seconds_apart=3), 40),
    (Event(Source.AGENT, Priority.HIGH, timedelta(seconds=30)), 0),  # type: ignore[arg-type]
    (Event(Source.SYSTEM, Priority.HIGH), 1000),
]

PATCHES: list[tuple[Change, dict[str, Any]]] = [
    (Change(agent_window_seconds=5), {"debounce_window_seconds": 5}),
    (Change(agent_window_seconds=0), {"debounce_window_seconds": 0}),
    (Change(cap_usd=Decimal(0)), {"max_cost_usd_per_day": Decimal(0)}),
    (Change(cap_usd=Decimal(100)), {"max_cost_usd_per_day": Decimal(100)}),
    (Change(status=AgentStatus.RUNNING), {"status": AgentStatus.RUNNING}),
    (Change(status=AgentStatus.SLEEPING), {"status": AgentStatus.SLEEPING}),
    (Change(status=AgentStatus.ARCHIVED), {"status": AgentStatus.ARCHIVED}),
    (Change(paused=True), {"paused": True}),
    (Change(paused=False), {"paused": False}),
    (Change(sleep_until=None), {"sleep_until": timedelta(minutes=20)}),
]


async def the_present(world: World, agent: Agent) -> Present:
    present = await world.registry.status.present(agent.id)
    assert present is not None
    return present


async def bring(world: World, agent: Agent, event: Event) -> None:
    """Create the notifications of the event, at their times."""
    for index in range(event.count):
        if index:
            await world.advance(event.seconds_apart)
        fields = {"priority": event.priority, "scheduled_for": event.scheduled_for}
        await world.notify(agent, event.source, **fields)


async def require_wakes(world: World, agent: Agent, known: int, said: Preview) -> None:
    """Let time pass, and compare the first run that started since with the one that was said."""
    if not said.wakes:
        await world.advance(LONG_SECONDS)
        assert (await world.wakes(agent))[known:] == []
        return
    [wake] = said.wakes
    left = wake.at + MILLISECOND - world.clock.now()
    await world.advance(max(0.0, left.total_seconds()))
    started_at, reason = (await world.wakes(agent))[known]
    assert reason == wake.reason
    assert abs(world.at(started_at) - wake.at) < MILLISECOND


async def check_event(pool: Pool, situation: Situation, event: Event, delay: float) -> None:
    async with open_world(pool) as world:
        agent = await situation(world)
        first_at = world.clock.now() + timedelta(seconds=delay)
        if event.scheduled_for is not None:
            event = replace(event, scheduled_for=first_at + timedelta(seconds=30))
        present, known = await the_present(world, agent), len(await world.wakes(agent))
        quiet, said = preview(present, at=first_at), preview(present, event=event, at=first_at)
        await world.advance(delay)
        if quiet.then.phase is not None:
            assert quiet.then.phase == await world.phase(agent)
        await bring(world, agent, event)
        if said.then.phase is not None:
            assert said.then.phase == await world.phase(agent)
        await require_wakes(world, agent, known, said)


@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_event_in_quiet_situation_does_what_was_said(pool: Pool, number: int) -> None:
    await check_event(pool, QUIET[number], *CASES[number % len(CASES)])


@pytest.mark.slow
@pytest.mark.parametrize("turn", MORE_TURNS)
@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_other_event_in_quiet_situation_does_what_was_said(pool: Pool, number: int, turn: int) -> None:
    await check_event(pool, QUIET[number], *CASES[(number + turn) % len(CASES)])


async def check_change(pool: Pool, situation: Situation, change: Change, patch: dict[str, Any]) -> None:
    async with open_world(pool) as world:
        agent = await situation(world)
        if "sleep_until" in patch:
            until = world.clock.now() + patch["sleep_until"]
            change, patch = replace(change, sleep_until=until), {"sleep_until": until}
        present, known = await the_present(world, agent), len(await world.wakes(agent))
        said = preview(present, change=change)
        is_archived = present.facts.state.status is AgentStatus.ARCHIVED
        is_refused = is_archived and change.status is not AgentStatus.SLEEPING
        if {"paused", "status", "sleep_until"} & patch.keys():
            if not is_refused:
                await world.ask(agent, OwnedFieldsRequest(**patch))
        else:
            await world.change(agent, **patch)
        assert said.then.phase == await world.phase(agent)
        await require_wakes(world, agent, known, said)


@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_change_in_quiet_situation_does_what_was_said(pool: Pool, number: int) -> None:
    await check_change(pool, QUIET[number], *PATCHES[number % len(PATCHES)])


@pytest.mark.slow
@pytest.mark.parametrize("turn", MORE_TURNS)
@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_other_change_in_quiet_situation_does_what_was_said(pool: Pool, number: int, turn: int) -> None:
    await check_change(pool, QUIET[number], *PATCHES[(number + turn) % len(PATCHES)])
