"""The paths of an agent: its course with some notifications, and whether its next start is decided. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from storage.agent_facts import AgentFacts
from storage.model import AgentStatus, Priority, Source
from storage.notifications.activation import activation
from supervisors.engine.snapshot import Present
from supervisors.policy import explanations
from supervisors.policy.decisions import Wake
from supervisors.policy.phases import Phase
from supervisors.preview.course import Arrival, Course, follow


@dataclass(frozen=True, slots=True)
class Event:
    """Notifications of one kind, the first of which comes at the moment that is asked for."""

    source: Source
    priority: Priority
    scheduled_for: datetime | None = None
    count: int = 1
    seconds_apart: float = 0.0

    def arrivals(self, first_at: datetime) -> tuple[Arrival, ...]:
        """Return those that can wake an agent; none if the priority is low."""
        moments = (first_at + timedelta(seconds=self.seconds_apart * index) for index in range(self.count))
        active = ((at, activation(self.priority, self.scheduled_for, at)) for at in moments)
        return tuple(Arrival(at, active_at, self.source) for at, active_at in active if active_at is not None)

    def last_at(self, first_at: datetime) -> datetime:
        """Return when the last one comes."""
        return first_at + timedelta(seconds=self.seconds_apart * (self.count - 1))

    def is_reminder_at(self, moment: datetime) -> bool:
        """Return whether notifications that come at this moment become active later."""
        return self.scheduled_for is not None and self.scheduled_for > moment


@dataclass(frozen=True, slots=True)
class Path:
    """One way that things can go, from the present to `moment`, and beyond it to the next start.

    `first_at`: when the first notification comes. `said`: sentences about the change that the path begins
    with.
    """

    present: Present
    facts: AgentFacts  # at the beginning
    arrivals: Sequence[Arrival]
    first_at: datetime
    moment: datetime
    course: Course
    said: Sequence[str] = ()

    @property
    def start(self) -> Wake | None:
        """Return the next start; None if nothing starts the agent, or if the moment is not decided."""
        return None if self.waits_for_slot else self.course.start

    @property
    def waits_for_slot(self) -> bool:
        """Return whether a start is due at once, but no run may start or none has room."""
        start = self.course.start
        if start is None or start.at > self.present.now:
            return False
        is_queued = self.facts.state.queued_at is not None
        return is_queued or not self.present.has_room or not self.present.limits.may_start

    @property
    def is_running(self) -> bool:
        return self.facts.state.run_id is not None

    @property
    def is_archived(self) -> bool:
        return self.facts.state.status is AgentStatus.ARCHIVED

    @property
    def phase(self) -> Phase:
        """Return the phase at the moment, or just before an earlier start."""
        if self.waits_for_slot:
            return Phase.QUEUED
        course = self.course
        is_stopping = self.present.run_is_stopping
        return explanations.phase_of(
            course.facts, course.decision, course.moment, run_is_stopping=is_stopping
        )


def path_of(
    present: Present,
    facts: AgentFacts,
    first_at: datetime,
    event: Event | None = None,
    said: Sequence[str] = (),
) -> Path:
    """Follow the agent with these facts. `first_at`: when the event comes, else the moment asked for."""
    arrivals = event.arrivals(first_at) if event else ()
    moment = event.last_at(first_at) if event else first_at
    course = follow(facts, arrivals, present.now, moment, present.policy)
    return Path(present, facts, arrivals, first_at, moment, course, said)


def unpaused(path: Path) -> Path:
    """Return the path as it would be if every pause ended now."""
    facts = path.facts.without_pause()
    course = follow(facts, path.arrivals, path.present.now, path.moment, path.present.policy)
    return replace(path, facts=facts, course=course)
