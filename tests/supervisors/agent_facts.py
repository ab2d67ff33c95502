"""Circumstances for tests of the rules: a quiet, sleeping agent, different only where a test says so."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st

from storage.model import AgentState, AgentStatus, Budget, Circumstances, Era, Source, Waiting
from supervisors.policy.decisions import Policy, WakeReason
from supervisors.settings import CONVERSATIONAL
from tests.storage.factories import HOUR, NOW

settings.register_profile("no deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no deadline")

AGENT = UUID(int=1)
RUN = UUID(int=2)
POLICY = Policy(conversational_sources=CONVERSATIONAL, debounce_cap_seconds=300, min_interval_seconds=1.0)


def seconds(amount: float) -> timedelta:
    return timedelta(seconds=amount)


def state(**fields: Any) -> AgentState:
    return replace(AgentState(agent_id=AGENT), **fields)


def running(**fields: Any) -> AgentState:
    """A run that began a minute ago."""
    plain = state(
        status=AgentStatus.RUNNING,
        run_id=RUN,
        run_started_at=NOW - seconds(60),
        last_started_at=NOW - seconds(60),
        last_wake_reason="run_requested",
    )
    return replace(plain, **fields)


def circumstances(
    state_of_agent: AgentState | None = None, *waiting: Waiting, **fields: Any
) -> Circumstances:
    plain = Circumstances(
        organization_id=UUID(int=3),
        state=state_of_agent or state(),
        created_at=NOW - HOUR,
        name="Scout",
        paused=False,
        max_sleep_hours=None,
        agent_window_seconds=None,
        template_window_seconds=None,
        waiting=waiting,
    )
    return replace(plain, **fields)


def waiting(
    source: Source = Source.API,
    first_at: datetime = NOW,
    last_at: datetime | None = None,
    *,
    era: Era = Era.SINCE,
    reminder: bool = False,
    count: int = 1,
) -> Waiting:
    return Waiting(source, reminder, era, count, first_at, last_at or first_at)


def reminder(at: datetime, era: Era = Era.AHEAD, source: Source = Source.AGENT) -> Waiting:
    return waiting(source, at, era=era, reminder=True)


past = st.integers(0, 36_000).map(lambda back: NOW - seconds(back))
ahead = st.integers(1, 36_000).map(lambda on: NOW + seconds(on))
any_moment = st.one_of(past, ahead)


@st.composite
def some_waiting(draw: st.DrawFn) -> Waiting:
    """One kind of waiting notification; only a reminder is ahead."""
    era = draw(st.sampled_from(Era))
    moments = ahead if era is Era.AHEAD else past
    first_at, last_at = sorted((draw(moments), draw(moments)))
    is_reminder = era is Era.AHEAD or draw(st.booleans())
    return Waiting(
        draw(st.sampled_from(Source)), is_reminder, era, draw(st.integers(1, 9)), first_at, last_at
    )


@st.composite
def some_state(draw: st.DrawFn, status: AgentStatus = AgentStatus.SLEEPING) -> AgentState:
    """Any state that an agent of this status may be stored in."""
    is_running = status is AgentStatus.RUNNING
    is_retried = draw(st.booleans()) and not is_running
    retry_reasons = ("", WakeReason.RETRY_AFTER_FAILURE, WakeReason.UNCLEARED_NOTIFICATIONS)
    return state(
        status=status,
        run_id=RUN if is_running else None,
        sleep_until=draw(st.none() | any_moment),
        max_sleep_until=draw(st.none() | any_moment),
        last_started_at=draw(past if is_running else st.none() | past),
        last_ended_at=draw(st.none() | past),
        stopped_at=draw(st.none() | past),
        run_requested_at=draw(st.none() | past),
        queued_at=draw(st.none() | past) if not is_running else None,
        failures=draw(st.integers(0, 8)),
        retries=draw(st.integers(0, 20)),
        retry_at=draw(any_moment) if is_retried else None,
        retry_reason=draw(st.sampled_from(retry_reasons)) if is_retried else "",
        next_due_at=draw(st.none() | any_moment),
    )


@st.composite
def some_budget(draw: st.DrawFn) -> Budget:
    """Any agent's or organization's, reached or not."""
    cap, spent = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    return Budget(draw(st.booleans()), Decimal(cap), Decimal(spent))


@st.composite
def some_circumstances(draw: st.DrawFn, status: AgentStatus = AgentStatus.SLEEPING) -> Circumstances:
    """Any agent of this status with any queue."""
    return circumstances(
        draw(some_state(status)),
        *draw(st.lists(some_waiting(), max_size=4)),
        agent_window_seconds=draw(st.none() | st.integers(0, 600)),
        template_window_seconds=draw(st.none() | st.integers(0, 600)),
        budgets=draw(st.just(()) | st.tuples(some_budget())),
    )
