"""Wake contexts: reads and selects what agents are told, for the built-in harness and for the API."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from uuid import UUID
from zoneinfo import ZoneInfo

from storage.history.journals import PastRun
from supervisors.clock import Clock
from supervisors.ports import WakeStore
from supervisors.wake.context import WakeContext, select
from supervisors.wake.lines import Line, journal_line

MAX_KNOWN_LINES = 8192  # of journals; each run opens several wakes, but its line is made once
MAX_KNOWN_CHARACTERS = 1000  # of the texts of a run whose line is kept


def _cached_journal_line() -> Callable[[PastRun, ZoneInfo], Line]:
    known_line = lru_cache(MAX_KNOWN_LINES)(journal_line)

    def line(run: PastRun, timezone: ZoneInfo) -> Line:
        length = len(run.journal or "") + len(run.error) + len(run.output)
        return (known_line if length <= MAX_KNOWN_CHARACTERS else journal_line)(run, timezone)

    return line


@dataclass(frozen=True, slots=True)
class WakeContexts:
    """Builds wake contexts. `context_tokens` is for templates that have no number of their own."""

    store: WakeStore
    clock: Clock
    context_tokens: int
    _journal_line: Callable[[PastRun, ZoneInfo], Line] = field(default_factory=_cached_journal_line)

    async def get(self, agent_id: UUID) -> WakeContext | None:
        """Return what the agent would be told now; None if there is no such agent."""
        now = self.clock.now()
        facts = await self.store.get(agent_id, now, self.context_tokens)
        return None if facts is None else select(facts, now, self.context_tokens, self._journal_line)
