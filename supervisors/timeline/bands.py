"""Bands: the phases that an agent went through in a period, rebuilt from the event log. Pure functions.

The log records the phases of an agent as if its organization were never paused, because a pause is a single
event, of the organization or of the whole instance. So pauses are laid over the phases here.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import NamedTuple
from uuid import UUID

from storage.events.model import Event, EventType
from storage.events.timeline import PhaseChange
from supervisors.policy.explanations import (
    ITS_RUN_STOPS,
    WHY_BOTH_PAUSED,
    WHY_PAUSED,
    WHY_STOPPING_BEFORE_NEXT,
    WHY_STOPPING_FOR_PAUSE,
    why_instance_paused,
)

MOMENT = timedelta(microseconds=1)  # the shortest time between two stored moments
ALWAYS = datetime.min.replace(tzinfo=UTC)
OF_INSTANCE, OF_ORGANIZATION = True, False  # whether a pause is an act of the operator in the audit log


class BandPhase(StrEnum):
    """The phase of an agent during a part of a period."""

    ASLEEP = "asleep"
    """It slept until something would wake it."""
    HOLDING = "holding"
    """It waited for a conversation to pause."""
    QUEUED = "queued"
    """It was due to start and waited for a free run slot."""
    BACKING_OFF = "backing_off"
    """It waited for a retry."""
    QUARANTINED = "quarantined"
    """It rested after too many failures."""
    OVER_BUDGET = "over_budget"
    """It, or its organization, had spent the budget of the day."""
    HELD_BY_LIMITS = "held_by_limits"
    """Something waited until it might wake again, or until its quiet hours ended."""
    PAUSED = "paused"
    """It, its organization or the whole instance was paused."""
    RUNNING = "running"
    """A run was active."""
    STOPPING = "stopping"
    """Its run was asked to stop and had not ended yet."""
    ARCHIVED = "archived"
    """It was archived."""
    UNKNOWN = "unknown"
    """It did not exist yet, or its events are no longer kept; `why` says which."""


PHASES = {str(phase): phase for phase in BandPhase}
WITH_RUN = frozenset({BandPhase.RUNNING, BandPhase.STOPPING})
"""In other phases an event names a run that is over."""


class State(NamedTuple):
    """An agent as the log explains it. `why` is the sentence of that time, None if it is not known.

    `event_id`: the event that led to it, None if it is not kept. `next_wake_at`: the text of a timestamp.
    """

    phase: BandPhase
    why: str | None = None
    run_id: UUID | None = None
    event_id: int | None = None
    next_wake_at: str | None = None


class Band(NamedTuple):
    """A state that lasted from `start` to before `end`."""

    start: datetime
    end: datetime
    state: State


class Onset(NamedTuple):
    """A state that begins at a moment and lasts until the next onset."""

    at: datetime
    state: State


class PauseChange(NamedTuple):
    """The begin or the end of a pause: `why` nothing starts from then on, "" if something may.

    `event_id` is that of the event by which the pause began, None if it is not kept.
    """

    at: datetime
    why: str
    event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Fallback:
    """What is known of an agent besides its events. Before `known_from` nothing is, for a reason.

    `present`: its state now, with the phase as the log records it, which began at `since` if that is known.
    `first_why`: the sentence at `known_from`, if it is known.
    """

    present: State
    since: datetime | None
    is_paused: bool
    known_from: datetime
    why_unknown: str
    first_why: str | None = None


def onsets_of(changes: Iterable[PhaseChange], fallback: Fallback) -> list[Onset]:
    """Return an onset for each change of the phase, after those for the time before the first one.

    The first change that is kept says what phase it ended. Without any, the agent was as it is at present.
    """
    ordered = sorted(changes, key=lambda change: change.id)
    onsets = [Onset(ALWAYS, State(BandPhase.UNKNOWN, fallback.why_unknown))]
    if not ordered:
        onsets.append(Onset(max(fallback.known_from, fallback.since or ALWAYS), fallback.present))
    elif ordered[0].before is not None:
        before = State(BandPhase(ordered[0].before), fallback.first_why)
        onsets.append(Onset(min(fallback.known_from, ordered[0].at), before))
    return [*onsets, *(Onset(change.at, _state_of(change)) for change in ordered)]


def pause_changes(events: Iterable[Event], *, is_paused: bool, instance_why: str = "") -> list[PauseChange]:
    """Return the changes in their order, one for each event, after the state before the first.

    `is_paused`: whether the organization is at present; `instance_why`: why the whole instance is, "" if it
    is not. A pause of the instance hides one of the organization.
    """
    ordered = sorted(events, key=lambda event: event.id)
    organization = PauseChange(ALWAYS, WHY_PAUSED if is_paused else "")
    held = {OF_INSTANCE: PauseChange(ALWAYS, instance_why), OF_ORGANIZATION: organization}
    for event in reversed(ordered):
        held[event.type is EventType.AUDIT] = PauseChange(ALWAYS, _why(event, is_after=False))
    changes = [held[OF_INSTANCE] if held[OF_INSTANCE].why else held[OF_ORGANIZATION]]
    for event in ordered:
        held[event.type is EventType.AUDIT] = PauseChange(event.at, _why(event, is_after=True), event.id)
        shown = held[OF_INSTANCE] if held[OF_INSTANCE].why else held[OF_ORGANIZATION]
        changes.append(shown._replace(at=event.at))
    return changes


def _why(event: Event, *, is_after: bool) -> str:
    """Return why nothing starts after the begin or end of a pause, or did before it; "" if something may."""
    is_begin = event.type is EventType.ORGANIZATION_PAUSED or event.data.get("action") == "paused"
    if is_begin is not is_after:
        return ""
    if event.type is not EventType.AUDIT:
        return WHY_PAUSED
    return why_instance_paused(event.at if is_after else None, event.data["because"])


def tile(
    onsets: Sequence[Onset], pauses: Sequence[PauseChange], start: datetime, end: datetime
) -> list[Band]:
    """Return the bands from `start` to before `end`. The first onset and the first change hold always."""
    onset_times, pause_times = _ascending(onsets), _ascending(pauses)
    limits = sorted({start, end, *(at for at in (*onset_times, *pause_times) if start < at < end)})
    tiled: list[Band] = []
    for begin, finish in pairwise(limits):
        onset = onsets[bisect_right(onset_times, begin) - 1]
        state = _paused(onset.state, pauses[bisect_right(pause_times, begin) - 1])
        if tiled and _is_same(tiled[-1].state, state):
            tiled[-1] = tiled[-1]._replace(end=finish)
        else:
            tiled.append(Band(begin, finish, state))
    return tiled


def _state_of(change: PhaseChange) -> State:
    phase = PHASES[change.phase]
    run_id = change.run_id if phase in WITH_RUN else None
    # Each message postpones the end of a hold.
    next_wake_at = None if phase is BandPhase.HOLDING else change.next_at
    return State(phase, change.why, run_id, change.id, next_wake_at)


def _is_same(before: State, after: State) -> bool:
    """Return whether two neighbours are one band: the second event changed nothing that is shown."""
    return (before.phase, before.why, before.run_id) == (after.phase, after.why, after.run_id)


def _ascending(items: Sequence[Onset] | Sequence[PauseChange]) -> list[datetime]:
    """Return the times of the items, none before an earlier one: the clock may have been set back."""
    return list(accumulate((item.at for item in items), max))


def _paused(state: State, pause: PauseChange) -> State:
    """Return the state that shows, if the organization or the instance is paused."""
    if not pause.why:
        return state
    is_of_organization = pause.why == WHY_PAUSED
    why_stopping = WHY_STOPPING_FOR_PAUSE if is_of_organization else f"{pause.why} {ITS_RUN_STOPS}"
    match state.phase:
        case BandPhase.ARCHIVED | BandPhase.UNKNOWN:
            return state
        case BandPhase.RUNNING:
            return State(BandPhase.STOPPING, why_stopping, state.run_id, pause.event_id)
        case BandPhase.STOPPING if state.why == WHY_STOPPING_BEFORE_NEXT:
            return state._replace(why=why_stopping)
        case BandPhase.STOPPING:
            return state
        case BandPhase.PAUSED:
            return state._replace(why=WHY_BOTH_PAUSED if is_of_organization else pause.why)
        case _:
            return State(BandPhase.PAUSED, pause.why, event_id=pause.event_id)
