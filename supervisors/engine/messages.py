"""The messages to a supervisor, and its mailbox.

A `Signal` is told and never refused, and all that wait are taken together. A `Request` is asked and answered;
their number is limited.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar, final
from uuid import UUID

from storage.model import AgentStatus, Receipt
from supervisors.errors import MailboxFull


class Signal(StrEnum):
    """The reason why a supervisor should reconcile. Signals that wait together cause one reconcile."""

    NOTIFIED = "notified"  # a notification is active in its queue, or will be
    CLEARED = "cleared"  # a notification of its queue was cleared, deleted or postponed
    DUE = "due"  # its timer fired, or the due scan found it
    RELOAD = "reload"  # its settings, template or organization changed, or the service has restarted
    RUN_OVER = "run over"  # its run has ended
    SLOT_FREE = "slot free"  # a run slot is reserved for its queued start


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
    """Sleep is refused while `blockers` are active: their ids, oldest first, at most 100."""

    blockers: tuple[UUID, ...]

    def __str__(self) -> str:
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


class PendingRequest(Generic[Reply]):
    """A request that waits for its reply, and the future that the reply comes through."""

    __slots__ = ("reply", "request")

    def __init__(self, request: Request[Reply]) -> None:
        self.request: Request[Reply] = request
        loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[Reply | DeferredReply[Reply]] = loop.create_future()

    async def answer(
        self, handler: Callable[[Request[Reply]], Awaitable[Reply | DeferredReply[Reply]]]
    ) -> str:
        """Pass on the handler's reply, and describe it. Raise what the handler raises."""
        reply = await handler(self.request)
        if not self.reply.done():  # it is done if the asker was cancelled
            self.reply.set_result(reply)
        return "done" if isinstance(reply, bool) else str(reply)

    def refuse(self, error: Exception) -> None:
        """Raise the error where the request was asked."""
        if not self.reply.done():
            self.reply.set_exception(error)


AnyPendingRequest = (
    PendingRequest[RunReply] | PendingRequest[StopReply] | PendingRequest[SleepReply] | PendingRequest[bool]
)


class Mailbox:
    """The input of one supervisor. An empty mailbox holds no collections, to keep idle supervisors small."""

    __slots__ = ("_requests", "_signals")

    def __init__(self) -> None:
        self._signals: set[Signal] | None = None
        self._requests: deque[AnyPendingRequest] | None = None

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._requests or ())

    def tell(self, signal: Signal) -> None:
        """Add a signal. All signals that wait are taken together."""
        if self._signals is None:
            self._signals = set()
        self._signals.add(signal)

    def require_room(self, limit: int) -> None:
        """Raise MailboxFull if `limit` or more requests wait."""
        if len(self) >= limit:
            raise MailboxFull(f"{limit} requests to this agent wait for an answer; try again later.")

    def ask(self, pending: AnyPendingRequest) -> None:
        if self._requests is None:
            self._requests = deque()
        self._requests.append(pending)

    def take(self) -> frozenset[Signal] | AnyPendingRequest | None:
        """Take what to handle next: all signals, else the oldest request, else None."""
        if self._signals is not None:
            signals, self._signals = frozenset(self._signals), None
            return signals
        if self._requests is not None:
            pending = self._requests.popleft()
            if not self._requests:
                self._requests = None
            return pending
        return None
