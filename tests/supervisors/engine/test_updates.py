"""What the event log says of an agent after each kind of update, and the events that the update writes."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import orjson
import pytest

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState, Budget, RunEnd, RunStart
from storage.events.model import NewEvent
from storage.model import AgentStatus, Outcome, Source
from supervisors.engine.updates import (
    Step,
    notice_for,
    plan_crash,
    plan_start,
    plan_update,
    quarantine_notice,
)
from supervisors.policy import transitions
from supervisors.policy.explanations import StartLimits
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.agent_facts import POLICY, RUN, facts, reminder, running, seconds, state, waiting

LIMITS = StartLimits(slots=2)
SPENT = Budget(False, Decimal(5), Decimal(5))
ARCHIVED = state(status=AgentStatus.ARCHIVED, phase="archived", stopped_at=NOW - HOUR)
HELD = facts(state(phase="holding"), waiting(Source.SMS, NOW - seconds(20)), agent_window_seconds=60)
RUNNING = running(phase="running", phase_since=NOW - MINUTE)


def ended(outcome: Outcome) -> AgentState:
    return transitions.ended(facts(RUNNING), outcome, "It broke.", NOW, counts=True, jitter=0)


def end(outcome: Outcome) -> RunEnd:
    return RunEnd(RUN, outcome, NOW, 3, "" if outcome is Outcome.SLEPT else "It broke.")


def steps() -> dict[str, tuple[AgentFacts, AgentState, Step, str, str]]:
    """Return updates with the types of their events and the phase after each."""
    rest, stopping = Step(NOW, LIMITS), replace(RUNNING, phase="stopping", stopped_at=NOW - MINUTE)
    backing_off = state(retry_at=NOW + MINUTE, retry_reason="retry_after_failure", failures=1)
    return {
        "nothing": (facts(), state(), rest, "", "asleep"),
        "a message": (replace(HELD, state=state()), state(), rest, "agent.holding", "holding"),
        "a reminder": (facts(state(), reminder(NOW + HOUR)), state(), rest, "agent.rescheduled", "asleep"),
        "a stop while holding": (
            HELD,
            transitions.stopped(HELD, NOW, "Enough."),
            rest,
            "agent.stopped",
            "asleep",
        ),
        "a stop of a run": (
            facts(RUNNING),
            transitions.stopped(facts(RUNNING), NOW),
            rest,
            "agent.stopping",
            "stopping",
        ),
        "a pause that stops a run": (
            facts(RUNNING, organization_paused=True),
            RUNNING,
            replace(rest, stopping_run=RUN),
            "agent.stopping",
            "stopping",
        ),
        "a queued start": (
            facts(),
            state(queued_at=NOW, run_requested_at=NOW),
            rest,
            "agent.queued",
            "queued",
        ),
        "sleep": (
            facts(RUNNING),
            transitions.slept(facts(RUNNING), NOW + HOUR, NOW),
            replace(rest, end=end(Outcome.SLEPT)),
            "run.ended agent.asleep",
            "asleep",
        ),
        "a failure": (
            facts(RUNNING),
            ended(Outcome.FAILED),
            replace(rest, end=end(Outcome.FAILED)),
            "run.ended agent.backing_off",
            "backing_off",
        ),
        "the end of a stop": (
            facts(stopping),
            transitions.ended(facts(stopping), Outcome.STOPPED, "", NOW, counts=True, jitter=0),
            replace(rest, end=end(Outcome.STOPPED)),
            "run.ended agent.asleep",
            "asleep",
        ),
        "a fifth failure": (
            facts(replace(RUNNING, failures=4)),
            replace(ended(Outcome.FAILED), failures=5),
            replace(rest, end=end(Outcome.FAILED)),
            "run.ended agent.quarantined",
            "quarantined",
        ),
        "a spent budget": (facts(budgets=(SPENT,)), state(), rest, "agent.over_budget", "over_budget"),
        "a spent budget in a backoff": (
            facts(replace(backing_off, phase="backing_off"), budgets=(SPENT,)),
            replace(backing_off, phase="backing_off"),
            rest,
            "agent.over_budget",
            "over_budget",
        ),
        "an archive": (facts(), transitions.archived(facts(), NOW), rest, "agent.archived", "archived"),
        "a restore": (
            facts(ARCHIVED),
            transitions.restored(facts(ARCHIVED), NOW),
            rest,
            "agent.restored",
            "asleep",
        ),
        "a pause of the agent": (facts(), state(paused=True), rest, "agent.paused", "paused"),
        "a pause of a running agent": (
            facts(RUNNING),
            replace(RUNNING, paused=True),
            rest,
            "agent.stopping",
            "stopping",
        ),
        "a pause of an archived agent": (
            facts(ARCHIVED),
            replace(ARCHIVED, paused=True),
            rest,
            "agent.paused",
            "archived",
        ),
        "the end of a run in a pause": (
            facts(replace(RUNNING, phase="stopping", paused=True)),
            replace(ended(Outcome.STOPPED), phase="stopping", paused=True),
            replace(rest, end=end(Outcome.STOPPED)),
            "run.ended agent.paused",
            "paused",
        ),
        "the end of a pause": (
            facts(state(paused=True, phase="paused")),
            state(phase="paused"),
            rest,
            "agent.unpaused",
            "asleep",
        ),
        "a pause": (facts(organization_paused=True), state(), rest, "", "asleep"),
        "a message in a pause": (
            replace(HELD, state=state(), organization_paused=True),
            state(),
            rest,
            "agent.holding",
            "holding",
        ),
    }


@pytest.mark.parametrize("name", steps())
def test_update_writes_the_events_of_its_change(name: str) -> None:
    seen, after, step, types, phase = steps()[name]

    update = plan_update(seen, after, POLICY, step)

    assert " ".join(event.type for event in update.events) == types
    assert update.after.phase == phase
    for event in update.events:
        data = orjson.loads(event.data)
        assert event.agent_id == seen.state.agent_id
        assert (event.phase is None) == (event.type == "run.ended")
        if event.phase:
            assert (data["from"], data["to"], event.phase) == (seen.state.phase, phase, phase)


@pytest.mark.parametrize("name", steps())
def test_same_update_again_writes_no_event(name: str) -> None:
    seen, after, step, _, _ = steps()[name]
    first = plan_update(seen, after, POLICY, step)
    facts_after = replace(transitions.facts_after(seen, after), state=first.after)

    again = plan_update(facts_after, first.after, POLICY, replace(step, end=None))

    assert (again.events, again.after) == ((), first.after)


def test_start_writes_one_event_for_the_run_and_its_agent() -> None:
    seen = facts(state(phase="queued"))

    update = plan_start(seen, RUN, "reminder", POLICY, Step(NOW, LIMITS, actor="key:1"))

    assert update.start == RunStart(RUN, "reminder", None, None, NOW, f"invoke_agent {seen.name}")
    [event] = update.events
    assert (event.type, event.run_id, event.actor, event.phase) == ("run.started", RUN, "key:1", "running")
    assert orjson.loads(event.data) == {
        "from": "queued",
        "to": "running",
        "why": "Running since 2126-11-21 09:00 UTC, woken by a reminder.",
        "reason": "reminder",
    }
    assert (update.after.phase, update.after.phase_since) == ("running", NOW)


@pytest.mark.parametrize(("failures", "phase"), [(0, "backing_off"), (4, "quarantined")])
def test_crash_of_the_supervisor_is_recorded_without_the_rules(failures: int, phase: str) -> None:
    before = state(failures=failures)
    after = transitions.failed(before, Outcome.FAILED, "It crashed", NOW, jitter=0)
    after = replace(after, next_due_at=after.retry_at)

    [event] = plan_crash(facts(before), after, Step(NOW, LIMITS)).events

    assert (event.type, event.phase) == (f"agent.{phase}", phase)
    assert "It crashed." in orjson.loads(event.data)["why"]


@pytest.mark.parametrize(
    ("actor", "moment", "queue"),
    [("user:7", NOW + HOUR, ()), ("run:3", NOW + MINUTE, (waiting(period=ActivationPeriod.STOPPED),))],
)
def test_change_of_the_schedule_names_its_moment_and_actor(
    actor: str, moment: datetime, queue: tuple[()]
) -> None:
    seen = facts(state(sleep_until=NOW + 2 * HOUR, stopped_at=NOW if queue else None), *queue)
    after = replace(seen.state, sleep_until=moment)

    update = plan_update(seen, after, POLICY, Step(NOW, LIMITS, actor=actor))

    [event] = update.events
    assert isinstance(event, NewEvent)
    assert event.actor == actor
    assert orjson.loads(event.data)["next_at"] == moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


UNSPENT = Budget(of_organization=False, cap_usd=Decimal(5), spent_usd=Decimal(4))


def with_elapsed_sleep(budget: Budget) -> AgentFacts:
    return facts(state(sleep_until=NOW - HOUR), budgets=(budget,))


def test_fifth_failure_is_noticed_and_the_sixth_is_not() -> None:
    fourth, fifth, sixth = (state(failures=count, retry_at=NOW + HOUR) for count in (4, 5, 6))

    notice = quarantine_notice(fourth, fifth, NOW)

    assert notice is not None
    assert notice.title == "Quarantined after too many failures in a row"
    assert "after 5 failures in a row" in notice.body
    assert quarantine_notice(fifth, sixth, NOW) is None


def test_postponed_run_is_noticed_once_a_day() -> None:
    seen = with_elapsed_sleep(SPENT)

    first = notice_for(seen.state, seen, None, NOW, POLICY)
    later = notice_for(seen.state, seen, None, NOW + HOUR, POLICY)
    next_day = notice_for(seen.state, seen, None, NOW + timedelta(days=1), POLICY)

    assert first is not None
    assert later is not None
    assert next_day is not None
    assert first.title == "Over budget"
    assert (first.id == later.id, first.id == next_day.id) == (True, False)


def test_run_ended_by_its_budget_is_noticed() -> None:
    seen = facts(state(), budgets=(SPENT,))

    assert notice_for(seen.state, seen, None, NOW, POLICY) is None
    assert notice_for(seen.state, seen, RunEnd(RUN, Outcome.BUDGET, NOW, 1, ""), NOW, POLICY) is not None


def test_budget_that_is_not_spent_is_not_noticed() -> None:
    seen = with_elapsed_sleep(UNSPENT)

    assert notice_for(seen.state, seen, None, NOW, POLICY) is None


def test_cap_of_zero_is_not_noticed_every_day() -> None:
    seen = with_elapsed_sleep(Budget(of_organization=False, cap_usd=Decimal(0), spent_usd=Decimal(0)))

    assert notice_for(seen.state, seen, None, NOW, POLICY) is None
