"""Bugs that the simulation must find, each planted by changing one line of a function.

The function is compiled anew with that line changed, and put back afterwards. When the line is no longer
there, planting fails: the bug then has to be planted where its line has gone.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from supervisors.engine import requests
from supervisors.engine.registry import Registry
from supervisors.engine.run_slots import RunSlots
from supervisors.engine.supervisor import Supervisor
from supervisors.maintenance.budget_renewal import BudgetRenewal
from supervisors.policy import debounce, decisions, transitions
from tests.simulation import memory_states
from tests.simulation.memory_queue import MemoryNotifications
from tests.simulation.memory_states import MemoryStates


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """In this function, `right` becomes `wrong`."""

    what: str
    function: Callable[..., Any]
    right: str
    wrong: str

    def __str__(self) -> str:
        return self.what

    @contextmanager
    def planted(self) -> Iterator[None]:
        source = textwrap.dedent(inspect.getsource(self.function))
        if source.count(self.right) != 1:
            raise LookupError(f"{self.what}: there is no such line (or more than one) to plant it on")
        compiled: dict[str, Any] = {}
        exec(source.replace(self.right, self.wrong), vars(inspect.getmodule(self.function)), compiled)  # noqa: S102
        [sick] = compiled.values()
        sound = self.function.__code__
        self.function.__code__ = sick.__code__  # wherever it was imported to
        try:
            yield
        finally:
            self.function.__code__ = sound


SLEEP_WITHOUT_WAKE_SEQ = PlantedBug(
    "sleep granted without a look at wake_seq",
    Supervisor._plan,
    "guarded=True",
    "guarded=end is None",
)

PLANTED = (
    PlantedBug(
        "an await between the last look into a mailbox and the flag",
        Registry._handle_messages,
        "    supervisor.busy = False",
        "    await asyncio.sleep(0); supervisor.busy = False",
    ),
    SLEEP_WITHOUT_WAKE_SEQ,
    PlantedBug(
        "a hold that a new message does not reset",
        debounce.hold_for,
        "last_at + timedelta(seconds=window_seconds)",
        "first_at + timedelta(seconds=window_seconds)",
    ),
    PlantedBug(
        "a hold without a cap",
        debounce.hold_for,
        "first_at + timedelta(seconds=max_hold_seconds",
        "last_at + timedelta(seconds=max_hold_seconds",
    ),
    PlantedBug(
        "a start that does not mind the status",
        memory_states.guard_holds,
        "is_unmoved = (newest",
        "is_unmoved = update.start is not None or (newest",
    ),
    PlantedBug(
        "an end that is not fenced by its run",
        requests.request_sleep,
        "seen.state.run_id != request.run_id or seen.state.stopped_at is not None",
        "seen.state.stopped_at is not None",
    ),
    PlantedBug(
        "a recovery that skips agents with a hold",
        MemoryStates._select,
        "select(list(self._tables.states.values()))",
        "select([s for s in self._tables.states.values() if s.run_id or not any("
        "one.source in ('sms', 'email') and one.activated_at not in (None, one.scheduled_for)"
        " for one in self._tables.queue(s.agent_id))])",
    ),
    PlantedBug(
        "a reminder whose timer is lost when it is moved",
        MemoryNotifications._update,
        "if after.activated_at != before.activated_at:",
        "if before.activated_at is None or after.activated_at is None:",
    ),
    PlantedBug(
        "a state that is reckoned anew, by a later clock, whenever it is stored",
        Supervisor._rest,
        "transitions.rested(seen.state), now=now)",
        "transitions.rested(seen.state))",
    ),
    PlantedBug(
        "a kept slot that is not handed on",
        RunSlots.leave,
        "self._kept.remove(agent_id)\n        self._offer()",
        "self._kept.remove(agent_id)",
    ),
    PlantedBug(
        "a start that does not mind the budget",
        decisions._put_off,
        "replace(wake, at=until, is_put_off=True)",
        "wake",
    ),
    PlantedBug(
        "a budget that is not renewed by the day",
        memory_states.budgets,
        "(owner_id, now.date())",
        "(owner_id, min(day for _, day in tables.spending) if tables.spending else now.date())",
    ),
    PlantedBug(
        "a higher cap that reaches nobody to whom it is not told",
        BudgetRenewal.run_once,
        "await tell_pages",
        "(lambda *_: None)",
    ),
    PlantedBug(
        "a backoff that never doubles",
        transitions.backoff,
        "2 ** min(retries - 1, 16)",
        "1",
    ),
    PlantedBug(
        "no quarantine",
        transitions.failed,
        "quarantine(failures) if failures >= QUARANTINE_AFTER_FAILURES else backoff(retries)",
        "backoff(retries)",
    ),
    PlantedBug(
        "an interrupted sleep that is forgotten",
        transitions._sleep_after,
        "interrupted if interrupted and interrupted > now else None",
        "None",
    ),
)
