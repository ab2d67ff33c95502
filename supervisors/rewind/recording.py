"""Recordings: what the event log says of one agent in a period, as the inputs of a replay. Pure functions.

A recording holds what the rules do not decide: what arrived and what people asked for, how long each run
took, what it cleared and for how long it slept.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from storage.agent_facts import AgentState
from storage.events.model import Event, EventType
from storage.events.rewind import KnownNotification, RecordedRun
from storage.ids import derive_id
from storage.model import AgentStatus, Outcome, Priority, Source
from storage.notifications.schedules import Schedule
from supervisors.policy.decisions import WakeReason
from supervisors.policy.phases import HELD_BY_LIMITS, Phase

WARM_UP = timedelta(days=1)  # before the period
OTHER = {Priority.HIGH: Priority.LOW, Priority.LOW: Priority.HIGH}
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
    """One agent in the period from `start` to before `end`.

    It is replayed from `replayed_from` on, with the `logged` events since then. `runs`: by start, with those
    that fill its limits and the first one after `end`. `present`: the state now; `organization_paused`:
    whether its organization was paused at `replayed_from`.
    """

    present: AgentState
    replayed_from: datetime
    start: datetime
    end: datetime
    logged: Sequence[Event]
    runs: Sequence[RecordedRun]
    notifications: Mapping[UUID, KnownNotification]
    organization_paused: bool = False

    @cached_property
    def events(self) -> Sequence[Event]:
        """Return the events in the order of their times, after those that stand for what waited."""
        in_order = sorted(self.logged, key=lambda event: (event.at, event.id))
        return [*_waiting_at(self.replayed_from, self.notifications.values(), in_order), *in_order]

    @cached_property
    def initial(self) -> AgentState:
        """Return the state when the replay begins, between runs. The first event after it tells the phase.

        What waited while the agent was asleep had been silenced by a stop: else it would have started it.
        """
        last = self.runs[self.first_number - 1] if self.first_number else None
        phases = (event.data.get("from", Phase.ASLEEP) for event in self.events if event.phase is not None)
        phase = next(phases, self.present.phase)
        return AgentState(
            self.present.agent_id,
            status=AgentStatus.ARCHIVED if phase == Phase.ARCHIVED else AgentStatus.SLEEPING,
            last_started_at=last.started_at if last else None,
            last_ended_at=last.ended_at if last else None,
            stopped_at=self.replayed_from if last and phase == Phase.ASLEEP else None,
            paused=phase == Phase.PAUSED,
            sleep_until=self.sleeps[self.first_number],
        )

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
        """Return the number of the first run that started after the replay begins."""
        return sum(run.started_at < self.replayed_from for run in self.runs)

    @cached_property
    def arrivals(self) -> Mapping[tuple[int, UUID], Arrival]:
        """Return the arrivals, by the event and the notification."""
        arrivals: dict[tuple[int, UUID], Arrival] = {}
        waiting: dict[UUID, Arrival] = {}
        told: dict[UUID, dict[str, Any]] = {}  # what the events say of each notification
        next_run = self.first_number
        for event in self.events:
            number, id_ = self.numbers.get(event.run_id), event.resource_id
            if event.type is EventType.RUN_STARTED and number is not None:
                next_run = number + 1
            if id_ is None:
                continue
            told.setdefault(id_, {}).update(event.data)
            if event.type is EventType.NOTIFICATION_CREATED or "cleared" in event.data.get("fields", ()):
                known = self.notifications.get(id_)
                waiting[id_] = arrivals[event.id, id_] = _arrival(id_, told[id_], known, next_run)
            elif event.type is EventType.NOTIFICATION_DELETED:
                waiting.pop(id_, None)
            elif event.type is EventType.NOTIFICATION_CLEARED and id_ in waiting:
                one = waiting.pop(id_)
                if number is not None and event.actor.startswith("run:"):
                    one.cleared_by, one.offset = number, event.at - self.runs[number].started_at
        return arrivals

    @cached_property
    def sleeps(self) -> Sequence[datetime | None]:
        """Return until when the agent slept before each run, and after the last one; None: not known.

        A run that interrupted a sleep names its end. One that began with the end of its sleep was due when
        the log says that it had to wait, or when it was to wake.
        """
        due: dict[int, datetime] = {}
        number, is_waiting = self.first_number, False
        for event in self.events:
            started = self.numbers.get(event.run_id)
            if event.type is EventType.RUN_STARTED and started is not None:
                number, is_waiting = started + 1, False
            elif event.phase is not None:
                next_at = moment_of(event.data.get("next_at"))
                if event.phase in WAITS and not is_waiting:
                    due[number] = event.at
                elif event.phase == Phase.ASLEEP and next_at is not None:
                    due[number] = next_at
                is_waiting = event.phase in WAITS
        ends = [run.interrupted_sleep_until for run in self.runs]
        for number, run in enumerate(self.runs):
            if ends[number] is None and run.wake_reason == WakeReason.SLEEP_ELAPSED:
                ends[number] = min(due.get(number, run.started_at), run.started_at)
        is_last = not self.runs or self.runs[-1].started_at < self.end
        return [*ends, self.present.sleep_until if is_last else None]


def replayed_from(runs: Iterable[RecordedRun], start: datetime, created_at: datetime) -> datetime:
    """Return from when on to replay, so that the state at the start of a period follows from the events.

    A run that slept leaves nothing of what was before it. Without one, a day before the period is replayed.
    """
    begins_at = start - WARM_UP
    recent = [run for run in runs if run.started_at < start and (run.ended_at or start) > begins_at]
    slept = [run for run in recent if run.outcome is Outcome.SLEPT]
    first = next(iter(slept[-1:] or recent), None)
    return max(created_at, begins_at) if first is None else first.started_at


def _tells_of_failure(event: Event) -> bool:
    """Return whether a run has ended and is tried again later, not at once."""
    next_at = moment_of(event.data.get("next_at"))
    is_backing_off = event.phase in {Phase.BACKING_OFF, Phase.QUARANTINED}
    return "outcome" in event.data and is_backing_off and next_at is not None and next_at > event.at


def _arrival(id_: UUID, told: Mapping[str, Any], known: KnownNotification | None, next_run: int) -> Arrival:
    """Return a notification as it was then: as its events tell, else as it is now."""
    source = told.get("source") or (known.source if known else Source.API)
    priority = told.get("priority") or (known.priority if known else Priority.LOW)
    is_told = "source" in told or "scheduled_for" in told
    scheduled_for = moment_of(told.get("scheduled_for")) if known is None or is_told else known.scheduled_for
    urgent = known is not None and known.urgent
    return Arrival(id_, Source(source), Priority(priority), scheduled_for, urgent, next_run)


def moment_of(value: object) -> datetime | None:
    """Return the moment in the data of an event, where it is a text."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value  # type: ignore[return-value]


def _waiting_at(moment: datetime, known: Iterable[KnownNotification], events: Iterable[Event]) -> list[Event]:
    """Return events that stand for the arrivals of what waited at a moment, as it was before `events`."""
    cleared: dict[UUID | None, bool] = {}
    priorities: dict[UUID | None, Priority] = {}
    for event in events:
        if "cleared" in event.data.get("fields", ()):  # it was cleared until then
            cleared.setdefault(event.resource_id, True)
        elif event.type is EventType.NOTIFICATION_CLEARED:
            cleared.setdefault(event.resource_id, False)
        if event.type is EventType.NOTIFICATION_CHANGED and "priority" in event.data:
            priorities.setdefault(event.resource_id, OTHER[event.data["priority"]])
    waited = []
    for one in sorted(known, key=lambda one: one.created_at):
        if one.created_at < moment and not cleared.get(one.id, one.cleared):
            priority = priorities.get(one.id, one.priority)
            data = {"source": one.source, "priority": priority, "scheduled_for": one.scheduled_for}
            waited.append(_created(one, one.id, one.created_at, data))
    return waited


def with_schedules(recording: Recording, moments: Sequence[tuple[Schedule, Sequence[datetime]]]) -> Recording:
    """Return the recording in which these schedules notify at other moments of the period, each time."""
    if not moments:
        return recording
    replaced = {str(schedule.id) for schedule, _ in moments}
    known, start = recording.notifications.values(), recording.start
    gone = {one.id for one in known if one.source_id in replaced and one.created_at >= start}
    events = [event for event in recording.logged if event.resource_id not in gone]
    for schedule, ats in moments:
        data = {"source": Source.SYSTEM, "priority": schedule.priority}
        events += [_created(schedule, derive_id(schedule.id, str(at)), at, data) for at in ats]
    return replace(recording, logged=events)


def _created(of: KnownNotification | Schedule, id_: UUID, at: datetime, data: dict[str, Any]) -> Event:
    organization_id, agent_id, kind = of.organization_id, of.agent_id, EventType.NOTIFICATION_CREATED
    return Event(ALREADY_HERE, at, kind, organization_id, agent_id, None, id_, "", None, data)
