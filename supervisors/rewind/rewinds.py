"""Rewinds: a recorded period of one agent, and the same under other settings, computed off the loop."""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from statistics import median
from time import thread_time
from typing import TypeVar
from uuid import UUID

from storage.agent_facts import AgentState
from storage.events.model import Event, EventType
from storage.events.rewind import RecordedEvents
from storage.events.timeline import PhaseEvents
from storage.model import Source
from supervisors.clock import Clock
from supervisors.engine.snapshot import Present
from supervisors.fair_slots import FairSlots
from supervisors.policy.explanations import when
from supervisors.rewind.least_change import WORDS, Run
from supervisors.rewind.recording import Recording, replayed_from, with_schedules
from supervisors.rewind.replay import Replay, Rules
from supervisors.timeline.bands import PauseChange
from supervisors.timeline.timelines import MAX_PAUSES, kept_from, pauses_of, require_few

Result = TypeVar("Result")
SecondsOfWait = tuple[Source, float, bool]  # whether it still waited at the end

MAX_RECORDED = 20_000  # events, and runs
MAX_REPLAY_SECONDS = 10.0  # of the processor
MAX_AT_ONCE = 2  # one organization alone has one of them
MAX_WAITING = 4  # rewinds of one organization
MAX_BANDS = 2_000
# What is changed besides, such as the name, has no part in a replay; a pause is replayed as it was.
DECIDING = frozenset({name.removesuffix("_id") for name in WORDS} | {"timezone"})
TEXTS = frozenset({Source.SMS, Source.MMS, Source.SMS_PROVIDER_A, Source.SMS_PROVIDER_B})
RUNS_AS_RECORDED = (
    "Each run lasts as long, costs as much, ends in the same way and sleeps as long as the recorded one that "
    "it stands for; if it does the work of several, as the longest of them."
)
ASSUMED = (
    RUNS_AS_RECORDED,
    "What arrived and what people asked for is as recorded: no reply of the agent changes it.",
    "The settings of today count for the whole period.",
)
SCHEDULES_ASSUMED = (
    "A schedule of the patch notifies each time: `only_if`, its check and the merging of what still waits "
    "are left out."
)


class NotKept(Exception):
    """The period begins before `oldest_at`, from when on events are kept."""

    def __init__(self, oldest_at: datetime) -> None:
        super().__init__(f"events are kept from {oldest_at} on")
        self.oldest_at = oldest_at


class TookTooLong(Exception):
    """The replays take more than MAX_REPLAY_SECONDS."""


@dataclass(frozen=True, slots=True)
class RunBand:
    """The time of a run."""

    start: datetime
    """When the run started."""
    end: datetime
    """When it ended; the end of the period if it was still active."""
    reason: str
    """The reason why it started."""


@dataclass(frozen=True, slots=True)
class Course:
    """What an agent did in a period."""

    wakes: int
    """How many runs started."""
    by_reason: Mapping[str, int]
    """How many runs started for each reason."""
    median_wait_seconds: float | None
    """How many seconds half of the high-priority notifications waited for a run at most, those of `waiting`
    until the end of the period; null: none came."""
    median_wait_by_source: Mapping[str, float]
    """The same for each source."""
    waiting: int
    """How many high-priority notifications still waited for a run at the end of the period."""
    cost_usd: Decimal
    """The cost of the runs."""
    bands: Sequence[RunBand]
    """The first 2,000 runs, by their start."""


@dataclass(frozen=True, slots=True)
class Rewind:
    """A recorded period of an agent, and the same period under other settings."""

    start: datetime
    """The start of the period."""
    end: datetime
    """The end of the period."""
    recorded: Course
    """What happened."""
    rewound: Course
    """What would have happened under the settings of the patch."""
    reproduced: int
    """How many of the recorded wakes follow from the present settings without the patch, at the same moment
    and for the same reason: all, unless settings have changed since or the clock was set."""
    summary: str
    """The difference as a sentence."""
    assumed: Sequence[str]
    """What the answer assumes, as sentences."""


class Rewinds:
    """Reads recordings and replays them. Events are kept for `kept_days`; 0: for ever."""

    def __init__(self, recorded: RecordedEvents, phases: PhaseEvents, clock: Clock, kept_days: int) -> None:
        self._recorded = recorded
        self._phases = phases
        self._clock = clock
        self._kept_days = kept_days
        self._turns = FairSlots[UUID](MAX_AT_ONCE, MAX_WAITING)

    async def compute(
        self, present: Present, start: datetime, end: datetime, compute: Callable[[Recording, Run], Result]
    ) -> Result | None:
        """Compute something of a period by replays, in a thread; None if the agent does not exist.

        Organizations take turns. Raise QueueFull, NotKept, `TooManyChanges` or TookTooLong.
        """
        organization_id = present.facts.organization_id
        await self._turns.take(organization_id)
        try:
            recording = await self._read(present.facts.state, start, end)
            if recording is None:
                return None
            return await asyncio.to_thread(lambda: compute(recording, _runner()))
        finally:
            self._turns.release(organization_id)

    async def _read(self, state: AgentState, start: datetime, end: datetime) -> Recording | None:
        recorded = self._recorded
        origin = await self._phases.get_origin(state.agent_id)
        if origin is None:
            return None
        oldest_at = kept_from(origin, self._clock.now(), self._kept_days)
        if start < oldest_at and origin.created_at < oldest_at:
            raise NotKept(oldest_at)
        runs = await recorded.list_runs(state.agent_id, start, end, MAX_RECORDED + 1)
        first = max(oldest_at, replayed_from(runs, start, origin.created_at))
        before = await recorded.list_events(state.agent_id, first, start, MAX_RECORDED)
        if len(before) == MAX_RECORDED:
            before, first = [], start
        events = await recorded.list_events(state.agent_id, start, end, MAX_RECORDED + 1)
        pauses = await self._phases.list_pauses(origin.organization_id, first, end, MAX_PAUSES + 1)
        require_few((event.at for event in events), MAX_RECORDED)
        require_few((run.started_at for run in runs if run.started_at < end), MAX_RECORDED)
        require_few((pause.at for pause in pauses if first < pause.at < end), MAX_PAUSES)
        ids = {event.resource_id for event in (*before, *events) if event.resource_id is not None}
        known = await recorded.list_notifications(state.agent_id, ids, first)
        pauses_then = pauses_of(origin, pauses)
        was_paused = bool([change for change in pauses_then if change.at <= first][-1].why)
        told = (pause for pause in _told(pauses, pauses_then[1:]) if first < pause.at < end)
        in_time = [*before, *events, *told]
        return Recording(state, first, start, end, in_time, runs, known, was_paused)


def _runner() -> Run:
    """Return what carries replays out, until they have used MAX_REPLAY_SECONDS of this thread."""
    until = thread_time() + MAX_REPLAY_SECONDS

    def run(replay: Replay) -> Replay:
        for _ in replay.steps():
            if thread_time() > until:
                raise TookTooLong
        return replay

    return run


def _told(events: Iterable[Event], changes: Iterable[PauseChange]) -> Iterator[Event]:
    """Yield the begins and ends of pauses, those of the whole instance as if they were the organization's."""
    for event, change in zip(sorted(events, key=lambda one: one.id), changes, strict=True):
        begins = EventType.ORGANIZATION_PAUSED if change.why else EventType.ORGANIZATION_UNPAUSED
        yield replace(event, type=begins)


def rewind(before: Rules, after: Rules, said: str, recording: Recording, run: Run) -> Rewind:
    """Replay a recording, and then what it would have been. `said` begins the summary."""
    first = run(Replay(recording, before))
    second = run(Replay(with_schedules(recording, after.schedules), after, first.delays))
    waits, then = _waits(first, recording.end), _waits(second, recording.end)
    recorded, rewound = _course(first, waits, recording.end), _course(second, then, recording.end)
    assumed = [*ASSUMED, *([SCHEDULES_ASSUMED] if after.schedules else [])]
    later = (event for event in recording.events if event.at >= recording.start)
    changes = [event for event in later if event.type is EventType.AGENT_CHANGED]
    if changes := [event for event in changes if DECIDING.intersection(event.data.get("fields", ()))]:
        fields = sorted({name for event in changes for name in event.data["fields"]} & DECIDING)
        assumed.append(f"Settings were changed in it, last at {when(changes[-1].at)}: {', '.join(fields)}.")
    if others := recorded.wakes - first.reproduced:
        assumed.append(f"{others} of the recorded wakes do not follow from these settings.")
    summary = f"{said} {_difference(recorded, rewound, waits, then)}"
    period = recording.start, recording.end
    return Rewind(*period, recorded, rewound, first.reproduced, summary, assumed)


def _waits(replay: Replay, end: datetime) -> list[SecondsOfWait]:
    """Return how long each notification waited for the next start, or until it was cleared or the end."""
    found = []
    for source, active_at, cleared_at in replay.waits:
        place = bisect_left(replay.starts, active_at)
        seen_at = min(filter(None, (*replay.starts[place : place + 1], cleared_at)), default=None)
        seconds = max(0.0, ((seen_at or end) - active_at).total_seconds())
        found.append((source, seconds, seen_at is None))
    return found


def _course(replay: Replay, waits: Sequence[SecondsOfWait], end: datetime) -> Course:
    sources = sorted({source for source, _, _ in waits})
    return Course(
        len(replay.wakes),
        dict(Counter(str(wake.reason) for wake in replay.wakes).most_common()),
        _median(waits, sources),
        {str(source): _median(waits, (source,)) or 0.0 for source in sources},
        sum(is_waiting for _, _, is_waiting in waits),
        sum((wake.cost_usd for wake in replay.wakes), Decimal(0)),
        [RunBand(wake.at, wake.ends_at or end, wake.reason) for wake in replay.wakes[:MAX_BANDS]],
    )


def _median(waits: Iterable[SecondsOfWait], sources: Collection[Source]) -> float | None:
    seconds = [seconds for source, seconds, _ in waits if source in sources]
    return round(median(seconds), 3) if seconds else None


def _difference(
    recorded: Course, rewound: Course, waits: Sequence[SecondsOfWait], then: Sequence[SecondsOfWait]
) -> str:
    parts = [f"{recorded.wakes} wake{' is' if recorded.wakes == 1 else 's are'} {rewound.wakes}"]
    have_texts = any(source in TEXTS for source, _, _ in (*waits, *then))
    name, sources = ("text", TEXTS) if have_texts else ("notification", frozenset(Source))
    before, after = _median(waits, sources), _median(then, sources)
    if before is not None and after is not None:
        parts.append(f"the median {name} waited {_duration(after)} instead of {_duration(before)}")
    if rewound.waiting:
        parts.append(f"{rewound.waiting} still waited at the end instead of {recorded.waiting}")
    if saved := recorded.cost_usd - rewound.cost_usd:
        parts.append(f"about {abs(saved):.2f} USD {'less' if saved > 0 else 'more'}")
    return f"{'; '.join(parts)}."


def _duration(seconds: float) -> str:
    """Write a length of time in its largest unit."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
