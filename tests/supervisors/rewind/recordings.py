"""Recordings for tests: texts that came at certain times, and runs that cleared them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from storage.agent_facts import AgentFacts, AgentState, WakeLimits
from storage.events.model import Event, EventType
from storage.events.rewind import RecordedRun
from storage.model import Outcome, Source
from supervisors.policy.decisions import Policy
from supervisors.rewind.recording import Recording
from supervisors.rewind.replay import Rules

MIDNIGHT = datetime(2026, 11, 2, tzinfo=UTC)
ORGANIZATION, AGENT = UUID(int=1), UUID(int=2)
RUN_SECONDS = 20


def at(clock: str) -> datetime:
    hours, minutes, seconds = map(int, f"{clock}:00".split(":")[:3])
    return MIDNIGHT + timedelta(hours=hours, minutes=minutes, seconds=seconds)


def note(number: int) -> UUID:
    return UUID(int=100 + number)


class Log:
    """The events of a day, as they are written one after the other."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.runs: list[RecordedRun] = []

    def comes(self, number: int, clock: str, source: Source = Source.SMS, priority: str = "high") -> None:
        data = {"source": source, "priority": priority}
        self._add(at(clock), EventType.NOTIFICATION_CREATED, note(number), data)

    def changes(self, number: int, clock: str, priority: str) -> None:
        data = {"fields": ["priority"], "priority": priority}
        self._add(at(clock), EventType.NOTIFICATION_CHANGED, note(number), data)

    def run(self, clock: str, reason: str, *clears: int, outcome: Outcome = Outcome.SLEPT) -> None:
        """Add a run of 20 seconds that clears these notifications after ten, and costs a cent."""
        run_id, start = UUID(int=10 + len(self.runs)), at(clock)
        end = start + timedelta(seconds=RUN_SECONDS)
        self._add(start, EventType.RUN_STARTED, None, {}, run_id, "running")
        for number in clears:
            self._add(start + timedelta(seconds=10), EventType.NOTIFICATION_CLEARED, note(number), {}, run_id)
        self._add(end, EventType.RUN_ENDED, None, {}, run_id)
        self.runs.append(RecordedRun(run_id, reason, start, end, outcome, None, Decimal("0.01")))

    def recording(self, until: str = "23:59") -> Recording:
        return Recording(AgentState(AGENT), MIDNIGHT, MIDNIGHT, at(until), self.events, self.runs, {})

    def _add(
        self,
        moment: datetime,
        type_: EventType,
        about: UUID | None,
        data: dict[str, Any],
        run_id: UUID | None = None,
        phase: str | None = None,
    ) -> None:
        actor = f"run:{run_id}" if run_id else ""
        event = Event(
            len(self.events) + 1, moment, type_, ORGANIZATION, AGENT, run_id, about, actor, phase, data
        )
        self.events.append(event)


def rules(window: int = 0, sources: Sequence[Source] = (Source.SMS,), **limits: Any) -> Rules:
    facts = AgentFacts(ORGANIZATION, AgentState(AGENT), MIDNIGHT, "Ann", False, None, window, None)
    policy = Policy(frozenset(sources), debounce_cap_seconds=600, min_interval_seconds=1)
    return Rules(replace(facts, limits=WakeLimits(**limits)), policy)
