"""Runs: what asks for one or stops it, and how the ledger shows it."""

from typing import Any

from storage.model import Run
from web.fields import Boolean, Integer, Text
from web.paging import PageQuery
from web.parsing import Body

DEFAULT_LIMIT = 50


class RunBody(Body):
    wakeup = Boolean(load_default=True)


class StopBody(Body):
    force = Boolean(load_default=False)
    reason = Text(load_default="")


class RunQuery(PageQuery):
    limit = Integer(least=1, most=1000, load_default=DEFAULT_LIMIT)


def show_run(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "agent": run.agent_id,
        "trace": run.id,
        "wake_reason": run.wake_reason,
        "notifications": run.notifications,
        "interrupted_sleep_until": run.interrupted_sleep_until,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "turns": run.turns,
        "outcome": run.outcome,
        "error": run.error,
        "max_sleep_until": run.max_sleep_until,
    }
