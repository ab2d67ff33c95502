"""The lines about earlier runs."""

from typing import Any
from zoneinfo import ZoneInfo

from storage.agents.wakes import PastRun
from supervisors.wake.lines import Line, line_of, local_minute


def journal_line(run: PastRun, timezone: ZoneInfo) -> Line:
    """Return the journal's entry of a run, or how it ended if there is no entry."""
    value: dict[str, Any] = {
        "at": local_minute(run.started_at, timezone),
        "woken_by": run.wake_reason,
        "outcome": run.outcome,
    }
    if run.error:
        value["error"] = run.error[:300]
    return line_of(run, value)
