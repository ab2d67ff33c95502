"""The phases of an agent: finer than the status that clients see."""

from enum import StrEnum


class Phase(StrEnum):
    """The state of an agent as its supervisor sees it."""

    ASLEEP = "asleep"
    HOLDING = "holding"
    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    QUARANTINED = "quarantined"
    PAUSED = "paused"
    RUNNING = "running"
    STOPPING = "stopping"
    ARCHIVED = "archived"
