"""What the event log says of an agent after each kind of update, and the events that the update writes."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

import orjson
import pytest

from storage.agent_facts import (
    ActivationPeriod,
    AgentFacts,
    AgentState,
    Budget,
    RunEnd,
    RunStart,
    StateUpdate,
)
from storage.events.model import NewEvent
from storage.model import AgentStatus, Outcome, Source
from supervisors.engine.updates import (
    Step,
    budget_notice,
    plan_crash,
    plan_start,
    plan_update,
)
from supervisors.policy import transitions
from supervisors.policy.attendance import View
from supervisors.policy.explanations import StartLimits
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.agent_facts import POLICY, RUN, facts, reminder, running, seconds, state, waiting

LIMITS = StartLimits(slots=2)
VIEW = View(1)
SPENT = Budget(False, Decimal(5), Decimal(5))
ARCHIVED = state(status=AgentStatus.ARCHIVED, phase="archived", stopped_at=NOW - HOUR)
HELD = facts(state(phase="holding"), waiting(Source.SMS, NOW - seconds(20)), agent_window_seconds=60)
RUNNING = running(phase="running", phase_since=NOW - MINUTE)


REST = Step(NOW, LIMITS, VIEW)
STOPPING = replace(RUNNING, phase="stopping", stopped_at=NOW - MINUTE)
PAUSED_RUN = replace(RUNNING, phase="stopping", paused=True)
BACKING_OFF = state(
    phase="backing_off", retry_at=NOW + MINUTE, retry_reason="retry_after_failure", failures=1
)


@dataclass(frozen=True)
class Case:
    """An update from what was seen to the state `after`, the events it writes, and the phase after it."""

    seen: AgentFacts
    after: AgentState
    events: str
    phase: str
    step: Step = REST

    def plan(self) -> StateUpdate:
        update = plan_update(self.seen, lambda _: self.after, POLICY, self.step)
        assert update is not None
        return update


def end_of(before: AgentState, outcome: Outcome, events: str, phase: str) -> Case:
    """Return the end of a run in this state."""
    seen, error = facts(before), "" if outcome is Outcome.SLEPT else "It broke."
    after = transitions.ended(seen, outcome, error, NOW, counts=True, jitter=0)
    if outcome is Outcome.SLEPT:
        after = transitions.slept(seen, NOW + HOUR, NOW)
    return Case(seen, after, events, phase, replace(REST, end=RunEnd(RUN, outcome, NOW, 3, error)))


STOPPED_RUN = transitions.stopped(facts(RUNNING), NOW)
STOPPED_HOLD = transitions.stopped(HELD, NOW, "Enough.")
ARCHIVE, RESTORE = transitions.archived(facts(), NOW), transitions.restored(facts(ARCHIVED), NOW)
QUEUED = state(queued_at=NOW, run_requested_at=NOW)
NEW_MESSAGE = replace(HELD, state=state())
CASES = {
    "nothing": Case(facts(), state(), "", "asleep"),
    "a message": Case(NEW_MESSAGE, state(), "agent.holding", "holding"),
    "a reminder": Case(facts(state(), reminder(NOW + HOUR)), state(), "agent.rescheduled", "asleep"),
    "a stop while holding": Case(HELD, STOPPED_HOLD, "agent.stopped", "asleep"),
    "a stop of a run": Case(facts(RUNNING), STOPPED_RUN, "agent.stopping", "stopping"),
    "a queued start": Case(facts(), QUEUED, "agent.queued", "queued"),
    "sleep": end_of(RUNNING, Outcome.SLEPT, "run.ended agent.asleep", "asleep"),
    "a failure": end_of(RUNNING, Outcome.FAILED, "run.ended agent.backing_off", "backing_off"),
    "the end of a stop": end_of(STOPPING, Outcome.STOPPED, "run.ended agent.asleep", "asleep"),
    "a fifth failure": end_of(
        replace(RUNNING, failures=4), Outcome.FAILED, "run.ended agent.quarantined", "quarantined"
    ),
    "a spent budget": Case(facts(budgets=(SPENT,)), state(), "agent.over_budget", "over_budget"),
    "a spent budget in a backoff": Case(
        facts(BACKING_OFF, budgets=(SPENT,)), BACKING_OFF, "agent.over_budget", "over_budget"
    ),
    "an archive": Case(facts(), ARCHIVE, "agent.archived", "archived"),
    "a restore": Case(facts(ARCHIVED), RESTORE, "agent.restored", "asleep"),
    "a pause of the agent": Case(facts(), state(paused=True), "agent.paused", "paused"),
    "a pause of a running agent": Case(
        facts(RUNNING), replace(RUNNING, paused=True), "agent.stopping", "stopping"
    ),
    "a pause of an archived agent": Case(
        facts(ARCHIVED), replace(ARCHIVED, paused=True), "agent.paused", "archived"
    ),
    "the end of a run in a pause": end_of(PAUSED_RUN, Outcome.STOPPED, "run.ended agent.paused", "paused"),
    "the end of a pause": Case(
        facts(state(paused=True, phase="paused")), state(phase="paused"), "agent.unpaused", "asleep"
    ),
    "a pause of the organization": Case(facts(organization_paused=True), state(), "", "asleep"),
    "a pause of it that stops a run": Case(
        facts(RUNNING, organization_paused=True),
        RUNNING,
        "agent.stopping",
        "stopping",
        replace(REST, stopping_run=RUN),
    ),
    "a message in such a pause": Case(
        replace(NEW_MESSAGE, organization_paused=True), state(), "agent.holding", "holding"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_update_writes_the_events_of_its_change(name: str) -> None:
    case = CASES[name]
    before, update = case.seen.state, case.plan()

    assert " ".join(event.type for event in update.events) == case.events
    assert update.after.phase == case.phase
    for event in update.events:
        data = orjson.loads(event.data)
        assert event.agent_id == before.agent_id
        assert (event.phase is None) == (event.type == "run.ended")
        if event.phase:
            assert (data["from"], data["to"], event.phase) == (before.phase, case.phase, case.phase)


@pytest.mark.parametrize("name", CASES)
def test_same_update_again_writes_no_event(name: str) -> None:
    case = CASES[name]
    first = case.plan().after
    facts_after = replace(transitions.facts_after(case.seen, case.after), state=first)

    again = replace(case, seen=facts_after, after=first, step=replace(case.step, end=None)).plan()

    assert (again.events, again.after) == ((), first)


def test_start_writes_one_event_for_the_run_and_its_agent() -> None:
    seen = facts(state(phase="queued"))

    update = plan_start(seen, RUN, "reminder", POLICY, Step(NOW, LIMITS, VIEW, actor="key:1"))

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

    [event] = plan_crash(facts(before), after, Step(NOW, LIMITS, VIEW)).events

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

    [event] = Case(seen, after, "", "", Step(NOW, LIMITS, VIEW, actor=actor)).plan().events

    assert isinstance(event, NewEvent)
    assert event.actor == actor
    assert orjson.loads(event.data)["next_at"] == moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


UNSPENT = Budget(of_organization=False, cap_usd=Decimal(5), spent_usd=Decimal(4))


def with_elapsed_sleep(budget: Budget) -> AgentFacts:
    return facts(state(sleep_until=NOW - HOUR), budgets=(budget,))


def test_fifth_failure_is_noticed_and_the_sixth_is_not() -> None:
    fourth, fifth, sixth = (state(failures=count, retry_at=NOW + HOUR) for count in (4, 5, 6))

    notice = Case(facts(fourth), fifth, "", "").plan().notice

    assert notice is not None
    assert notice.title == "Quarantined after too many failures in a row"
    assert "after 5 failures in a row" in notice.body
    assert Case(facts(fifth), sixth, "", "").plan().notice is None


def test_postponed_run_is_noticed_once_a_day() -> None:
    seen = with_elapsed_sleep(SPENT)

    first = budget_notice(seen, None, NOW, POLICY)
    later = budget_notice(seen, None, NOW + HOUR, POLICY)
    next_day = budget_notice(seen, None, NOW + timedelta(days=1), POLICY)

    assert first is not None
    assert later is not None
    assert next_day is not None
    assert first.title == "Over budget"
    assert (first.id == later.id, first.id == next_day.id) == (True, False)


def test_run_ended_by_its_budget_is_noticed() -> None:
    seen = facts(state(), budgets=(SPENT,))

    assert budget_notice(seen, None, NOW, POLICY) is None
    assert budget_notice(seen, RunEnd(RUN, Outcome.BUDGET, NOW, 1, ""), NOW, POLICY) is not None


@pytest.mark.parametrize("budget", [UNSPENT, Budget(False, Decimal(0), Decimal(0))])
def test_unspent_budget_and_cap_of_zero_are_not_noticed(budget: Budget) -> None:
    assert budget_notice(with_elapsed_sleep(budget), None, NOW, POLICY) is None
