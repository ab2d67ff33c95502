"""Facts for tests of the rules: a quiet, sleeping agent, unless a test says otherwise."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState, Budget, PendingGroup, RunStart
from storage.ids import new_id
from storage.model import AgentStatus, Source
from supervisors.clock import Clock, SystemClock
from supervisors.engine.run import ActiveRun
from supervisors.policy.decisions import Policy, WakeReason
from supervisors.settings import CONVERSATIONAL
from tests.nodes import LoneNode
from tests.storage.factories import HOUR, NOW

settings.register_profile("no deadline", deadline=None)  # a slow machine is no failure
settings.load_profile("no deadline")

AGENT = UUID(int=1)
RUN = UUID(int=2)
POLICY = Policy(conversational_sources=CONVERSATIONAL, debounce_cap_seconds=300, min_interval_seconds=1.0)


def seconds(amount: float) -> timedelta:
    return timedelta(seconds=amount)


def state(**fields: Any) -> AgentState:
    return replace(AgentState(agent_id=AGENT), **fields)


def running(**fields: Any) -> AgentState:
    """Return the state of an agent whose run began a minute ago."""
    plain = state(
        status=AgentStatus.RUNNING,
        run_id=RUN,
        run_started_at=NOW - seconds(60),
        last_started_at=NOW - seconds(60),
        last_wake_reason="run_requested",
    )
    return replace(plain, **fields)


def facts(state_of_agent: AgentState | None = None, *waiting: PendingGroup, **fields: Any) -> AgentFacts:
    plain = AgentFacts(
        organization_id=UUID(int=3),
        state=state_of_agent or state(),
        created_at=NOW - HOUR,
        name="Scout",
        organization_paused=False,
        max_sleep_hours=None,
        agent_window_seconds=None,
        template_window_seconds=None,
        pending=waiting,
    )
    return replace(plain, **fields)


def started_run(agent_id: UUID = AGENT, clock: Clock | None = None) -> ActiveRun:
    """Return a run that has just been started."""
    start = RunStart(new_id(), "run_requested", None, None, NOW, "invoke_agent")
    return ActiveRun(facts(state(agent_id=agent_id)), start, clock or SystemClock(), LoneNode())


def waiting(
    source: Source = Source.API,
    first_at: datetime = NOW,
    last_at: datetime | None = None,
    *,
    period: ActivationPeriod = ActivationPeriod.SINCE,
    reminder: bool = False,
    count: int = 1,
    urgent: bool = False,
) -> PendingGroup:
    return PendingGroup(source, reminder, period, count, first_at, last_at or first_at, urgent)


def reminder(
    at: datetime, period: ActivationPeriod = ActivationPeriod.AHEAD, source: Source = Source.AGENT
) -> PendingGroup:
    return waiting(source, at, period=period, reminder=True)


past = st.integers(0, 36_000).map(lambda back: NOW - seconds(back))
ahead = st.integers(1, 36_000).map(lambda on: NOW + seconds(on))
any_moment = st.one_of(past, ahead)


@st.composite
def some_group(draw: st.DrawFn) -> PendingGroup:
    """Draw a group of pending notifications; only reminders are ahead."""
    period = draw(st.sampled_from(ActivationPeriod))
    moments = ahead if period is ActivationPeriod.AHEAD else past
    first_at, last_at = sorted((draw(moments), draw(moments)))
    is_reminder = period is ActivationPeriod.AHEAD or draw(st.booleans())
    return PendingGroup(
        draw(st.sampled_from(Source)), is_reminder, period, draw(st.integers(1, 9)), first_at, last_at
    )


@st.composite
def some_state(draw: st.DrawFn, status: AgentStatus = AgentStatus.SLEEPING) -> AgentState:
    """Draw any state that an agent of this status may have in storage."""
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
    """Draw a budget of an agent or organization, reached or not."""
    cap, spent = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    return Budget(draw(st.booleans()), Decimal(cap), Decimal(spent))


@st.composite
def some_facts(draw: st.DrawFn, status: AgentStatus = AgentStatus.SLEEPING) -> AgentFacts:
    """Draw an agent of this status with any pending notifications."""
    return facts(
        draw(some_state(status)),
        *draw(st.lists(some_group(), max_size=4)),
        agent_window_seconds=draw(st.none() | st.integers(0, 600)),
        template_window_seconds=draw(st.none() | st.integers(0, 600)),
        budgets=draw(st.just(()) | st.tuples(some_budget())),
    )
