"""The log that a harness keeps of a run, so that its journal needs no reading at its end."""

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from storage.history.journals import MAX_SEARCHED, MAX_TOOLS, JournalFacts, ToolUse
from supervisors.text import excerpt

MAX_NAME = 100  # characters
MAX_ERROR = 200
OTHERS = "(other tools)"  # a model may call tools that do not exist, by any number of names


@dataclass(slots=True)
class _Calls:
    count: int = 0
    errors: int = 0
    last_error: str = ""


class RunLog:
    """The tool calls of one run, and the notifications that it cleared."""

    def __init__(self) -> None:
        self._tools: dict[str, _Calls] = {}
        self._cleared: dict[UUID, None] = {}

    def record_call(self, tool: str, error: str = "") -> None:
        """Count a call of the tool. `error` is blank if the call succeeded."""
        name = excerpt(tool, MAX_NAME)
        if name not in self._tools and len(self._tools) >= MAX_TOOLS - 1:
            name = OTHERS
        calls = self._tools.setdefault(name, _Calls())
        calls.count += 1
        if error:
            calls.errors += 1
            calls.last_error = excerpt(error, MAX_ERROR)

    def record_cleared(self, notification_id: UUID) -> None:
        """Note that the run cleared this notification; clearing it again counts once."""
        if len(self._cleared) < MAX_SEARCHED:
            self._cleared[notification_id] = None

    def facts(self, cost_usd: Decimal) -> JournalFacts:
        """Return what the run did so far, the most used tools first."""
        by_use = sorted(self._tools.items(), key=lambda item: -item[1].count)
        tools = (ToolUse(name, calls.count, calls.errors, calls.last_error) for name, calls in by_use)
        return JournalFacts(tuple(tools), tuple(self._cleared), cost_usd)
