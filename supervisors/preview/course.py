"""The course of an agent: what the rules lead to if nothing happens but some notifications. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState, PendingGroup
from storage.model import Source
from supervisors.policy import explanations
from supervisors.policy.decisions import Decision, Policy, Wake, decide

FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
MAX_STEPS = 1000  # more than the notifications and reminders that a preview has


@dataclass(frozen=True, slots=True)
class Arrival:
    """A high-priority notification that comes at `at`; a reminder becomes active at `active_at`."""

    at: datetime
    active_at: datetime
    source: Source

    @property
    def is_reminder(self) -> bool:
        return self.active_at > self.at


@dataclass(frozen=True, slots=True)
class Course:
    """The agent at a moment, or at its next start if that comes first, and that start.

    `facts` and `decision` are of `moment`. `start`: with the moment at which the run starts; None if nothing
    starts one. `arrived`: the number of notifications that have come by that start.
    """

    moment: datetime
    facts: AgentFacts
    decision: Decision
    start: Wake | None
    arrived: int


def follow(
    facts: AgentFacts, arrivals: Sequence[Arrival], now: datetime, moment: datetime, policy: Policy
) -> Course:
    """Follow an agent from `now` up to `moment`, and from there to its next start.

    `arrivals` are ordered by time. A run ends the course: what it does is not decided by the rules.
    """
    step, arrived, decision = now, 0, decide(facts, now, policy)
    seen, expected = (now, facts, decision), decision.wake
    for _ in range(MAX_STEPS):
        coming = tuple(one for one in arrivals[arrived:] if one.at <= step)
        arrived += len(coming)
        facts = facts_at(_with_arrivals(facts, coming), now, step)
        decision = decide(facts, step, policy)
        if step <= moment:
            seen = step, facts, decision
        due = decision.due_wake(step)
        if due is not None:
            # The cause is that of the wake that was expected for this moment, such as a renewed budget.
            cause = expected if expected is not None and expected.at == step else due
            return Course(*seen, replace(cause, at=step, reason=due.reason), arrived)
        following = min(_moments_ahead(decision, arrivals[arrived:], step, moment), default=None)
        if following is None:
            break
        step, expected = following, decision.wake
    return Course(*seen, None, arrived)


def facts_at(facts: AgentFacts, read_at: datetime, moment: datetime) -> AgentFacts:
    """Return the facts as they are at a later moment: due reminders are active, and budgets are renewed."""
    pending = tuple(_group_at(group, facts.state, moment) for group in facts.pending)
    budgets = facts.budgets
    if moment.astimezone(UTC).date() != read_at.astimezone(UTC).date():
        budgets = tuple(replace(budget, spent_usd=Decimal(0)) for budget in budgets)
    return replace(facts, pending=pending, budgets=budgets)


def one_by_one(facts: AgentFacts, reminders: Sequence[datetime]) -> AgentFacts:
    """Return the facts with a group for each of these reminders ahead, so that each becomes active alone."""
    others = tuple(group for group in facts.pending if group.period is not ActivationPeriod.AHEAD)
    ahead = tuple(
        PendingGroup(Source.API, True, ActivationPeriod.AHEAD, 1, moment, moment) for moment in reminders
    )
    return replace(facts, pending=(*others, *ahead))


def _moments_ahead(
    decision: Decision, arrivals: Sequence[Arrival], step: datetime, moment: datetime
) -> Iterator[datetime]:
    if arrivals:
        yield arrivals[0].at
    if step < moment:
        yield moment
    budget = decision.over_budget
    if decision.next_at is not None and (budget is None or not explanations.never_starts(budget)):
        yield decision.next_at


def _with_arrivals(facts: AgentFacts, arrivals: Sequence[Arrival]) -> AgentFacts:
    """Return the facts with these notifications in the queue, each active later than what was before."""
    for one in arrivals:
        active_at = one.active_at if one.is_reminder else max(one.at, _next_activation(facts))
        group = PendingGroup(one.source, one.is_reminder, ActivationPeriod.AHEAD, 1, active_at, active_at)
        if not one.is_reminder:
            group = _active(group, facts.state)
        held_between = facts.held_between
        if held_between is not None:  # the clock was set: the hold goes on by the present one
            held_between = held_between[0], max(held_between[1], one.at)
        facts = replace(facts, pending=(*facts.pending, group), held_between=held_between)
    return facts


def _next_activation(facts: AgentFacts) -> datetime:
    """Return the earliest moment at which the queue lets a notification become active."""
    state = facts.state
    active = (group.last_at for group in facts.pending if group.period is not ActivationPeriod.AHEAD)
    ends = (state.last_started_at, state.last_ended_at, state.stopped_at, state.seen_until)
    latest = max((moment for moment in (*active, *ends) if moment is not None), default=FIRST_MOMENT)
    return latest + timedelta(microseconds=1)


def _group_at(group: PendingGroup, state: AgentState, moment: datetime) -> PendingGroup:
    """Return the group as it is at this moment, when it may have become active."""
    is_ahead = group.period is ActivationPeriod.AHEAD
    return _active(group, state) if is_ahead and group.first_at <= moment else group


def _active(group: PendingGroup, state: AgentState) -> PendingGroup:
    is_during_run = state.run_id is not None
    return replace(group, period=ActivationPeriod.DURING if is_during_run else ActivationPeriod.SINCE)
