"""What a client was promised: each write that was acknowledged, and each that was sent and not answered."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

DOUBT = timedelta(seconds=10)  # longer than anything here stands still or takes to start again


@dataclass(slots=True)
class Write:
    """When something was sent and answered; without an answer it may have had its effect some time later."""

    sent_at: datetime
    answered_at: datetime | None = None

    def may_be_within(self, start: datetime, end: datetime) -> bool:
        """Whether it may have had its effect then."""
        return self.sent_at <= end and (self.answered_at or self.sent_at + DOUBT) >= start


@dataclass(slots=True)
class Note:
    """A notification whose creation was acknowledged, as its last acknowledged write left it."""

    id: str
    agent: str
    title: str
    source: str
    priority: str
    created_at: datetime
    schedules: list[datetime] = field(default_factory=list)  # all that it was ever asked to be due at
    is_changed: bool = False  # by a PATCH, so when it became active is not known any more
    is_cleared: bool = False  # by the client
    is_deleted: bool = False
    in_doubt: str = ""  # the method of a write that was not answered; nothing was sent after it
    writes: list[Write] = field(default_factory=list)  # all after its creation

    @property
    def is_settled(self) -> bool:
        """Whether the client may go on writing to it, and knows what to expect."""
        return not (self.is_deleted or self.in_doubt)


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop, by when it was sent and answered; one without an answer may have happened any time later."""

    sent_at: datetime
    answered_at: datetime | None
    status: str = ""


@dataclass(frozen=True, slots=True)
class RunAsked:
    """An acknowledged run request, and its answer."""

    sent_at: datetime
    status: str
    run: str | None


@dataclass(slots=True)
class Owned:
    """An agent that one client alone writes to."""

    id: str
    name: str
    window_seconds: int
    notes: list[Note] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    runs_asked: list[RunAsked] = field(default_factory=list)
    wake_times: list[datetime] = field(default_factory=list)  # each `sleep_until` sent, answered or not
    is_deleted: bool = False
    deleted_at: datetime | None = None  # when that was acknowledged
    in_doubt: str = ""


class Ledger:
    """All that was acknowledged, by agent."""

    def __init__(self) -> None:
        self.agents: dict[str, Owned] = {}
        self.acknowledged = 0
        self.unanswered = 0

    def __repr__(self) -> str:
        return f"<Ledger: {self.acknowledged} acknowledged, {self.unanswered} unanswered>"

    def notes(self) -> dict[str, Note]:
        return {note.id: note for agent in self.agents.values() for note in agent.notes}
