"""What waits for a supervisor: looks, which merge and are never refused, and questions, which are bounded."""

import asyncio
from collections import deque
from typing import Any

from supervisors.engine.messages import Look, Question
from supervisors.errors import MailboxFull

Asked = tuple[Question, "asyncio.Future[Any]"]


class Mailbox:
    """The input of one supervisor. Costs next to nothing while it is empty."""

    __slots__ = ("_looks", "_questions")

    def __init__(self) -> None:
        self._looks: set[Look] | None = None
        self._questions: deque[Asked] | None = None

    def __len__(self) -> int:
        """How many questions wait."""
        return len(self._questions or ())

    def tell(self, look: Look) -> None:
        """Note that the supervisor should look again; several reasons are one look."""
        if self._looks is None:
            self._looks = set()
        self._looks.add(look)

    def require_room(self, limit: int) -> None:
        """Raise MailboxFull if `limit` questions or more wait."""
        if len(self) >= limit:
            raise MailboxFull(f"{limit} questions to this agent wait for an answer")

    def ask(self, question: Question) -> "asyncio.Future[Any]":
        """Queue a question; its reply comes through the future."""
        if self._questions is None:
            self._questions = deque()
        reply = asyncio.get_running_loop().create_future()
        self._questions.append((question, reply))
        return reply

    def take(self) -> frozenset[Look] | Asked | None:
        """What to do next: all looks at once before the oldest question; None when there is nothing."""
        if self._looks is not None:
            looks, self._looks = frozenset(self._looks), None
            return looks
        if self._questions is not None:
            asked = self._questions.popleft()
            if not self._questions:
                self._questions = None
            return asked
        return None
