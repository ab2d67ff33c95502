"""The run tool: an agent looks up when and why it was awake, and how that ended."""

from functools import partial
from typing import Any

from storage.history.runs import RunFilters
from storage.model import Run
from storage.postgres.paging import Cursor
from supervisors.text import cut
from supervisors.timestamps import format_local
from supervisors.tools.builtin.pages import AFTER, LIMIT, named_cursor, read_page
from supervisors.tools.toolkit import PartialResult, ToolDefinition, ToolInvocation, schema

MAX_LISTED_CHARACTERS = 1000  # of an error, and of an output

LIST_RUNS = ToolDefinition(
    name="list_runs",
    description="Lists your runs, newest first, the present one included.",
    parameters=schema(limit=LIMIT, after=AFTER),
)


async def list_runs(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the agent's own runs, last started first."""
    runs, agent = call.stores.runs, call.agent
    after = await named_cursor(call, "after", "run", runs.get, _cursor)
    fetch = partial(runs.list_page, RunFilters(agent_id=agent.id))
    page = await read_page(call, fetch, partial(_serialize, agent.timezone), after)
    return page.result()


def _cursor(run: Run) -> Cursor:
    return run.started_at, run.id


def _serialize(timezone: str, run: Run) -> dict[str, Any]:
    return {
        "id": str(run.id),
        "started_at": format_local(run.started_at, timezone),
        "ended_at": run.ended_at and format_local(run.ended_at, timezone),
        "wake_reason": run.wake_reason,
        "notifications": run.notification_count,
        "turns": run.turns,
        "outcome": run.outcome,
        "error": cut(run.error, MAX_LISTED_CHARACTERS),
        "output": cut(run.output, MAX_LISTED_CHARACTERS),
    }
