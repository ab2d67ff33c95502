"""The catalogue of events: each type, what its data says, and the patterns that select types.

docs/events.md is generated from it.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from enum import StrEnum


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
    ORGANIZATION_PAUSED = "organization.paused"
    """An organization was paused: none of its agents starts."""
    ORGANIZATION_UNPAUSED = "organization.unpaused"
    """The pause of an organization has ended."""


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
