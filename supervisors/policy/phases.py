"""The phases of an agent: finer than the status that clients see."""

from enum import StrEnum


class Phase(StrEnum):
    """The state of an agent as its supervisor sees it."""

    ASLEEP = "asleep"
    """It sleeps until something wakes it."""
    HOLDING = "holding"
    """A conversation has begun; the agent is woken when no further message comes for the debounce window."""
    QUEUED = "queued"
    """It is due to start and waits for a free run slot."""
    BACKING_OFF = "backing_off"
    """It waits for a retry, 1 s at first and twice as long each time, up to 300 s."""
    QUARANTINED = "quarantined"
    """Five runs in a row failed, or cleared none of its high-priority notifications; it rests for 15 minutes,
    or longer each time, up to 6 hours."""
    PAUSED = "paused"
    """It or its organization is paused; nothing starts."""
    RUNNING = "running"
    """A run is active."""
    STOPPING = "stopping"
    """Its run was asked to stop and has not ended yet."""
    ARCHIVED = "archived"
    """Nothing wakes it until it is restored."""


OVER_BUDGET = "over_budget"
"""The phase that the event log gives an agent that would be asleep, but whose budget of the day is spent."""
HELD_BY_LIMITS = "held_by_limits"
"""The same for one that would start, but for its limits on wakes or its quiet hours."""


class ShownPhase(StrEnum):
    """The state of an agent in lists for people, who want to tell a spent budget from sleep."""

    ASLEEP = "asleep"
    """It sleeps until something wakes it."""
    HOLDING = "holding"
    """A conversation has begun; the agent is woken when no further message comes for the debounce window."""
    QUEUED = "queued"
    """It is due to start and waits for a free run slot."""
    BACKING_OFF = "backing_off"
    """It waits for a retry."""
    QUARANTINED = "quarantined"
    """It rests after too many failures in a row."""
    OVER_BUDGET = "over_budget"
    """Its budget of the day, or that of its organization, is spent."""
    HELD_BY_LIMITS = "held_by_limits"
    """Something waits until it may wake again, or until its quiet hours end."""
    PAUSED = "paused"
    """It or its organization is paused; nothing starts."""
    RUNNING = "running"
    """A run is active."""
    STOPPING = "stopping"
    """Its run was asked to stop and has not ended yet."""
    ARCHIVED = "archived"
    """Nothing wakes it until it is restored."""
