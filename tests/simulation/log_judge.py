"""The judge of the event log: after every commit, what the events say equals what the tables hold.

It reads the events of a commit as a program would that knows nothing else, and keeps what they say of each
notification, agent, run and organization. A change without its event and an event without its effect both
make the two differ. Events about one thing must have ids in the order of its changes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hostsvc_testing.memory.tables import Nobody, Tables
from hostsvc_testing.virtual.history import History
from storage.agent_facts import AgentState, StateUpdate
from storage.events.model import Event, EventType
from storage.model import AgentStatus, Notification

Condemn = Callable[[str, UUID | None, str], None]

INVARIANT = "Log"
ASLEEP = "asleep"  # the phase of an agent without events


@dataclass(frozen=True, slots=True)
class Told:
    """A notification as its events tell it."""

    source: str
    priority: str
    scheduled_for: datetime | None
    cleared: bool = False


class LogJudge(Nobody):
    """A witness that reads along. It reports violations to `condemn`."""

    def __init__(self, tables: Tables, history: History, condemn: Condemn) -> None:
        self._tables = tables
        self._history = history
        self._condemn = condemn
        self._touched: set[UUID] = set()  # agents that the present commit changes
        self._last_ids: dict[tuple[str, UUID], int] = {}  # the last event about each thing
        self._told: dict[UUID, dict[UUID, Told]] = {}  # by agent and notification
        self._phases: dict[UUID, str] = {}
        self._open_runs: dict[UUID, UUID] = {}  # by agent
        self._outcomes: dict[UUID, str] = {}  # by run
        self._deleted: set[UUID] = set()
        self._paused: set[UUID] = set()

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None:
        self._touched.add(after.agent_id)

    def changed(self, agent_id: UUID, what: str) -> None:
        self._touched.add(agent_id)

    def committed(self, events: Sequence[Event]) -> None:
        for event in events:
            about = self._history.name(event.agent_id or event.organization_id)
            self._history.note(f"event {event.id}: {about} {event.type}")
            self._check_order(event)
            for breach in self._read(event):
                self._condemn(INVARIANT, event.agent_id, f"event {event.id}, {event.type}, {breach}")
            if event.agent_id is not None:
                self._touched.add(event.agent_id)
        for agent_id in sorted(self._touched):
            for breach in self._compare(agent_id):
                self._condemn(INVARIANT, agent_id, breach)
        self._touched.clear()

    def _check_order(self, event: Event) -> None:
        subject = _subject(event)
        last_id = self._last_ids.get(subject, 0)
        if event.id <= last_id:
            self._condemn(
                INVARIANT,
                event.agent_id,
                f"event {event.id}, {event.type}, comes after {last_id} about the same",
            )
        self._last_ids[subject] = event.id

    def _read(self, event: Event) -> Iterator[str]:
        """Take over what an event says; yield what is wrong with it."""
        kind, _, _ = event.type.partition(".")
        if kind == "notification":
            yield from self._read_notification(event)
        elif kind in {"agent", "run"} and event.agent_id is not None:
            yield from self._read_state(event, event.agent_id)
        elif event.type is EventType.ORGANIZATION_PAUSED:
            if event.organization_id in self._paused:
                yield "pauses what is paused"
            self._paused.add(event.organization_id)
        elif event.type is EventType.ORGANIZATION_UNPAUSED:
            if event.organization_id not in self._paused:
                yield "ends a pause that is none"
            self._paused.discard(event.organization_id)

    def _read_notification(self, event: Event) -> Iterator[str]:
        assert event.agent_id is not None
        assert event.resource_id is not None
        told, data = self._told.setdefault(event.agent_id, {}), event.data
        before = told.get(event.resource_id)
        if event.type is EventType.NOTIFICATION_CREATED:
            if before is not None:
                yield "creates what is there"
            told[event.resource_id] = Told(data["source"], data["priority"], _moment(data))
        elif before is None:
            yield "is about nothing that was created"
        elif event.type is EventType.NOTIFICATION_CLEARED:
            if before.cleared:
                yield "clears what is cleared"
            told[event.resource_id] = replace(before, cleared=True)
        elif event.type is EventType.NOTIFICATION_DELETED:
            del told[event.resource_id]
        else:
            if not data["fields"]:
                yield "changes nothing"
            told[event.resource_id] = _after_change(before, data)

    def _read_state(self, event: Event, agent_id: UUID) -> Iterator[str]:
        if event.type is EventType.RUN_STARTED:
            if agent_id in self._open_runs:
                yield "starts a run beside another one"
            assert event.run_id is not None
            self._open_runs[agent_id] = event.run_id
        elif event.type is EventType.RUN_ENDED:
            if event.run_id is None or self._open_runs.pop(agent_id, None) != event.run_id:
                yield "ends a run that is not open"
            else:
                self._outcomes[event.run_id] = event.data["outcome"]
        elif event.type is EventType.AGENT_DELETED:
            self._deleted.add(agent_id)
        if event.phase is not None:
            before, data = self._phases.get(agent_id, ASLEEP), event.data
            if (data["from"], data["to"]) != (before, event.phase):
                yield f"goes from {data['from']} to {data['to']}, not from {before} to {event.phase}"
            if event.type is EventType.AGENT_RESCHEDULED and data["from"] != data["to"]:
                yield f"is no change of phase, and goes from {data['from']} to {data['to']}"
            if event.type == f"agent.{data['from']}":
                yield f"is a change of phase, and stays {data['from']}"
            self._phases[agent_id] = event.phase

    def _compare(self, agent_id: UUID) -> Iterator[str]:
        """Yield the differences between what the events say and what the tables hold."""
        tables = self._tables
        is_deleted = agent_id in tables.deleted
        if is_deleted != (agent_id in self._deleted):
            yield f"deleted: {is_deleted}, and the log says otherwise"
        organization_id = tables.agents[agent_id].organization_id
        if tables.organizations[organization_id].paused != (organization_id in self._paused):
            yield "its organization is paused or not, and the log says otherwise"
        yield from self._compare_queue(agent_id)
        state = tables.states.get(agent_id)
        if state is None:
            return
        phase = self._phases.get(agent_id, ASLEEP)
        if state.status is AgentStatus.SLEEPING and state.paused != (phase == "paused"):
            yield f"is paused: {state.paused}, and the log says {phase}"
        if state.phase != phase:
            yield f"is recorded as {state.phase}, and the log says {phase}"
        open_run = self._open_runs.get(agent_id)
        if state.run_id != open_run:
            yield f"has the run {_number(state.run_id)}, and the log says {_number(open_run)}"
        run = tables.runs.get(open_run) if open_run else None
        if run is not None and run.ended_at is not None:
            yield f"{_number(open_run)} is over, and the log does not say so"

    def _compare_queue(self, agent_id: UUID) -> Iterator[str]:
        told = self._told.get(agent_id, {})
        queue = {one.id: one for one in self._tables.queue(agent_id)}
        for id_ in queue.keys() - told.keys():
            yield f"{queue[id_].title} is there, and the log does not say so"
        for id_ in told.keys() - queue.keys():
            yield f"notification {_number(id_)} is gone, and the log does not say so"
        for id_ in queue.keys() & told.keys():
            if _as_told(queue[id_]) != told[id_]:
                yield f"{queue[id_].title} is {_as_told(queue[id_])}, and the log says {told[id_]}"


def _subject(event: Event) -> tuple[str, UUID]:
    """Return the thing whose lock a transaction holds when it takes the id of such an event."""
    kind, _, what = event.type.partition(".")
    if kind == "notification" and event.resource_id is not None:
        return kind, event.resource_id
    if event.agent_id is None:
        return kind, event.organization_id
    return "agent" if what in {"created", "changed"} else "state", event.agent_id


def _after_change(before: Told, data: Mapping[str, Any]) -> Told:
    fields = data["fields"]
    return Told(
        source=before.source,
        priority=data["priority"] if "priority" in fields else before.priority,
        scheduled_for=_moment(data) if "scheduled_for" in fields else before.scheduled_for,
        cleared=before.cleared and "cleared" not in fields,
    )


def _as_told(one: Notification) -> Told:
    return Told(one.source, one.priority, one.scheduled_for, one.cleared)


def _moment(data: Mapping[str, Any]) -> datetime | None:
    value = data.get("scheduled_for")
    return None if value is None else datetime.fromisoformat(value)


def _number(id_: UUID | None) -> str:
    return "none" if id_ is None else f"#{id_.int}"
