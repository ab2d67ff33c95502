"""Events as plain values: the types, what their data says, the patterns that select types, and the rows.

docs/events.md is generated from the types.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import Any
from uuid import UUID


class EventType(StrEnum):
    """A kind of change that the event log records."""

    AGENT_CREATED = "agent.created"
    """An agent was created."""
    AGENT_CHANGED = "agent.changed"
    """Settings of an agent were changed; `fields` names them."""
    AGENT_DELETED = "agent.deleted"
    """An agent was deleted."""
    AGENT_ASLEEP = "agent.asleep"
    """An agent sleeps: its run is over, or what it waited for is gone."""
    AGENT_HOLDING = "agent.holding"
    """A conversation has begun; the agent wakes when it pauses."""
    AGENT_QUEUED = "agent.queued"
    """A start is due and waits for a run slot."""
    AGENT_BACKING_OFF = "agent.backing_off"
    """An agent waits for a retry."""
    AGENT_QUARANTINED = "agent.quarantined"
    """Too many runs in a row have failed."""
    AGENT_OVER_BUDGET = "agent.over_budget"
    """An agent, or its organization, has spent its budget of the day."""
    AGENT_HELD_BY_LIMITS = "agent.held_by_limits"
    """Something waits until an agent may wake again, or until its quiet hours end."""
    AGENT_PAUSED = "agent.paused"
    """An agent was paused: nothing starts it."""
    AGENT_UNPAUSED = "agent.unpaused"
    """The pause of an agent has ended."""
    AGENT_STOPPING = "agent.stopping"
    """The active run was asked to stop."""
    AGENT_STOPPED = "agent.stopped"
    """An agent was stopped: what is in its queue no longer starts it."""
    AGENT_ARCHIVED = "agent.archived"
    """An agent was archived."""
    AGENT_RESTORED = "agent.restored"
    """An archived agent was restored."""
    AGENT_RESCHEDULED = "agent.rescheduled"
    """The phase is the same, but what the agent waits for has changed."""
    RUN_STARTED = "run.started"
    """A run has started; the agent is running."""
    RUN_ENDED = "run.ended"
    """A run is over."""
    NOTIFICATION_CREATED = "notification.created"
    """A notification was added to an agent's queue."""
    NOTIFICATION_CHANGED = "notification.changed"
    """A notification was changed; `fields` names what. An end of its clearing is such a change, too."""
    NOTIFICATION_CLEARED = "notification.cleared"
    """A notification was cleared."""
    NOTIFICATION_DELETED = "notification.deleted"
    """A notification was deleted."""
    MESSAGE_RECEIVED = "message.received"
    """A message from a contact was stored."""
    MESSAGE_SENT = "message.sent"
    """A message to a contact was sent."""
    MESSAGE_FAILED = "message.failed"
    """A message to a contact could not be sent."""
    BUDGET_REACHED = "budget.reached"
    """The budget of an agent or of its organization for the day is spent."""
    WEBHOOK_GIVEN_UP = "webhook.given_up"
    """A delivery was given up after its last attempt."""
    WEBHOOK_DISABLED = "webhook.disabled"
    """An event webhook that failed for five days was switched off."""
    HOOK_IGNORED = "hook.ignored"
    """A delivery to an inbound hook did not fit the hook's `only_if`."""
    HOOK_REFUSED = "hook.refused"
    """A delivery to an inbound hook was refused; of many, one a minute."""
    SCHEDULE_CREATED = "schedule.created"
    """A schedule was created."""
    SCHEDULE_CHANGED = "schedule.changed"
    """Settings of a schedule were changed; `fields` names them. It is also paused when it ends."""
    SCHEDULE_DELETED = "schedule.deleted"
    """A schedule was deleted."""
    SCHEDULE_OCCURRED = "schedule.occurred"
    """A moment of a schedule has come; `outcome` says what became of it."""
    APPROVAL_REQUESTED = "approval.requested"
    """A person is asked: for an approval of a call of a tool, or for an answer. `kind` says which."""
    APPROVAL_REMINDED = "approval.reminded"
    """A person was asked hours ago, or the wait for the decision ends soon."""
    APPROVAL_DECIDED = "approval.decided"
    """A person has decided; `approved` says how, and `grant` names what it allows from now on."""
    APPROVAL_EXPIRED = "approval.expired"
    """Nobody has decided in time."""
    APPROVAL_WITHDRAWN = "approval.withdrawn"
    """No decision is needed any more: the agent or the tool has changed or is gone."""
    ORGANIZATION_PAUSED = "organization.paused"
    """An organization was paused: none of its agents starts."""
    ORGANIZATION_UNPAUSED = "organization.unpaused"
    """The pause of an organization has ended."""
    AUDIT = "audit"
    """An entry of the audit log that only admins may see: no stream, webhook or timeline shows it."""


SHOWN_TYPES = tuple(type_ for type_ in EventType if type_ is not EventType.AUDIT)
"""The types that streams and webhooks show."""


ALL_OF_FAMILY = ".*"


def patterns_of(types: Iterable[str]) -> tuple[str, ...]:
    """Return every pattern that selects some of these types: the types, and then their families."""
    names = tuple(types)
    families = dict.fromkeys(name.partition(".")[0] + ALL_OF_FAMILY for name in names)
    return (*names, *families)


def nearest_pattern(text: str, types: Iterable[str]) -> str:
    """Return the pattern that is most similar to the text."""
    [nearest] = get_close_matches(text.lower(), patterns_of(types), n=1, cutoff=0)
    return nearest


def selected_types(patterns: Collection[str], types: Iterable[str]) -> frozenset[str]:
    """Return the types that at least one of the patterns selects; no patterns select all types."""
    if not patterns:
        return frozenset(types)
    families = tuple(pattern.removesuffix("*") for pattern in patterns if pattern.endswith(ALL_OF_FAMILY))
    return frozenset(name for name in types if name in patterns or name.startswith(families))


BY_SERVICE = ""
"""The actor of a change that nobody asked for: a rule made it."""
BY_OPERATOR = "operator"
INSTANCE = UUID(int=0)
"""The organization of events of the whole instance: what its operator does, which concerns no other."""


def by_run(run_id: UUID) -> str:
    """Return the actor of what a run does."""
    return f"run:{run_id}"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """A change that is stored together with its event. Its organization is that of the agent.

    `phase`: the phase that the agent is in from now on, if the event changes it. `data`: a JSON object.
    """

    type: EventType
    at: datetime
    agent_id: UUID | None = None
    run_id: UUID | None = None
    resource_id: UUID | None = None
    actor: str = BY_SERVICE
    phase: str | None = None
    data: str = "{}"
    address: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the log. `id` is its position: later ones are greater."""

    id: int
    at: datetime
    type: EventType
    organization_id: UUID
    agent_id: UUID | None
    run_id: UUID | None
    resource_id: UUID | None
    actor: str
    phase: str | None
    data: dict[str, Any]


PAUSES = frozenset({EventType.ORGANIZATION_PAUSED, EventType.ORGANIZATION_UNPAUSED})
"""The events of an organization that concern each of its agents."""


@dataclass(frozen=True, slots=True)
class Interest:
    """The events that a reader wants: of all organizations, of some, of one agent or of one run.

    An agent of the interest also gets the pauses of these organizations, so give its own together with it.
    """

    organization_ids: frozenset[UUID] | None = None
    agent_id: UUID | None = None
    run_id: UUID | None = None


EVERYTHING = Interest()
