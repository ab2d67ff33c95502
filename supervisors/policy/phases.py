"""The phases of an agent: finer than the status that clients see."""

from enum import StrEnum

from storage.model import AgentStatus


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

    @property
    def status(self) -> AgentStatus:
        """Return the status that clients see in this phase."""
        match self:
            case Phase.RUNNING | Phase.STOPPING:
                return AgentStatus.RUNNING
            case Phase.ARCHIVED:
                return AgentStatus.ARCHIVED
            case _:
                return AgentStatus.SLEEPING
