"""Recordings: what the event log says of one agent in a period, as the inputs of a replay. Pure functions.

A recording holds what the rules do not decide: what arrived and what people asked for, how long each run
took, what it cleared and for how long it slept.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
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
class Life:
    """A notification from its arrival, or from the end of its clearing, until it is cleared.

    `first_run`: the first run that began with it in the queue, or would have. `cleared_by`: the number of the
    run that cleared it, `offset` after its start; None if none did. `cleared_at`: None if nobody did.
    """

    source: Source
    priority: Priority
    scheduled_for: datetime | None
    urgent: bool
    first_run: int
    cleared_by: int | None = None
    offset: timedelta = timedelta(0)
    cleared_at: datetime | None = None
    is_seen: bool = False  # a run began with it in the queue

    @property
    def needed_runs(self) -> int:
        """Return how many runs had it in the queue until one cleared it; at least one."""
        return 1 if self.cleared_by is None else max(1, self.cleared_by - self.first_run + 1)


@dataclass(frozen=True, slots=True)
class Recording:
    """One agent from `start` to before `end`, with its events in the order of their ids.

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
    numbers: Mapping[UUID, int] = field(init=False)  # of the runs
    failed: Collection[UUID] = field(init=False)  # the runs after which the agent backed off

    def __post_init__(self) -> None:
        numbers = {run.id: number for number, run in enumerate(self.runs)}
        failed = {event.run_id for event in self.events if event.run_id and _tells_of_failure(event)}
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "failed", failed)

    def number_of(self, event: Event) -> int | None:
        """Return the number of the run that the event is about; None if it is about none."""
        return self.numbers.get(event.run_id) if event.run_id else None

    def first_number(self) -> int:
        """Return the number of the first run that started in the period, or after it."""
        return sum(run.started_at < self.start for run in self.runs)

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
    last = before[-1] if before else None
    over = [run for run in before if run.ended_at is not None and run.ended_at < start]
    failures = sum(1 for _ in takewhile(lambda run: run.outcome in FAILURES, reversed(over)))
    is_backing_off = phase in {Phase.BACKING_OFF, Phase.QUARANTINED}
    if phase == Phase.QUARANTINED:
        failures = max(failures, QUARANTINE_AFTER_FAILURES)
    is_running = last is not None and last not in over
    status = AgentStatus.ARCHIVED if phase == Phase.ARCHIVED else AgentStatus.SLEEPING
    reason = WakeReason.RETRY_AFTER_FAILURE if failures else WakeReason.UNCLEARED_NOTIFICATIONS
    return AgentState(
        agent_id,
        status=AgentStatus.RUNNING if is_running else status,
        run_id=last.id if last and is_running else None,
        run_started_at=last.started_at if last and is_running else None,
        last_started_at=last.started_at if last else None,
        last_ended_at=over[-1].ended_at if over else None,
        stopped_at=start if phase == Phase.ASLEEP and not is_running and before else None,
        failures=failures,
        retries=failures,
        retry_at=next_at if is_backing_off and not is_running else None,
        retry_reason=reason if is_backing_off and not is_running else "",
        paused=phase == Phase.PAUSED,
    )


def _tells_of_failure(event: Event) -> bool:
    """Return whether a run has ended and is tried again later, not at once."""
    next_at = moment_of(event.data.get("next_at"))
    is_backing_off = event.phase in {Phase.BACKING_OFF, Phase.QUARANTINED}
    return "outcome" in event.data and is_backing_off and next_at is not None and next_at > event.at


def lives_of(recording: Recording) -> dict[tuple[int, UUID], Life]:
    """Return the life that begins with each arrival, by the event and the notification."""
    lives: dict[tuple[int, UUID], Life] = {}
    waiting: dict[UUID, Life] = {}
    unseen: list[Life] = []
    told: dict[UUID, dict[str, Any]] = {}  # what the events say of each notification
    next_run = recording.first_number()
    for event in recording.events:
        if event.type is EventType.RUN_STARTED and (started := recording.number_of(event)) is not None:
            next_run = started + 1
            for life in unseen:
                life.is_seen = life.cleared_at is None
            unseen = []
        id_ = event.resource_id
        if id_ is None:
            continue
        told.setdefault(id_, {}).update(event.data)
        is_open_again = "cleared" in event.data.get("fields", ())
        if event.type is EventType.NOTIFICATION_CREATED or is_open_again:
            known = recording.notifications.get(id_)
            waiting[id_] = lives[event.id, id_] = _new_life(told[id_], known, next_run)
            unseen.append(waiting[id_])
        elif event.type is EventType.NOTIFICATION_DELETED:
            waiting.pop(id_, None)
        elif event.type is EventType.NOTIFICATION_CLEARED and id_ in waiting:
            _end(waiting.pop(id_), event, recording)
    return lives


def _new_life(told: Mapping[str, Any], known: KnownNotification | None, next_run: int) -> Life:
    """Return the life of a notification as it was then: as its events tell, else as it is now."""
    source = told.get("source") or (known.source if known else Source.API)
    priority = told.get("priority") or (known.priority if known else Priority.LOW)
    is_told = "source" in told or "scheduled_for" in told
    scheduled_for = told.get("scheduled_for") if is_told or known is None else known.scheduled_for
    urgent = known is not None and known.urgent
    return Life(Source(source), Priority(priority), moment_of(scheduled_for), urgent, next_run)


def _end(life: Life, event: Event, recording: Recording) -> None:
    life.cleared_at = event.at
    number = recording.number_of(event)
    if number is not None and event.actor.startswith("run:"):
        life.cleared_by, life.offset = number, event.at - recording.runs[number].started_at


def moment_of(value: object) -> datetime | None:
    """Return the moment in the data of an event, where it is a text."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value  # type: ignore[return-value]


def sleeps_of(recording: Recording) -> list[datetime | None]:
    """Return until when the agent slept before each run, and after the last one; None if nothing is known.

    A run that interrupted a sleep names its end. One that began with the end of its sleep was due when the
    log says that it had to wait, or when it was to wake.
    """
    due: dict[int, datetime] = {}
    number, is_waiting = recording.first_number(), False
    for event in recording.events:
        started = recording.number_of(event)
        if event.type is EventType.RUN_STARTED and started is not None:
            number, is_waiting = started + 1, False
        elif event.phase is not None:
            next_at = moment_of(event.data.get("next_at"))
            if event.phase in WAITS and not is_waiting:
                due[number] = event.at
            elif event.phase == Phase.ASLEEP and next_at is not None:
                due[number] = next_at
            is_waiting = event.phase in WAITS
    ends: list[datetime | None] = []
    for number, run in enumerate(recording.runs):
        until = run.interrupted_sleep_until
        if until is None and run.wake_reason == WakeReason.SLEEP_ELAPSED:
            until = min(due.get(number, run.started_at), run.started_at)
        ends.append(until)
    return [*ends, recording.sleep_until]


def arrivals_before(known: Collection[KnownNotification], start: datetime) -> list[Event]:
    """Return events that stand for the arrivals of what waited at the start of a period."""
    return [
        _arrival(
            one,
            one.id,
            one.created_at,
            {"source": one.source, "priority": one.priority, "scheduled_for": one.scheduled_for},
        )
        for one in sorted(known, key=lambda one: one.created_at)
        if one.created_at < start
    ]


def with_schedules(recording: Recording, moments: Mapping[Schedule, Sequence[datetime]]) -> Recording:
    """Return the recording in which these schedules notify at other moments, each time."""
    if not moments:
        return recording
    replaced = {str(schedule.id) for schedule in moments}
    gone = {one.id for one in recording.notifications.values() if one.source_id in replaced}
    events = [event for event in recording.events if event.resource_id not in gone]
    for schedule in moments:
        data = {"source": Source.SYSTEM, "priority": schedule.priority}
        events += [_arrival(schedule, derive_id(schedule.id, str(at)), at, data) for at in moments[schedule]]
    return replace(recording, events=sorted(events, key=lambda event: (event.at, event.id)))


def _arrival(of: KnownNotification | Schedule, id_: UUID, at: datetime, data: dict[str, Any]) -> Event:
    organization_id, agent_id, kind = of.organization_id, of.agent_id, EventType.NOTIFICATION_CREATED
    return Event(ALREADY_HERE, at, kind, organization_id, agent_id, None, id_, "", None, data)
