"""What the service has acknowledged to clients, and the writes that it has not answered."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

DOUBT = timedelta(minutes=1)  # longer than any standstill or start in these tests, on a slow machine, too


@dataclass(slots=True)
class Write:
    """A write, by when it was sent and answered. An unanswered one may take effect some time later."""

    sent_at: datetime
    answered_at: datetime | None = None

    def may_be_within(self, start: datetime, end: datetime) -> bool:
        """Return whether it may have taken effect in this period."""
        return self.sent_at <= end and (self.answered_at or self.sent_at + DOUBT) >= start


@dataclass(slots=True)
class Note:
    """A notification whose creation was acknowledged, as the last acknowledged write left it."""

    id: str
    agent: str
    title: str
    source: str
    priority: str
    created_at: datetime
    schedules: list[datetime] = field(default_factory=list)  # each due time that was ever requested
    is_changed: bool = False  # by a PATCH, so its activation time is unknown
    is_cleared: bool = False  # by the client
    is_deleted: bool = False
    in_doubt: str = ""  # the method of an unanswered write; no other was sent after it
    writes: list[Write] = field(default_factory=list)  # all since its creation

    @property
    def is_settled(self) -> bool:
        """Return whether the client may write to it again and knows what to expect."""
        return not (self.is_deleted or self.in_doubt)


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop, by when it was sent and answered. An unanswered one may take effect any time later."""

    sent_at: datetime
    answered_at: datetime | None
    status: str = ""


@dataclass(frozen=True, slots=True)
class RunRequested:
    """An acknowledged run request and its answer."""

    sent_at: datetime
    status: str
    run: str | None


@dataclass(slots=True)
class Owned:
    """An agent that only one client writes to."""

    id: str
    name: str
    window_seconds: int
    notes: list[Note] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    runs_asked: list[RunRequested] = field(default_factory=list)
    wake_times: list[datetime] = field(default_factory=list)  # each `sleep_until` sent, answered or not
    is_deleted: bool = False
    deleted_at: datetime | None = None  # when the deletion was acknowledged
    in_doubt: str = ""


class Ledger:
    """All acknowledged writes, by agent."""

    def __init__(self) -> None:
        self.agents: dict[str, Owned] = {}
        self.acknowledged = 0
        self.unanswered = 0

    def __repr__(self) -> str:
        return f"<Ledger: {self.acknowledged} acknowledged, {self.unanswered} unanswered>"

    def notes(self) -> dict[str, Note]:
        return {note.id: note for agent in self.agents.values() for note in agent.notes}
