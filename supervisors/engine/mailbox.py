"""What waits for a supervisor: looks, which merge and are never refused, and questions, which are bounded."""

import asyncio
from collections import deque
from typing import Any

from supervisors.engine.messages import Request, Signal
from supervisors.errors import MailboxFull

PendingRequest = tuple[Request, "asyncio.Future[Any]"]


class Mailbox:
    """The input of one supervisor. Costs next to nothing while it is empty."""

    __slots__ = ("_requests", "_signals")

    def __init__(self) -> None:
        self._signals: set[Signal] | None = None
        self._requests: deque[PendingRequest] | None = None

    def __len__(self) -> int:
        """How many questions wait."""
        return len(self._requests or ())

    def tell(self, signal: Signal) -> None:
        """Note that the supervisor should look again; several reasons are one look."""
        if self._signals is None:
            self._signals = set()
        self._signals.add(signal)

    def require_room(self, limit: int) -> None:
        """Raise MailboxFull if `limit` questions or more wait."""
        if len(self) >= limit:
            raise MailboxFull(f"{limit} questions to this agent wait for an answer")

    def ask(self, request: Request) -> "asyncio.Future[Any]":
        """Queue a question; its reply comes through the future."""
        if self._requests is None:
            self._requests = deque()
        reply = asyncio.get_running_loop().create_future()
        self._requests.append((request, reply))
        return reply

    def take(self) -> frozenset[Signal] | PendingRequest | None:
        """What to do next: all looks at once before the oldest question; None when there is nothing."""
        if self._signals is not None:
            signals, self._signals = frozenset(self._signals), None
            return signals
        if self._requests is not None:
            asked = self._requests.popleft()
            if not self._requests:
                self._requests = None
            return asked
        return None
