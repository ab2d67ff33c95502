"""Previews: an agent now, and after something came or changed, by the rules that start it. Pure.

A preview goes on up to a moment, on a copy of the facts. A run that starts before ends it: no rule decides
what a run does.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from storage.agent_facts import MOMENT, ActivationPeriod, AgentFacts, PendingGroup
from storage.model import AgentStatus, Priority, Source
from storage.notifications.changes import activation
from supervisors.bounds import bounds_of, raised
from supervisors.engine.snapshot import NextWake, Present
from supervisors.policy import explanations, transitions
from supervisors.policy.decisions import Decision, decide
from supervisors.policy.phases import Phase
from supervisors.rewind.least_change import LeastChange

AFTER_START = "What it does after that depends on that run, which no rule decides."
RUN_UNKNOWN = "It is running. When its run ends, and what it leaves uncleared, no rule decides."
PREVIEWED_RUN = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Event:
    """Notifications that come one after the other, the first of them at the moment that is asked for."""

    source: Source
    priority: Priority
    scheduled_for: datetime | None = None
    count: int = 1
    seconds_apart: float = 0.0
    urgent: bool = False

    def arrivals(self, first_at: datetime) -> list[datetime]:
        """Return when each of them comes."""
        return [first_at + timedelta(seconds=self.seconds_apart * index) for index in range(self.count)]


@dataclass(frozen=True, slots=True)
class Outlook:
    """An agent at one moment: where it is, why, and what wakes it next."""

    phase: Phase | None
    """The phase; null if it depends on a run, because no rule decides what a run does."""
    why: str
    """Why the agent is in this phase, or why its phase is not known. Times are in UTC."""
    next_wake: NextWake | None
    """When and why it wakes next by itself; null if only something new can wake it, or while it runs."""


@dataclass(frozen=True, slots=True)
class Preview:
    """An agent before and after what was asked. Nothing of it is stored."""

    now: Outlook
    """The agent at present."""
    then: Outlook
    """The agent after the change, when the last of the notifications has come, or at the moment `at`."""
    bounds_raised: str
    """The bounds of the agent that the change raises, such as `wakes_per_day=48`; "": none."""
    least_change: LeastChange | None = None
    """The answer to `wanted`; null if nothing was wanted."""


def preview(
    present: Present, changed: AgentFacts, *, event: Event | None = None, at: datetime | None = None
) -> Preview:
    """Say how the agent would be if `event` came at the moment `at`, else now, with the `changed` facts."""
    moment = max(present.now, at or present.now)
    return Preview(
        now=_outlook(present, present.facts, None, present.now),
        then=_outlook(present, changed, event, moment),
        bounds_raised=raised(*(bounds_of(facts, present.policy) for facts in (present.facts, changed))),
    )


def _outlook(present: Present, facts: AgentFacts, event: Event | None, moment: datetime) -> Outlook:
    """Follow the agent until all of the event has come, or until a run starts before that."""
    step, coming = present.now, event.arrivals(moment) if event else []
    moment = coming[-1] if coming else moment
    while True:
        while event and coming and coming[0] <= step:
            facts = _with_arrival(facts, event, coming.pop(0))
        facts = _facts_at(facts, present.now, step)
        decision = decide(facts, step, present.policy)
        if step == moment or decision.due_wake(step) is not None:
            return _outlook_at(present, facts, decision, step, moment)
        step = min(filter(None, (moment, decision.next_at, *coming[:1])))


def _with_arrival(facts: AgentFacts, event: Event, at: datetime) -> AgentFacts:
    """Return the facts with one more notification, which becomes active after those that are so already."""
    active_at = activation(event.priority, event.scheduled_for, at)
    if active_at is None:
        return facts
    if active_at > at:
        group = PendingGroup(
            event.source, True, ActivationPeriod.AHEAD, 1, active_at, active_at, event.urgent
        )
    else:
        active = (each.last_at for each in facts.pending if each.period is not ActivationPeriod.AHEAD)
        latest = max((at, *(last_at + MOMENT for last_at in active)))
        group = PendingGroup(event.source, False, _period_of(facts), 1, latest, latest, event.urgent)
    return replace(facts, pending=(*facts.pending, group))


def _period_of(facts: AgentFacts) -> ActivationPeriod:
    """Return the period of what becomes active."""
    return ActivationPeriod.SINCE if facts.state.run_id is None else ActivationPeriod.DURING


def _facts_at(facts: AgentFacts, read_at: datetime, moment: datetime) -> AgentFacts:
    """Return the facts at a later moment: the first of due reminders is active, and budgets are renewed."""
    pending = tuple(
        replace(group, period=_period_of(facts), count=1, last_at=group.first_at)
        if group.period is ActivationPeriod.AHEAD and group.first_at <= moment
        else group
        for group in facts.pending
    )
    budgets = facts.budgets
    if moment.astimezone(UTC).date() != read_at.astimezone(UTC).date():
        budgets = tuple(replace(budget, spent_usd=Decimal(0)) for budget in budgets)
    return replace(facts, pending=pending, budgets=budgets)


def _outlook_at(
    present: Present, facts: AgentFacts, decision: Decision, step: datetime, moment: datetime
) -> Outlook:
    """Return the agent at the moment. The decision is of `step`, which is earlier if a run starts then."""
    is_archived = facts.state.status is AgentStatus.ARCHIVED
    if facts.state.run_id is not None and not is_archived and moment > present.now:
        return Outlook(None, RUN_UNKNOWN, None)
    due = decision.due_wake(step)
    if due is None:
        phase = explanations.phase_of(facts, decision, step, run_is_stopping=present.run_is_stopping)
        return _outlook_of(present, facts, decision, phase, step)
    waits = facts.state.queued_at is not None or not present.has_room or not present.limits.may_start
    if waits and step == present.now:
        queued = replace(facts, state=transitions.queued(facts.state, step))
        return _outlook_of(present, queued, decision, Phase.QUEUED, step)
    cause = explanations.describe_cause(due)
    if step < moment:
        said = f"It wakes at {explanations.when(step)}. {cause} {AFTER_START}"
        return Outlook(None, said, NextWake(step, cause))
    state = transitions.started(facts, PREVIEWED_RUN, due.reason, step)
    started = replace(facts, state=state, wake_reason=due.reason)
    return _outlook_of(present, started, Decision(Phase.RUNNING), Phase.RUNNING, step)


def _outlook_of(
    present: Present, facts: AgentFacts, decision: Decision, phase: Phase, moment: datetime
) -> Outlook:
    since = explanations.stored_since(facts, decision, phase)
    why = explanations.why(facts, decision, phase, moment, since=since, limits=present.limits)
    wake = None if phase is Phase.QUEUED else explanations.next_wake(decision)
    return Outlook(phase, why, NextWake(wake.at, explanations.describe_cause(wake)) if wake else None)
