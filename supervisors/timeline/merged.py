"""Merged bands: periods with more changes than an answer holds, slot by slot. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from math import ceil

from storage.events.phases import PhaseChange, PhaseSum
from supervisors.timeline.bands import PHASES, BandPhase, PauseChange, State, Step, state_of

MAX_SLOTS = 1_000


def resolution_of(start: datetime, end: datetime) -> timedelta:
    """Return the length of a slot, in whole seconds, for a period of up to MAX_SLOTS of them."""
    return timedelta(seconds=max(1, ceil((end - start).total_seconds() / MAX_SLOTS)))


def slot_limits(start: datetime, end: datetime, pauses: Iterable[PauseChange]) -> list[datetime]:
    """Return the limits of the slots, so that no pause begins or ends within a slot."""
    resolution = resolution_of(start, end)
    count = ceil((end - start) / resolution)
    regular = {start + number * resolution for number in range(count)}
    return sorted(regular | {end} | {pause.at for pause in pauses if start < pause.at < end})


def merged_steps(
    sums: Sequence[PhaseSum],
    limits: Sequence[datetime],
    carried: Step,
    last_changes: Mapping[int, PhaseChange],
) -> list[Step]:
    """Return the steps of the slots. A slot in which one change happened shows it at its moment.

    `carried`: what held before the first slot. `last_changes`: those that `last_ids` names.
    """
    steps: list[Step] = []
    for slot, group in groupby(sums, key=lambda phase_sum: phase_sum.slot):
        phases = list(group)
        last = phases[-1]
        after = _state_after(last, last_changes)
        if last.changes == 1 == len(phases):
            steps.append(Step(last.first_at, after))
        else:
            state = steps[-1].state if steps else carried.state
            steps += [
                Step(limits[slot], _mixture(phases, limits[slot], state)),
                Step(limits[slot + 1], after),
            ]
    return steps


def last_ids(sums: Sequence[PhaseSum]) -> list[int]:
    """Return the ids of the last change of each slot, whose sentence may hold until the next slot's."""
    return [list(group)[-1].last_id for _, group in groupby(sums, key=lambda phase_sum: phase_sum.slot)]


def _state_after(last: PhaseSum, last_changes: Mapping[int, PhaseChange]) -> State:
    change = last_changes.get(last.last_id)
    return State(BandPhase(last.phase)) if change is None else state_of(change)


def _mixture(phases: Sequence[PhaseSum], begin: datetime, carried: State) -> State:
    """Return the state of a slot with several changes, which began in the `carried` state."""
    seconds: dict[BandPhase, float] = {}
    before = (min(phase.first_at for phase in phases) - begin).total_seconds()
    for phase, amount in ((carried.phase, before), *((PHASES[one.phase], one.seconds) for one in phases)):
        if amount:
            seconds[phase] = round(seconds.get(phase, 0.0) + amount, 6)
    return State(BandPhase.MIXED, seconds=seconds, runs=sum(phase.runs for phase in phases))
