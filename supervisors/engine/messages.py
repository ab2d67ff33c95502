"""The messages to a supervisor, and the log of what it was told and what came of it.

A `Signal` is told and never refused, and all that wait are taken together. A `Request` is asked and answered;
their number is limited.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import combinations
from struct import Struct
from typing import Generic, TypeVar, final
from uuid import UUID

from storage.model import AgentStatus, Receipt, Source
from storage.postgres.asker import ASKER, Asker
from supervisors.policy.decisions import WakeReason
from supervisors.policy.phases import Phase


class Signal(StrEnum):
    """The reason why a supervisor should reconcile. Signals that wait together cause one reconcile."""

    NOTIFIED = "notified"  # a notification is active in its queue, or will be
    CLEARED = "cleared"  # a notification of its queue was cleared, deleted or postponed
    DUE = "due"  # its timer fired, or the due scan found it
    RELOAD = "reload"  # its settings, template or organization changed, or the service has restarted
    RUN_OVER = "run over"  # its run has ended
    SLOT_FREE = "slot free"  # a run slot is reserved for its queued start
    FORCED = "forced"  # a client of another node wants its run to end without a grace


class RunAnswer(StrEnum):
    """The answer to a run request."""

    STARTED = "started"
    """A run has started."""
    QUEUED = "queued"
    """A run will start: when a run slot is free, or when the run that is stopping has ended."""
    ALREADY_RUNNING = "already_running"
    """A run is active. Another one follows it only if an active notification is left."""
    SLEEPING = "sleeping"
    """The agent was left asleep, because `wakeup` was false and its sleep has not ended."""
    PAUSED = "paused"
    """The agent or its organization is paused; no run is made."""
    OVER_BUDGET = "over_budget"
    """A spending cap is reached; no run is made."""


@dataclass(frozen=True, slots=True)
class RunReply:
    """The reply to a RunRequest; `run` is the id of the started or running run, else None."""

    status: RunAnswer
    run: UUID | None = None

    @property
    def had_effect(self) -> bool:
        """Return whether the agent runs, or will run, because of the request."""
        return self.status in {RunAnswer.STARTED, RunAnswer.QUEUED}

    def __str__(self) -> str:
        return str(self.status)


class StopReply(StrEnum):
    """The answer to a stop."""

    STOPPED = "stopped"
    """The run has ended, or what was about to start one was cancelled."""
    STOPPING = "stopping"
    """The run was asked to end and has not ended within a second; it will."""
    NOT_RUNNING = "not_running"
    """There was nothing to stop."""


@dataclass(frozen=True, slots=True)
class SleepGranted:
    sleep_until: datetime | None
    clamped: bool

    def __str__(self) -> str:
        until = f"{self.sleep_until:%Y-%m-%d %H:%M:%S}" if self.sleep_until else "something wakes it"
        return f"granted until {until}{', clamped' if self.clamped else ''}"


@dataclass(frozen=True, slots=True)
class SleepRefused:
    """Sleep is refused while `blockers` are active: their ids, oldest first, at most 100.

    `failed_calls`: no notification is active, but calls of these tools failed in the same turn.
    """

    blockers: tuple[UUID, ...] = ()
    failed_calls: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.failed_calls:
            return f"refused: {', '.join(self.failed_calls)} failed"
        return f"refused: {len(self.blockers)} active"


SleepReply = SleepGranted | SleepRefused

# The replies are listed, not left open: mypy then checks the handlers in `requests.answer` one by one.
Reply = TypeVar("Reply", RunReply, StopReply, SleepReply, bool)


class Request(Generic[Reply]):
    """A request to a supervisor; `Reply` is the type of the reply, which is stored before it is given."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DeferredReply(Generic[Reply]):
    """A reply that the asker waits for, so that the supervisor need not; `status` describes it until then."""

    wait: Callable[[], Awaitable[Reply]]
    status: str

    def __str__(self) -> str:
        return self.status


ReceiptOf = Callable[[RunReply], Receipt | None]


@final
@dataclass(frozen=True, slots=True)
class RunRequest(Request[RunReply]):
    """Start a run. Without `wakeup`, only if the agent has no `sleep_until` in the future.

    `receipt` makes the receipt that is stored together with the request's effect, if it has one. `caller` is
    for the log and the event.
    """

    wakeup: bool = True
    receipt: ReceiptOf = field(default=lambda _: None, repr=False)
    caller: str = ""

    def __str__(self) -> str:
        return "run request" if self.wakeup else "run request without wakeup"


@final
@dataclass(frozen=True, slots=True)
class StopRequest(Request[StopReply]):
    """End the run, hold, queued start or retry. `force` gives a run no grace. `caller`: as above.

    Unless it `waits`, the reply to a stop that ends a run does not wait for the end.
    """

    force: bool = False
    reason: str = ""
    caller: str = ""
    waits: bool = True

    def __str__(self) -> str:
        kind = "forced stop request" if self.force else "stop request"
        return f"{kind}: {self.reason}" if self.reason else kind


@final
@dataclass(frozen=True, slots=True)
class RestoreRequest(Request[bool]):
    """Restore the agent if it is archived, and leave any other agent as it is. `caller`: as above.

    The reply tells whether it was restored.
    """

    caller: str = ""

    def __str__(self) -> str:
        return "restore request"


class Unset(StrEnum):
    """The value of a field that was left out, because None means "cleared"."""

    UNSET = "unset"


UNSET = Unset.UNSET


@final
@dataclass(frozen=True, slots=True)
class OwnedFieldsRequest(Request[bool]):
    """Write fields that the supervisor owns; `paused` is applied first, `sleep_until` last.

    The reply tells whether a pause began or ended, or the agent was archived or restored. `caller` is for the
    log and the event.
    """

    paused: bool | Unset = UNSET
    status: AgentStatus | Unset = UNSET
    sleep_until: datetime | Unset | None = UNSET
    caller: str = ""

    def __str__(self) -> str:
        owned = (field.name for field in fields(self) if field.name != "caller")
        written = [name for name in owned if getattr(self, name) is not UNSET]
        return f"write of {', '.join(written)}"


@final
@dataclass(frozen=True, slots=True)
class SleepRequest(Request[SleepReply]):
    """End the run and sleep until `until` (None: until something wakes the agent)."""

    run_id: UUID
    until: datetime | None

    def __str__(self) -> str:
        return "sleep request"


@dataclass(frozen=True, slots=True, eq=False)
class PendingRequest(Generic[Reply]):
    """A request that waits for its reply, and the future that the reply comes through."""

    request: Request[Reply]
    reply: asyncio.Future[Reply | DeferredReply[Reply]] = field(default_factory=asyncio.Future)
    asker: Asker | None = field(default_factory=ASKER.get)

    def refuse(self, error: Exception) -> None:
        """Raise the error where the request was asked."""
        if not self.reply.done():  # it is done if the asker was cancelled
            self.reply.set_exception(error)


# The last messages of a supervisor with their outcomes, packed into bytes to keep a live supervisor small. A
# log begins with the number of its entries. An entry is its length, the time, and two texts; a text is one
# byte for a phrase of `WORDS`, or a length and the text. Long texts are cut, and displace older entries.
MAX_MESSAGES = 32
MAX_BYTES = 800
MAX_TEXT_BYTES = 100
LITERAL = 128  # a text that begins with a byte from here on is spelled out

WAKES = (*WakeReason, *(f"notification:{source}" for source in Source))
WORDS = (
    *Signal,
    *(", ".join(pair) for pair in combinations(sorted(Signal), 2)),
    *Phase,
    *(f"{outcome}: {wake}" for outcome in ("started", "queued") for wake in WAKES),
    *RunAnswer,
    *StopReply,
    *("run request", "stop request", "sleep request", "granted until something wakes it", "done", "gone"),
    "left to another node",
)
CODES = {word: code for code, word in enumerate(dict.fromkeys(map(str, WORDS)))}
WORD_OF = tuple(CODES)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
HEAD = Struct("<Bq")  # the length of the whole entry, and microseconds since the epoch


def append_message(log: bytes, at: datetime, message: str, outcome: str) -> bytes:
    """Return the log with one more message, and without the oldest ones that no longer fit."""
    texts = b""
    for text in (message, outcome):
        literal = text.encode(errors="replace")[:MAX_TEXT_BYTES]
        code = CODES.get(text)
        texts += bytes((LITERAL + len(literal),)) + literal if code is None else bytes((code,))
    entry = HEAD.pack(HEAD.size + len(texts), (at - EPOCH) // MICROSECOND) + texts
    count, start = log[0] if log else 0, 1
    while count == MAX_MESSAGES or (count and len(log) - start + len(entry) >= MAX_BYTES):
        count, start = count - 1, start + log[start]
    return bytes((count + 1,)) + log[start:] + entry


def read_messages(log: bytes) -> Iterator[tuple[datetime, str, str]]:
    """Yield the time, message and outcome of each entry, oldest first."""
    start = 1
    while start < len(log):
        length, microseconds = HEAD.unpack_from(log, start)
        message, after = _unpack(log, start + HEAD.size)
        outcome, _ = _unpack(log, after)
        yield EPOCH + microseconds * MICROSECOND, message, outcome
        start += length


def _unpack(log: bytes, start: int) -> tuple[str, int]:
    """Return the text that begins at `start`, and where the next one begins."""
    first = log[start]
    if first < LITERAL:
        return WORD_OF[first], start + 1
    end = start + 1 + first - LITERAL
    return log[start + 1 : end].decode(errors="ignore"), end
