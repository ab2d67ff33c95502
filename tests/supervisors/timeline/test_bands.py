"""Bands: whatever the events are, they tile the period and say what was true then."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from storage.events.model import Event, EventType
from supervisors.policy.explanations import (
    ITS_RUN_STOPS,
    WHY_AGENT_PAUSED,
    WHY_BOTH_PAUSED,
    WHY_PAUSED,
    WHY_STOPPING_BEFORE_NEXT,
    WHY_STOPPING_FOR_PAUSE,
    why_instance_paused,
)
from supervisors.timeline.bands import MOMENT, Band, BandPhase, Fallback, State
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.timeline.bands_of_events import bands

AGENT, ORGANIZATION, RUN = UUID(int=1), UUID(int=2), UUID(int=3)
ASLEEP = State(BandPhase.ASLEEP, "Asleep at present.")
FALLBACK = Fallback(
    ASLEEP, since=None, is_paused=False, known_from=NOW - 24 * HOUR, why_unknown="Not kept any more."
)
LOGGED = [phase for phase in BandPhase if phase not in {"unknown", "paused"}]


def event(number: int, minutes: float, phase: str | None, **data: Any) -> Event:
    return Event(
        id=number,
        at=NOW + minutes * MINUTE,
        type=EventType.AGENT_RESCHEDULED,
        organization_id=ORGANIZATION,
        agent_id=AGENT,
        run_id=RUN,
        resource_id=None,
        actor="",
        phase=phase,
        data=data,
    )


def pause(number: int, minutes: float, *, ends: bool = False) -> Event:
    kind = EventType.ORGANIZATION_UNPAUSED if ends else EventType.ORGANIZATION_PAUSED
    return replace(event(number, minutes, None), type=kind, agent_id=None, run_id=None)


def act(number: int, minutes: float, action: str) -> Event:
    """Return what the operator did to the whole instance."""
    return replace(
        pause(number, minutes), type=EventType.AUDIT, data={"action": action, "because": "it was restored"}
    )


def hour(events: Sequence[Event], pauses: Sequence[Event] = (), fallback: Fallback = FALLBACK) -> list[Band]:
    return bands(events, pauses, NOW, NOW + HOUR, fallback)


def told(found: Sequence[Band]) -> list[tuple[float, str, str | None]]:
    """Return the minute at which each band begins, its phase, and its sentence."""
    return [((band.start - NOW) / MINUTE, str(band.state.phase), band.state.why) for band in found]


def test_bands_say_the_sentences_of_their_events() -> None:
    found = hour(
        [
            event(1, -5, "asleep", why="Asleep."),
            event(2, 10, "running", why="Running."),
            event(3, 15, None, outcome="completed"),
            event(4, 15, "asleep", why="Asleep again.", next_at="2126-11-21T12:00:00.000000Z"),
        ]
    )

    assert told(found) == [
        (0, "asleep", "Asleep."),
        (10, "running", "Running."),
        (15, "asleep", "Asleep again."),
    ]
    assert [band.state.run_id for band in found] == [None, RUN, None]
    assert [band.state.event_id for band in found] == [1, 2, 4]
    assert found[-1].state.next_wake_at == "2126-11-21T12:00:00.000000Z"


def test_period_without_earlier_event_begins_with_from() -> None:
    found = hour([event(7, 20, "queued", why="Queued.", **{"from": "holding"})])

    assert told(found) == [(0, "holding", None), (20, "queued", "Queued.")]


def test_first_event_after_the_period_says_its_phase() -> None:
    assert told(hour([event(7, 90, "running", why="Running.", **{"from": "asleep"})])) == [
        (0, "asleep", None)
    ]


def test_agent_without_events_was_as_it_is() -> None:
    assert told(hour([])) == [(0, "asleep", "Asleep at present.")]


def test_time_before_what_is_known_is_unknown() -> None:
    late = replace(FALLBACK, known_from=NOW + 30 * MINUTE)

    assert told(hour([], fallback=late)) == [
        (0, "unknown", "Not kept any more."),
        (30, "asleep", "Asleep at present."),
    ]
    assert told(hour([event(1, 40, "running", **{"from": "asleep"})], fallback=late)) == [
        (0, "unknown", "Not kept any more."),
        (30, "asleep", None),
        (40, "running", None),
    ]


def test_pause_covers_resting_phases_only() -> None:
    found = hour(
        [
            event(1, -5, "running", why="Running."),
            event(3, 15, "asleep", why="Asleep."),
            event(4, 20, "backing_off", why="Backing off."),
            event(6, 40, "archived", why="Archived."),
        ],
        [pause(2, 10), pause(5, 30, ends=True), pause(7, 50)],
    )

    assert told(found) == [
        (0, "running", "Running."),
        (10, "stopping", WHY_STOPPING_FOR_PAUSE),
        (15, "paused", WHY_PAUSED),
        (30, "backing_off", "Backing off."),
        (40, "archived", "Archived."),
    ]
    assert found[2].state.event_id == 2


def test_stop_keeps_its_sentence_during_a_pause() -> None:
    stopped = "Its run was asked to stop at 09:00 and has not ended yet."
    events = [event(1, -5, "stopping", why=stopped), event(2, 30, "stopping", why=WHY_STOPPING_BEFORE_NEXT)]

    found = hour(events, [pause(3, -9)])

    assert told(found) == [(0, "stopping", stopped), (30, "stopping", WHY_STOPPING_FOR_PAUSE)]


def test_pauses_of_agent_and_organization_are_told_together() -> None:
    events = [event(1, -5, "paused", why=WHY_AGENT_PAUSED), event(4, 40, "asleep", why="Asleep.")]

    found = hour(events, [pause(2, 10), pause(3, 30, ends=True)])

    assert told(found) == [
        (0, "paused", WHY_AGENT_PAUSED),
        (10, "paused", WHY_BOTH_PAUSED),
        (30, "paused", WHY_AGENT_PAUSED),
        (40, "asleep", "Asleep."),
    ]


def test_pause_without_kept_begin_is_seen_by_its_end() -> None:
    assert told(hour([], [pause(9, 25, ends=True)])) == [
        (0, "paused", WHY_PAUSED),
        (25, "asleep", "Asleep at present."),
    ]


def test_pause_without_kept_events_lasts_until_now() -> None:
    assert told(hour([], fallback=replace(FALLBACK, is_paused=True))) == [(0, "paused", WHY_PAUSED)]


def test_pause_of_the_instance_hides_that_of_the_organization() -> None:
    events = [event(1, -5, "running", why="Running."), event(5, 20, "asleep", why="Asleep.")]
    restored, because = act(3, 15, "paused"), "it was restored"
    since = why_instance_paused(restored.at, because)
    found = hour(events, [pause(2, 10), restored, pause(6, 30, ends=True), act(7, 40, "unpaused")])

    assert told(found) == [
        (0, "running", "Running."),
        (10, "stopping", WHY_STOPPING_FOR_PAUSE),
        (15, "stopping", f"{since} {ITS_RUN_STOPS}"),
        (20, "paused", since),
        (40, "asleep", "Asleep."),
    ]
    assert [band.state.event_id for band in found] == [1, 2, 3, 3, 5]
    assert told(hour([], [act(9, 25, "unpaused")]))[0] == (0, "paused", why_instance_paused(None, because))


def test_clock_set_back_keeps_the_order_of_events() -> None:
    found = hour([event(1, 30, "running", why="Running."), event(2, 10, "asleep", why="Asleep.")])

    assert told(found)[-1] == (30, "asleep", "Asleep.")


MINUTES = st.integers(min_value=-90, max_value=150).map(float)
EVENTS = st.lists(st.tuples(MINUTES, st.sampled_from([*LOGGED, None])), max_size=25).map(
    lambda drawn: [event(number, at, phase, why=f"{number}") for number, (at, phase) in enumerate(drawn)]
)
PAUSES = st.lists(st.tuples(MINUTES, st.booleans()), max_size=6).map(
    lambda drawn: [pause(100 + number, at, ends=ends) for number, (at, ends) in enumerate(drawn)]
)


@given(EVENTS, PAUSES, st.booleans())
def test_bands_tile_the_period(events: list[Event], pauses: list[Event], is_paused: bool) -> None:
    found = hour(events, pauses, replace(FALLBACK, is_paused=is_paused))

    assert (found[0].start, found[-1].end) == (NOW, NOW + HOUR)
    assert all(band.start < band.end for band in found)
    assert all(before.end == after.start for before, after in pairwise(found))
    assert all(before.state[:3] != after.state[:3] for before, after in pairwise(found))


@given(EVENTS, PAUSES, st.integers(min_value=0, max_value=59))
def test_state_at_a_moment_is_that_of_its_band(events: list[Event], pauses: list[Event], minute: int) -> None:
    moment = NOW + timedelta(minutes=minute)

    [at_moment] = bands(events, pauses, moment, moment + MOMENT, FALLBACK)

    assert at_moment.state[:3] == band_at(hour(events, pauses), moment).state[:3]


def band_at(found: Sequence[Band], moment: datetime) -> Band:
    return next(band for band in found if band.start <= moment < band.end)
