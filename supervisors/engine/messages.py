"""The messages to a supervisor: a `Signal` is told and never refused; a request is asked and answered."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from storage.model import AgentStatus, Receipt


class Signal(StrEnum):
    """Why a supervisor should look again. Told, never asked; several at once are one look."""

    NOTIFIED = "notified"  # something came into its queue, or changed there
    CLEARED = "cleared"  # something of its queue was cleared
    DUE = "due"  # something of it fell due
    RELOAD = "reload"  # its settings, template or organization changed, or it is tried again after a defect
    RUN_OVER = "run over"  # its run has ended
    SLOT_FREE = "slot free"  # its queued start may go ahead


class RunAnswer(StrEnum):
    STARTED = "started"
    QUEUED = "queued"
    ALREADY_RUNNING = "already_running"
    SLEEPING = "sleeping"
    PAUSED = "paused"
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True, slots=True)
class RunReply:
    """`run` is the id of the started or running run, else None."""

    status: RunAnswer
    run: UUID | None = None

    @property
    def had_effect(self) -> bool:
        """Whether the request changed anything: the agent runs because of it, or will."""
        return self.status in {RunAnswer.STARTED, RunAnswer.QUEUED}

    def __str__(self) -> str:
        return str(self.status)


ReceiptOf = Callable[[RunReply], Receipt | None]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Start a run; without `wakeup` only if the agent is not inside a `sleep_until` that lies ahead.

    `receipt` makes what is stored together with the request's effect, if it has one. Answer: RunReply.
    """

    wakeup: bool = True
    receipt: ReceiptOf = field(default=lambda _: None, repr=False)

    def __str__(self) -> str:
        return "run request" if self.wakeup else "run request without wakeup"


@dataclass(frozen=True, slots=True)
class StopRequest:
    """End the run, hold, queued start or retry. `force` gives a run no grace."""

    force: bool = False
    reason: str = ""

    def __str__(self) -> str:
        kind = "forced stop request" if self.force else "stop request"
        return f"{kind}: {self.reason}" if self.reason else kind


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

    def __str__(self) -> str:
        written = [field.name for field in fields(self) if getattr(self, field.name) is not UNSET]
        return f"write of {', '.join(written)}"


@dataclass(frozen=True, slots=True)
class SleepRequest:
    """The run asks to sleep until then (None: until something wakes it)."""

    run_id: UUID
    until: datetime | None

    def __str__(self) -> str:
        return "sleep request"


@dataclass(frozen=True, slots=True)
class SleepGranted:
    sleep_until: datetime | None
    clamped: bool

    def __str__(self) -> str:
        until = f"{self.sleep_until:%Y-%m-%d %H:%M:%S}" if self.sleep_until else "something wakes it"
        return f"granted until {until}{', clamped' if self.clamped else ''}"


@dataclass(frozen=True, slots=True)
class SleepRefused:
    """Sleep is refused while `blockers` are active: their ids, oldest first, at most 100."""

    blockers: tuple[UUID, ...]

    def __str__(self) -> str:
        return f"refused: {len(self.blockers)} active"


Request = RunRequest | StopRequest | OwnedFields | SleepRequest
