"""What a preview says is what the engine then does: in each quiet situation, for events and changes."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from storage.agent_facts import Budget
from storage.model import Agent, AgentStatus, Priority, Source
from storage.postgres.pool import Pool
from supervisors.engine.effects import after_owned_fields
from supervisors.engine.messages import OwnedFieldsRequest
from supervisors.engine.snapshot import Present
from supervisors.errors import AgentArchived
from supervisors.policy.decisions import Wake, WakeCause, WakeReason
from supervisors.policy.explanations import describe_cause, describe_reason
from supervisors.policy.phases import Phase
from supervisors.preview import Event, Outlook, preview
from tests.supervisors.engine.situations import SITUATIONS, Situation
from tests.supervisors.world import World, open_world

BUSY = {Phase.RUNNING, Phase.STOPPING, Phase.QUEUED}
QUIET = [situation for situation, phase in SITUATIONS.items() if phase not in BUSY]
MILLISECOND = timedelta(milliseconds=1)
LONG_SECONDS = 86_400  # beyond the next midnight, when budgets are renewed
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

OWNED: list[dict[str, Any]] = [
    {"status": AgentStatus.RUNNING},
    {"status": AgentStatus.SLEEPING},
    {"status": AgentStatus.ARCHIVED},
    {"paused": True},
    {"paused": False},
    {"sleep_until": timedelta(minutes=20)},
]
SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [  # of an agent, and of its facts
    ({"debounce_window_seconds": 5}, {"agent_window_seconds": 5}),
    ({"debounce_window_seconds": 0}, {"agent_window_seconds": 0}),
    ({"max_cost_usd_per_day": Decimal(0)}, {"budgets": (Budget(False, Decimal(0), Decimal(0)),)}),
    ({"max_cost_usd_per_day": Decimal(100)}, {"budgets": (Budget(False, Decimal(100), Decimal(0)),)}),
]
PATCHES: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    *SETTINGS[:2],
    *((owned, None) for owned in OWNED),
    *SETTINGS[2:],
]


def causes_of(reason: str) -> set[WakeCause]:
    """Return the causes that can lead to a run with this reason."""
    if reason.startswith("notification:"):
        return {WakeCause.NOTIFICATION, WakeCause.HOLD, WakeCause.RETRY}
    return {
        WakeReason.REMINDER: {WakeCause.REMINDER, WakeCause.NOTIFICATION, WakeCause.HOLD},
        WakeReason.SLEEP_ELAPSED: {WakeCause.SLEEP_UNTIL},
        WakeReason.RUN_REQUESTED: {WakeCause.RUN_REQUEST},
    }.get(WakeReason(reason), {WakeCause.RETRY})


def sentences_of(reason: str, at: datetime) -> set[str]:
    """Return the sentences that announce a run with this reason."""
    causes = causes_of(reason)
    return {describe_cause(Wake(at, reason, cause, late)) for cause in causes for late in (False, True)}


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


async def require_wake(
    world: World, agent: Agent, present: Present, known: int, said: Outlook, moment: datetime
) -> None:
    """Let time pass, and compare the first run that started since with what was said for the moment.

    If several notifications are due at a later start, it is decided only then which of them gives the reason.
    """
    starts_at = moment if said.phase is Phase.RUNNING else said.next_wake.at if said.next_wake else None
    if starts_at is None:
        await world.advance(LONG_SECONDS)
        assert (await world.wakes(agent))[known:] == []
        return
    left = starts_at + MILLISECOND - world.clock.now()
    await world.advance(max(0.0, left.total_seconds()))
    started_at, reason = (await world.wakes(agent))[known]
    assert abs(world.at(started_at) - starts_at) < MILLISECOND
    if said.next_wake is None:
        assert f"woken by {describe_reason(reason)}" in said.why
    elif not present.facts.pending:
        assert said.next_wake.because in sentences_of(reason, starts_at)


async def check_event(pool: Pool, situation: Situation, event: Event, delay: float) -> None:
    async with open_world(pool) as world:
        agent = await situation(world)
        first_at = world.clock.now() + timedelta(seconds=delay)
        if event.scheduled_for is not None:
            event = replace(event, scheduled_for=first_at + timedelta(seconds=30))
        present, known = await the_present(world, agent), len(await world.wakes(agent))
        quiet = preview(present, present.facts, at=first_at).then
        said = preview(present, present.facts, event=event, at=first_at).then
        await world.advance(delay)
        if quiet.phase is not None:
            assert quiet.phase == await world.phase(agent)
        await bring(world, agent, event)
        if said.phase is not None:
            assert said.phase == await world.phase(agent)
        await require_wake(world, agent, present, known, said, event.arrivals(first_at)[-1])


@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_event_in_quiet_situation_does_what_was_said(pool: Pool, number: int) -> None:
    await check_event(pool, QUIET[number], *CASES[number % len(CASES)])


@pytest.mark.long
@pytest.mark.parametrize("turn", MORE_TURNS)
@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_other_event_in_quiet_situation_does_what_was_said(pool: Pool, number: int, turn: int) -> None:
    await check_event(pool, QUIET[number], *CASES[(number + turn) % len(CASES)])


async def check_change(
    pool: Pool, situation: Situation, patch: dict[str, Any], settings: dict[str, Any] | None
) -> None:
    async with open_world(pool) as world:
        agent = await situation(world)
        if "sleep_until" in patch:
            patch = {"sleep_until": world.clock.now() + patch["sleep_until"]}
        present, known = await the_present(world, agent), len(await world.wakes(agent))
        if settings is not None:
            said = preview(present, replace(present.facts, **settings)).then
            await world.change(agent, **patch)
        else:
            owned = OwnedFieldsRequest(**patch)
            try:
                changed = after_owned_fields(present.facts, owned, present.now, run_is_stopping=False)
            except AgentArchived:
                with pytest.raises(AgentArchived):
                    await world.ask(agent, owned)
                return
            said = preview(present, changed).then
            await world.ask(agent, owned)
        assert said.phase == await world.phase(agent)
        await require_wake(world, agent, present, known, said, present.now)


@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_change_in_quiet_situation_does_what_was_said(pool: Pool, number: int) -> None:
    await check_change(pool, QUIET[number], *PATCHES[number % len(PATCHES)])


@pytest.mark.long
@pytest.mark.parametrize("turn", MORE_TURNS)
@pytest.mark.parametrize("number", range(len(QUIET)), ids=lambda number: QUIET[number].__name__)
async def test_other_change_in_quiet_situation_does_what_was_said(pool: Pool, number: int, turn: int) -> None:
    await check_change(pool, QUIET[number], *PATCHES[(number + turn) % len(PATCHES)])
