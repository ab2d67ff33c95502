"""What lies ahead of an agent, as far as it is decided at present. A pure function."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from storage.agent_facts import AgentFacts
from storage.events.marks import NotificationTimes
from storage.model import AgentStatus
from supervisors.policy import explanations
from supervisors.policy.budgets import renewed_at
from supervisors.policy.decisions import Decision, Wake, WakeCause, pending_retry_at


class AheadKind(StrEnum):
    """A kind of moment that lies ahead of an agent."""

    WAKE = "wake"
    """The agent wakes, unless something else wakes it earlier."""
    RETRY = "retry"
    """The agent tries again after a failure or an interruption."""
    REMINDER = "reminder"
    """A reminder falls due."""
    CAP = "cap"
    """The longest sleep that the agent may take ends."""
    BUDGET_RENEWAL = "budget_renewal"
    """The budget of the next day begins."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A moment that lies ahead, and the reason for it. `resource_id`: the reminder, if it is one."""

    at: datetime
    kind: AheadKind
    because: str
    resource_id: UUID | None = None


def ahead(
    facts: AgentFacts,
    decision: Decision,
    reminders: Iterable[NotificationTimes],
    now: datetime,
    end: datetime,
) -> list[Ahead]:
    """Return the moments after `now` and before `end`, by time."""
    moments = (*_decided(facts, decision, now), *_reminders(reminders))
    return sorted((one for one in moments if now < one.at < end), key=lambda one: one.at)


def _decided(facts: AgentFacts, decision: Decision, now: datetime) -> Iterator[Ahead]:
    state = facts.state
    if state.status is AgentStatus.ARCHIVED:
        return
    wake = explanations.next_wake(decision)
    if wake is not None:
        yield Ahead(wake.at, AheadKind.WAKE, explanations.describe_cause(wake))
    retry_at = pending_retry_at(facts)
    if retry_at is not None:
        retry = Wake(retry_at, state.retry_reason, WakeCause.RETRY)
        yield Ahead(retry_at, AheadKind.RETRY, explanations.describe_cause(retry))
    if state.max_sleep_until is not None:
        yield Ahead(state.max_sleep_until, AheadKind.CAP, "The longest sleep that it may take ends.")
    if facts.budgets:
        yield Ahead(renewed_at(now), AheadKind.BUDGET_RENEWAL, "The budget of the next day begins.")


def _reminders(reminders: Iterable[NotificationTimes]) -> Iterator[Ahead]:
    for reminder in reminders:
        if reminder.scheduled_for is not None:
            because = f'The reminder "{reminder.title}" falls due.'
            yield Ahead(reminder.scheduled_for, AheadKind.REMINDER, because, reminder.id)
