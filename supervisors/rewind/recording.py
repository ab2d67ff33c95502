"""Recordings: what the event log says of one agent in a period, as the inputs of a replay. Pure functions.

A recording holds what the rules do not decide: what arrived and what people asked for, how long each run
took, what it cleared and for how long it slept.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import takewhile
from typing import Any
from uuid import UUID

from storage.agent_facts import AgentState
from storage.events.model import Event, EventType
from storage.events.rewind import KnownNotification, RecordedRun
from storage.ids import derive_id
from storage.model import AgentStatus, Priority, Source
from storage.notifications.schedules import Schedule
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES, WakeReason
from supervisors.policy.phases import HELD_BY_LIMITS, Phase
from supervisors.policy.transitions import FAILURES

WAITS = frozenset({HELD_BY_LIMITS, Phase.QUEUED})  # the phases of an agent that is due and may not start
ALREADY_HERE = 0  # the id of an event that stands for something from before the period


@dataclass(slots=True)
class Arrival:
    """A notification from its arrival, or from the end of its clearing, until it is cleared.

    In the recording, `first_run` is the first run that began with it in the queue, or would have, and
    `cleared_by` the one that cleared it, `offset` after its start; None if no run did.
    The last three are those of one replay. `runs_before`: how many runs had started in it when this came.
    """

    id: UUID
    source: Source
    priority: Priority
    scheduled_for: datetime | None
    urgent: bool
    first_run: int
    cleared_by: int | None = None
    offset: timedelta = timedelta(0)
    came_at: datetime | None = None
    activated_at: datetime | None = None
    runs_before: int = 0

    @property
    def needed_runs(self) -> int:
        """Return how many runs had it in the queue until one cleared it; at least one."""
        return 1 if self.cleared_by is None else max(1, self.cleared_by - self.first_run + 1)

    def is_active(self, now: datetime) -> bool:
        """Return whether it is of high priority and, if it is a reminder, due."""
        at = self.activated_at
        return at is not None and (at <= now or at != self.scheduled_for)


@dataclass(frozen=True)
class Recording:
    """One agent from `start` to before `end`, with its events in the order of their times.

    What waited at `start` arrives first. `runs`: by start, with those that fill its limits at `start` and the
    first one after `end`. `sleep_until`: the end of the sleep after the last of them. `initial`: the state at
    `start`.
    """

    start: datetime
    end: datetime
    events: Sequence[Event]
    runs: Sequence[RecordedRun]
    notifications: Mapping[UUID, KnownNotification]
    initial: AgentState
    organization_paused: bool = False
    sleep_until: datetime | None = None

    @cached_property
    def numbers(self) -> Mapping[UUID | None, int]:
        """Return the number of each run."""
        return {run.id: number for number, run in enumerate(self.runs)}

    @cached_property
    def failed(self) -> Collection[UUID | None]:
        """Return the runs after which the agent backed off."""
        return {event.run_id for event in self.events if _tells_of_failure(event)}

    @cached_property
    def first_number(self) -> int:
        """Return the number of the first run that started in the period, or after it."""
        return sum(run.started_at < self.start for run in self.runs)

    @cached_property
    def arrivals(self) -> Mapping[tuple[int, UUID], Arrival]:
        """Return the arrivals, by the event and the notification."""
        return _arrivals_of(self)

    @cached_property
    def sleeps(self) -> Sequence[datetime | None]:
        """Return until when the agent slept before each run, and after the last one; None: not known."""
        return _sleeps_of(self)

    def recorded_runs(self) -> list[RecordedRun]:
        """Return the runs that started in the period."""
        return [run for run in self.runs if self.start <= run.started_at < self.end]


def initial_state(
    agent_id: UUID, phase: str, next_at: datetime | None, runs: Sequence[RecordedRun], start: datetime
) -> AgentState:
    """Return the state at the start of a period, as far as the phase then and the runs before it tell it.

    What waited while the agent was asleep had been silenced by a stop: otherwise it would have started it.
    """
    before = [run for run in runs if run.started_at < start]
    over = [run for run in before if run.ended_at is not None and run.ended_at < start]
    failures = sum(1 for _ in takewhile(lambda run: run.outcome in FAILURES, reversed(over)))
    if phase == Phase.QUARANTINED:
        failures = max(failures, QUARANTINE_AFTER_FAILURES)
    state = AgentState(
        agent_id,
        last_started_at=before[-1].started_at if before else None,
        last_ended_at=over[-1].ended_at if over else None,
        failures=failures,
        retries=failures,
        paused=phase == Phase.PAUSED,
    )
    if before and before[-1] not in over:
        run = before[-1]
        return replace(state, status=AgentStatus.RUNNING, run_id=run.id, run_started_at=run.started_at)
    if phase in {Phase.BACKING_OFF, Phase.QUARANTINED}:
        reason = WakeReason.RETRY_AFTER_FAILURE if failures else WakeReason.UNCLEARED_NOTIFICATIONS
        return replace(state, retry_at=next_at, retry_reason=reason)
    if phase == Phase.ARCHIVED:
        return replace(state, status=AgentStatus.ARCHIVED)
    return replace(state, stopped_at=start) if phase == Phase.ASLEEP and before else state


def _tells_of_failure(event: Event) -> bool:
    """Return whether a run has ended and is tried again later, not at once."""
    next_at = moment_of(event.data.get("next_at"))
    is_backing_off = event.phase in {Phase.BACKING_OFF, Phase.QUARANTINED}
    return "outcome" in event.data and is_backing_off and next_at is not None and next_at > event.at


def _arrivals_of(recording: Recording) -> dict[tuple[int, UUID], Arrival]:
    arrivals: dict[tuple[int, UUID], Arrival] = {}
    waiting: dict[UUID, Arrival] = {}
    told: dict[UUID, dict[str, Any]] = {}  # what the events say of each notification
    next_run = recording.first_number
    for event in recording.events:
        number, id_ = recording.numbers.get(event.run_id), event.resource_id
        if event.type is EventType.RUN_STARTED and number is not None:
            next_run = number + 1
        if id_ is None:
            continue
        told.setdefault(id_, {}).update(event.data)
        if event.type is EventType.NOTIFICATION_CREATED or "cleared" in event.data.get("fields", ()):
            waiting[id_] = arrivals[event.id, id_] = _arrival(id_, told[id_], recording, next_run)
        elif event.type is EventType.NOTIFICATION_DELETED:
            waiting.pop(id_, None)
        elif event.type is EventType.NOTIFICATION_CLEARED and id_ in waiting:
            one = waiting.pop(id_)
            if number is not None and event.actor.startswith("run:"):
                one.cleared_by, one.offset = number, event.at - recording.runs[number].started_at
    return arrivals


def _arrival(id_: UUID, told: Mapping[str, Any], recording: Recording, next_run: int) -> Arrival:
    """Return a notification as it was then: as its events tell, else as it is now."""
    known = recording.notifications.get(id_)
    source = told.get("source") or (known.source if known else Source.API)
    priority = told.get("priority") or (known.priority if known else Priority.LOW)
    is_told = "source" in told or "scheduled_for" in told
    scheduled_for = moment_of(told.get("scheduled_for")) if known is None or is_told else known.scheduled_for
    urgent = known is not None and known.urgent
    return Arrival(id_, Source(source), Priority(priority), scheduled_for, urgent, next_run)


def moment_of(value: object) -> datetime | None:
    """Return the moment in the data of an event, where it is a text."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value  # type: ignore[return-value]


def _sleeps_of(recording: Recording) -> list[datetime | None]:
    """Return the ends of the sleeps.

    A run that interrupted a sleep names its end. One that began with the end of its sleep was due when the
    log says that it had to wait, or when it was to wake.
    """
    due: dict[int, datetime] = {}
    number, is_waiting = recording.first_number, False
    for event in recording.events:
        started = recording.numbers.get(event.run_id)
        if event.type is EventType.RUN_STARTED and started is not None:
            number, is_waiting = started + 1, False
        elif event.phase is not None:
            next_at = moment_of(event.data.get("next_at"))
            if event.phase in WAITS and not is_waiting:
                due[number] = event.at
            elif event.phase == Phase.ASLEEP and next_at is not None:
                due[number] = next_at
            is_waiting = event.phase in WAITS
    ends = [run.interrupted_sleep_until for run in recording.runs]
    for number, run in enumerate(recording.runs):
        if ends[number] is None and run.wake_reason == WakeReason.SLEEP_ELAPSED:
            ends[number] = min(due.get(number, run.started_at), run.started_at)
    return [*ends, recording.sleep_until]


def arrivals_before(known: Collection[KnownNotification], start: datetime) -> list[Event]:
    """Return events that stand for the arrivals of what waited at the start of a period."""
    waited = sorted((one for one in known if one.created_at < start), key=lambda one: one.created_at)
    names = ("source", "priority", "scheduled_for")
    return [
        _created(one, one.id, one.created_at, {name: getattr(one, name) for name in names}) for one in waited
    ]


def with_schedules(recording: Recording, moments: Sequence[tuple[Schedule, Sequence[datetime]]]) -> Recording:
    """Return the recording in which these schedules notify at other moments, each time."""
    if not moments:
        return recording
    replaced = {str(schedule.id) for schedule, _ in moments}
    gone = {one.id for one in recording.notifications.values() if one.source_id in replaced}
    events = [event for event in recording.events if event.resource_id not in gone]
    for schedule, ats in moments:
        data = {"source": Source.SYSTEM, "priority": schedule.priority}
        events += [_created(schedule, derive_id(schedule.id, str(at)), at, data) for at in ats]
    return replace(recording, events=sorted(events, key=lambda event: (event.at, event.id)))


def _created(of: KnownNotification | Schedule, id_: UUID, at: datetime, data: dict[str, Any]) -> Event:
    organization_id, agent_id, kind = of.organization_id, of.agent_id, EventType.NOTIFICATION_CREATED
    return Event(ALREADY_HERE, at, kind, organization_id, agent_id, None, id_, "", None, data)
