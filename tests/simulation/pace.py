"""The pace of a simulated process: how many runs may be starting, which moves as if its load did."""

from random import Random

from supervisors.clock import Clock
from supervisors.engine.registry import Registry
from supervisors.policy.admission import SHORT_WAIT_SECONDS
from tests.simulation.faulty_wire import QUANTUM_SECONDS

RATES = (0.0, 0.5, 100.0)  # starts a second, by which waits are estimated


class Pace:
    """Sets the limit of starting runs anew in each quantum. Busy times alternate with calm ones."""

    def __init__(self, registry: Registry, waits: "Waits", random: Random, clock: Clock, slots: int) -> None:
        self._registry = registry
        self._waits = waits
        self._random = random
        self._clock = clock
        self._slots = slots
        self._changes_at = clock.monotonic()
        self._limit = slots
        self._rate = 0.0

    async def run_once(self) -> None:
        now = self._clock.monotonic()
        if now >= self._changes_at:
            is_calm = self._limit == self._slots
            self._limit = self._random.randint(0, self._slots - 1) if is_calm else self._slots
            self._rate = self._random.choice(RATES)
            self._changes_at = now + QUANTUM_SECONDS * self._random.choice((2, 4, 8, 40))
        self._waits.paced(self._limit)
        self._registry.slots.set_pace(self._limit, self._rate)


class Waits:
    """What the judge knows of starts that have to wait: for how long one may do so without being stored."""

    def __init__(self, slots: int, leeway_seconds: float) -> None:
        self._slots = slots
        self._longest = SHORT_WAIT_SECONDS + leeway_seconds
        self._limit = slots
        self.has_pace = False
        self._since: dict[object, float] = {}

    def begins(self) -> None:
        """Take note that a process begins, in which nothing waits yet."""
        self._limit = self._slots
        self._since.clear()

    def start_again(self) -> None:
        """Take note that starts are allowed again: until now nothing could come of any wait."""
        self._since.clear()

    def paced(self, limit: int) -> None:
        """Take note of the limit of starting runs."""
        self.has_pace = True
        self._limit = limit

    def is_slot_free(self, running: int) -> bool:
        """Return whether a start that waits must begin, beside so many runs."""
        return running < self._slots and self._limit >= self._slots

    def forget(self, agent_id: object) -> None:
        """Take note that nothing of the agent waits."""
        self._since.pop(agent_id, None)

    def may_wait(self, agent_id: object, running: int, now: float) -> bool:
        """Return whether the agent, which is due, may wait for a slot although nothing says so."""
        if self.is_slot_free(running):
            self.forget(agent_id)
            return False
        return now < self._since.setdefault(agent_id, now) + self._longest
