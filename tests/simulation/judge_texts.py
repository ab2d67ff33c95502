"""The texts in which the judge of a simulation names moments and changes."""

from datetime import datetime
from uuid import UUID

from storage.agent_facts import AgentState, StateUpdate

# The fields that only the engine writes; a new notification changes the other two.
OWNED = tuple(name for name in AgentState.__slots__ if name not in {"wake_seq", "next_due_at", "version"})


def moment(at: datetime | None) -> str:
    """Write a moment of the wall clock, without the date."""
    return "no time" if at is None else f"{at:%H:%M:%S.%f}"


def change_text(before: AgentState, after: AgentState, update: StateUpdate) -> str:
    """Write which fields an update changes, and which run it begins or ends."""
    changes = [
        f"{name} {_value(getattr(after, name))}"
        for name in (*OWNED, "next_due_at")
        if getattr(after, name) != getattr(before, name)
    ]
    begun = f"starts #{update.start.run_id.int} by {update.start.wake_reason}; " if update.start else ""
    ended = f"ends #{update.end.run_id.int}: {update.end.outcome} {update.end.error}; " if update.end else ""
    return f"{begun}{ended}{', '.join(changes)}"


def _value(value: object) -> str:
    match value:
        case datetime():
            return moment(value)
        case UUID():
            return f"#{value.int}"
        case _:
            return str(value)
