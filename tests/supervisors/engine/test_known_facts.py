"""Known facts: after a start and after a granted sleep, and not where they could be out of date."""

from decimal import Decimal
from typing import Any

import pytest

from storage.agent_facts import AgentFacts, Budget, RunEnd
from storage.model import Outcome
from supervisors.engine.clock_history import ClockHistory
from supervisors.engine.known_facts import MAX_QUEUED, KnownFacts, known_after
from supervisors.engine.update_plans import plan_start, plan_update, start_of
from supervisors.policy import transitions
from supervisors.policy.explanations import StartLimits
from supervisors.policy.record import Step
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import POLICY, RUN, facts, reminder, running, state, waiting
from tests.supervisors.held_clock import HeldClock

LIMITS = StartLimits(slots=10)
BUDGET = Budget(False, cap_usd=Decimal(5), spent_usd=Decimal(0))


def after_start(seen: AgentFacts) -> KnownFacts | None:
    after = transitions.started(seen, RUN, "notification:api", NOW)
    step = Step(NOW, LIMITS, start=start_of(after, RUN, NOW, seen.name))
    return known_after(seen, plan_start(seen, after, POLICY, step, None), clock_steps=0, queue_length=0)


def after_end(seen: AgentFacts, outcome: Outcome) -> KnownFacts | None:
    step = Step(NOW, LIMITS, end=RunEnd(RUN, outcome, NOW, turns=1, error=""))
    after = transitions.slept(seen, NOW + HOUR, NOW)
    return known_after(seen, plan_update(seen, after, POLICY, step, None), clock_steps=0, queue_length=0)


def test_start_leaves_the_next_version_and_an_unknown_queue() -> None:
    known = after_start(facts(state(version=7, wake_seq=3), waiting()))

    assert known is not None
    left = known.facts.state
    assert (left.version, left.wake_seq, left.phase, left.run_id) == (8, 3, "running", RUN)
    assert (known.facts.pending, known.facts.wake_reason) == ((), "notification:api")


def test_sleep_leaves_the_reminders_ahead() -> None:
    ahead = reminder(NOW + HOUR)

    known = after_end(facts(running(), ahead, wake_reason="run_requested"), Outcome.SLEPT)

    assert known is not None
    left = known.facts.state
    assert (left.sleep_until, left.run_id) == (NOW + HOUR, None)
    assert (known.facts.pending, known.facts.wake_reason) == ((ahead,), "")


def after_queueing(seen: AgentFacts, queue_length: int = 0) -> KnownFacts | None:
    step = Step(NOW, LIMITS)
    update = plan_update(seen, transitions.queued(seen.state, NOW), POLICY, step, None)
    return known_after(seen, update, clock_steps=0, queue_length=queue_length)


def test_queued_start_leaves_what_is_pending() -> None:
    known = after_queueing(facts(state(version=7), waiting(), held_between=(NOW, NOW)))

    assert known is not None
    left = known.facts.state
    assert (left.version, left.queued_at, left.phase) == (8, NOW, "queued")
    assert (known.facts.pending, known.facts.held_between) == ((waiting(),), None)


def test_starts_in_a_long_queue_leave_nothing_known() -> None:
    seen = facts(state(), waiting())

    assert after_queueing(seen, MAX_QUEUED - 1) is not None
    assert after_queueing(seen, MAX_QUEUED) is None


@pytest.mark.parametrize(
    "fields",
    [{"budgets": (BUDGET,)}, {"pending": (waiting(), reminder(NOW + HOUR))}],
    ids=["budget", "reminder"],
)
def test_start_with_a_budget_or_a_reminder_leaves_nothing_known(fields: dict[str, Any]) -> None:
    assert after_start(facts(**fields)) is None


def test_end_without_sleep_leaves_nothing_known() -> None:
    assert after_end(facts(running()), Outcome.ENDED) is None


def test_known_facts_end_with_a_step_of_the_clock() -> None:
    clock = HeldClock()
    history = ClockHistory(clock)
    known = KnownFacts(facts(), history.steps)

    clock.advance(60)
    assert known.is_valid(history)
    clock.step(-3600)
    assert not known.is_valid(history)
