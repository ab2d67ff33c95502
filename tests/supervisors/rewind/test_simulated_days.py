"""Replays of simulated days: they reproduce what was recorded, and what other settings would have led to."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import pytest

from storage.agent_facts import AgentFacts
from supervisors.rewind.replay import Replay, Rules, Wake
from tests.supervisors.rewind.simulated_days import Day, days, days_without_feedback, second_half

A_FEW, MANY = (
    range(3),
    range(3, 34),
)  # worlds, of three or more agents each: together more than a hundred days
PATCHES: tuple[Mapping[str, Any], ...] = (
    {"debounce_window_seconds": 4},
    {"quiet_hours": "09:00-10:30"},
    {"max_wakes_per_hour": 2},
    {"debounce_window_seconds": 2, "max_wakes_per_day": 5},
)
TIMER = timedelta(milliseconds=2)  # timers of the simulation ring at whole milliseconds


def first_replay(day: Day) -> Replay:
    """Return a replay of what was recorded."""
    replay = Replay(day.recording, Rules(day.facts, day.policy))
    list(replay.steps())
    return replay


def replayed(day: Day, facts: AgentFacts | None = None) -> list[Wake]:
    """Return the wakes of a replay with these settings, else with those of the recording."""
    replay = Replay(day.recording, Rules(facts or day.facts, day.policy), first_replay(day).delays)
    list(replay.steps())
    return replay.wakes


def require_same_wakes(seeds: range) -> None:
    """Require recorded wakes of whole days, and of periods that begin in them."""
    for whole in chain.from_iterable(map(days, seeds)):
        for day in filter(None, (whole, second_half(whole))):
            assert told(replayed(day)) == recorded(day)
            assert first_replay(day).reproduced == len(recorded(day))


def told(wakes: list[Wake]) -> list[tuple[datetime, str]]:
    return [(wake.at, wake.reason) for wake in wakes]


def recorded(day: Day) -> list[tuple[datetime, str]]:
    start, runs = day.recording.start, day.recording.runs
    return [(run.started_at, run.wake_reason) for run in runs if run.started_at >= start]


def test_replay_without_patch_reproduces_recorded_wakes() -> None:
    require_same_wakes(A_FEW)


@pytest.mark.slow
def test_replay_reproduces_a_hundred_days() -> None:
    require_same_wakes(MANY)


def require_as_simulated(seeds: range) -> None:
    for seed, settings in ((seed, PATCHES[seed % len(PATCHES)]) for seed in seeds):
        before, simulated = days_without_feedback(seed, {}), days_without_feedback(seed, settings)
        for day, wanted in zip(before, simulated, strict=True):
            wakes, runs = replayed(day, patched(day.facts, settings)), wanted.recording.runs
            # Not the reasons: of two things that come at the same moment either may be the last.
            assert len(wakes) == len(runs)
            assert all(abs(wake.at - run.started_at) <= TIMER for wake, run in zip(wakes, runs, strict=True))


def test_replay_with_patch_equals_simulation_with_it() -> None:
    require_as_simulated(range(4))


@pytest.mark.slow
def test_replay_with_patch_equals_many_simulations() -> None:
    require_as_simulated(range(4, 24))


def patched(facts: AgentFacts, settings: Mapping[str, Any]) -> AgentFacts:
    limits = {name: value for name, value in settings.items() if name != "debounce_window_seconds"}
    window = settings.get("debounce_window_seconds", facts.agent_window_seconds)
    return replace(facts, agent_window_seconds=window, limits=replace(facts.limits, **limits))
