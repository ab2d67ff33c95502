"""The mailbox of a supervisor: signals merge and are never refused, requests are limited in number."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic

from supervisors.engine.messages import DeferredReply, Reply, Request, RunReply, Signal, SleepReply, StopReply
from supervisors.errors import MailboxFull


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
