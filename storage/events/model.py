"""Events as plain values: before they are stored, and as the log keeps them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.events.catalogue import EventType

BY_SERVICE = ""
"""The actor of a change that nobody asked for: a rule made it."""
BY_OPERATOR = "operator"


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
