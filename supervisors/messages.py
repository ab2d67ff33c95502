"""What can be said to a supervisor: a `Look` is told and never refused; a question is asked and answered."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from storage.model import AgentStatus


class Look(StrEnum):
    """Why a supervisor should look again. Told, never asked; several at once are one look."""

    NOTIFIED = "notified"  # its queue changed
    DUE = "due"  # something of it fell due
    RELOAD = "reload"  # its settings or its template changed, or it failed and is tried again
    RUN_OVER = "run over"  # its run has ended
    SLOT_FREE = "slot free"  # its queued start may go ahead


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Start a run; without `wakeup` only if the agent is not inside a `sleep_until` that lies ahead."""

    wakeup: bool = True


class RunAnswer(StrEnum):
    STARTED = "started"
    QUEUED = "queued"
    ALREADY_RUNNING = "already_running"
    SLEEPING = "sleeping"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class RunReply:
    """`run` is the id of the started or running run, else None."""

    status: RunAnswer
    run: UUID | None = None


@dataclass(frozen=True, slots=True)
class StopRequest:
    """End the run, hold, queued start or retry. `force` gives a run no grace."""

    force: bool = False
    reason: str = ""


class StopReply(StrEnum):
    STOPPED = "stopped"
    STOPPING = "stopping"
    NOT_RUNNING = "not_running"


class Unset(StrEnum):
    """Stands where a field was left out, because None means "cleared"."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True)
class OwnedFields:
    """A write of fields that the supervisor owns; `status` counts before `sleep_until`. Answer: None."""

    status: AgentStatus | Unset = UNSET
    sleep_until: datetime | Unset | None = UNSET
    run_started_at: datetime | Unset | None = UNSET
    last_wake_reason: str | Unset = UNSET
    last_wake_interrupted_sleep_until: datetime | Unset | None = UNSET


@dataclass(frozen=True, slots=True)
class SleepRequest:
    """The run asks to sleep until then (None: until something wakes it)."""

    run_id: UUID
    until: datetime | None


@dataclass(frozen=True, slots=True)
class SleepGranted:
    sleep_until: datetime | None
    clamped: bool


@dataclass(frozen=True, slots=True)
class SleepRefused:
    """Sleep is refused while `blockers` are active: their ids, oldest first, at most 100."""

    blockers: tuple[UUID, ...]


Question = RunRequest | StopRequest | OwnedFields | SleepRequest
