"""Live text: what a model writes, shown to clients that follow the run while it writes.

It is not stored here: `call_content` records answers. If the content of a run is not recorded, its text is
not shown live, either.
"""

from dataclasses import dataclass, field

from storage.model import Agent
from supervisors.clock import Clock, Timer
from supervisors.engine.run import ActiveRun
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import MODEL_DELTA, LiveEvent

INTERVAL_SECONDS = 0.05  # between two events of an answer
MAX_CHARACTERS = 16_384  # of an event; what comes beyond that within the interval is left out


@dataclass(slots=True)
class LiveText:
    """The text of one answer of a model, passed on in pieces while somebody follows the run.

    The first piece is passed on at once. Those that follow within `INTERVAL_SECONDS` are joined and passed on
    together, at the latest at the end of the answer.
    """

    run: ActiveRun
    agent: Agent
    feed: EventFeed
    clock: Clock
    _length: int = 0  # characters of the answer so far
    _pieces: list[str] = field(default_factory=list)  # not yet passed on
    _room: int = MAX_CHARACTERS
    _offset: int = 0  # of the first piece in the answer
    _next_at: float = 0.0  # on the monotonic clock
    timer: Timer | None = None  # while pieces wait

    def add(self, text: str) -> None:
        """Pass on the next piece of the answer, now or together with later ones."""
        offset = self._length
        self._length += len(text)
        if not self.feed.is_followed(self.agent.organization_id, self.agent.id, self.run.id):
            return
        if not self._pieces:
            self._offset = offset
        if self._room:
            self._pieces.append(text[: self._room])
            self._room -= len(self._pieces[-1])
        if self.timer is None:
            if self.clock.monotonic() < self._next_at:
                self.timer = self.clock.call_at(self._next_at, self._pass_on)
            else:
                self._pass_on()

    def finish(self) -> None:
        """Pass on the pieces that wait, at the end of the answer."""
        if self.timer is not None:
            self.timer.cancel()
            self._pass_on()

    def _pass_on(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        self._room, self.timer = MAX_CHARACTERS, None
        self._next_at = self.clock.monotonic() + INTERVAL_SECONDS
        data = {"turn": self.run.turns, "offset": self._offset, "text": text}
        self.feed.publish(
            LiveEvent(
                type=MODEL_DELTA,
                at=self.clock.now(),
                organization_id=self.agent.organization_id,
                agent_id=self.agent.id,
                run_id=self.run.id,
                data=data,
            )
        )
