"""Runs: request bodies to start and stop one, queries, and responses."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.model import Outcome, Run, Source
from supervisors.engine.messages import RunAnswer, StopReply
from supervisors.policy.decisions import WakeReason
from web.fields import Boolean, Integer, OneOf, Text, UtcDatetime, Uuid
from web.paging import PageQuery
from web.request.parsing import Body

DEFAULT_LIMIT = 50

NOTIFICATION = "notification"  # stands for all wake reasons of the form `notification:<source>`
NOTIFICATION_REASONS = tuple(f"{NOTIFICATION}:{source}" for source in Source)


class RunBody(Body):
    wakeup = Boolean(load_default=True)


class StopBody(Body):
    force = Boolean(load_default=False)
    reason = Text(load_default="")


class RunQuery(PageQuery):
    limit = Integer(min_value=1, max_value=1000, load_default=DEFAULT_LIMIT)
    outcome = OneOf(tuple(Outcome), load_default=None)
    """Only runs that ended so. A run that is under way has no outcome yet."""
    wake_reason = OneOf((*WakeReason, NOTIFICATION, *NOTIFICATION_REASONS), load_default=None)
    """Only runs started for this reason. `notification` stands for notifications of any source,
    `notification:sms` for those of one."""
    active = Boolean(load_default=None)
    """true: only runs that are under way. false: only runs that have ended."""
    started_after = UtcDatetime(load_default=None)
    """Only runs started at this time or later. Without an offset it is UTC."""
    started_before = UtcDatetime(load_default=None)
    """Only runs started before this time. Without an offset it is UTC."""


class AllRunQuery(RunQuery):
    agent = Uuid(load_default=None)
    """Only runs of this agent."""


def wake_reasons(value: str | None) -> tuple[str, ...]:
    """Return the wake reasons that a filter stands for; no filter stands for none of them."""
    if value == NOTIFICATION:
        return NOTIFICATION_REASONS
    return () if value is None else (value,)


class WaitQuery(Body):
    """How many seconds to wait for the end of a run."""

    wait = Integer(min_value=1, max_value=60, load_default=None)


class RunAnsweredResponse(TypedDict):
    """The result of a run request; `run` is the run that was started or is already running."""

    status: RunAnswer
    run: UUID | None


class StopAnsweredResponse(TypedDict):
    status: StopReply


class RunResponse(TypedDict):
    """A run. `notifications` names up to 1,000 of the `notification_count` that were active at its start."""

    id: UUID
    agent: UUID
    trace: UUID
    wake_reason: str
    notifications: Sequence[UUID]
    notification_count: int
    interrupted_sleep_until: datetime | None
    started_at: datetime
    ended_at: datetime | None
    turns: int
    outcome: Outcome | None
    error: str
    max_sleep_until: datetime | None


def serialize_run(run: Run) -> RunResponse:
    return {
        "id": run.id,
        "agent": run.agent_id,
        "trace": run.id,
        "wake_reason": run.wake_reason,
        "notifications": run.notifications,
        "notification_count": run.notification_count,
        "interrupted_sleep_until": run.interrupted_sleep_until,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "turns": run.turns,
        "outcome": run.outcome,
        "error": run.error,
        "max_sleep_until": run.max_sleep_until,
    }
