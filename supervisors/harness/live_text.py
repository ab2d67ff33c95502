"""Live text: what a model writes, shown to clients that follow the run while it writes.

It is not stored here: `call_content` records answers. If the content of a run is not recorded, its text is
not shown live, either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from uuid import UUID

from storage.model import Agent
from supervisors.clock import Clock, Timer
from supervisors.engine.run import ActiveRun
from supervisors.events.subscription import MODEL_DELTA, LiveEvent

INTERVAL_SECONDS = 0.05  # between two events of a run
MAX_CHARACTERS = 16_384  # of an event; what comes beyond that within the interval is left out


class LiveOutput(Protocol):
    """Shows what happens in runs to the clients that follow them."""

    def is_followed(self, organization_id: UUID, agent_id: UUID, run_id: UUID) -> bool:
        """Return whether a client follows the run, its agent or its organization."""
        ...

    def publish(self, live: LiveEvent) -> None:
        """Pass the event on to the clients that follow it, without waiting for them."""
        ...


class LiveText:
    """The text that the models of a run write, passed on in pieces while somebody follows the run.

    The first piece is passed on at once. Those that follow within `INTERVAL_SECONDS` are joined and passed on
    together, at the latest at the end of the answer.
    """

    def __init__(self, run: ActiveRun, agent: Agent, output: LiveOutput, clock: Clock) -> None:
        self._run = run
        self._agent = agent
        self._output = output
        self._clock = clock
        self._length = 0  # characters of the answer so far
        self._pieces: list[str] = []  # not yet passed on
        self._room = MAX_CHARACTERS
        self._offset = 0  # of the first piece in the answer
        self._next_at = 0.0  # on the monotonic clock
        self._timer: Timer | None = None

    @contextmanager
    def of_answer(self) -> Iterator[None]:
        """Begin an answer, whose pieces are added within the block."""
        self._length = 0
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._pass_on()

    def add(self, text: str) -> None:
        """Pass on the next piece of the answer, now or together with later ones."""
        offset = self._length
        self._length += len(text)
        if not self._output.is_followed(self._agent.organization_id, self._agent.id, self._run.id):
            return
        if not self._pieces:
            self._offset = offset
        if self._room:
            self._pieces.append(text[: self._room])
            self._room -= len(self._pieces[-1])
        if self._timer is None:
            if self._clock.monotonic() < self._next_at:
                self._timer = self._clock.call_at(self._next_at, self._pass_on)
            else:
                self._pass_on()

    def _pass_on(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        self._room, self._timer = MAX_CHARACTERS, None
        self._next_at = self._clock.monotonic() + INTERVAL_SECONDS
        data = {"turn": self._run.turns, "offset": self._offset, "text": text}
        self._output.publish(
            LiveEvent(
                type=MODEL_DELTA,
                at=self._clock.now(),
                organization_id=self._agent.organization_id,
                agent_id=self._agent.id,
                run_id=self._run.id,
                data=data,
            )
        )
