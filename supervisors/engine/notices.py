"""Low-priority notices in an agent's own queue, about changes that may need a person's attention."""

from datetime import datetime

from storage.agent_facts import AgentFacts, AgentState, Budget, RunEnd, SystemNotice
from storage.ids import derive_id, new_id
from storage.model import Outcome
from storage.postgres.json_values import to_json
from supervisors.policy import explanations
from supervisors.policy.budgets import dollars, reached_budget
from supervisors.policy.decisions import Policy, decide
from supervisors.policy.transitions import is_newly_quarantined


def notice_for(
    before: AgentState, facts: AgentFacts, end: RunEnd | None, now: datetime, policy: Policy
) -> SystemNotice | None:
    """Return the notice for an update from the state `before` to that in `facts`, if there is one."""
    return quarantine_notice(before, facts.state, now) or _budget_notice(facts, end, now, policy)


def quarantine_notice(before: AgentState, after: AgentState, now: datetime) -> SystemNotice | None:
    """Return a notice if the update begins a quarantine; failures within it give none."""
    if not is_newly_quarantined(before, after):
        return None
    return SystemNotice(new_id(), explanations.QUARANTINED, explanations.why_quarantined(after), now)


def _budget_notice(
    facts: AgentFacts, end: RunEnd | None, now: datetime, policy: Policy
) -> SystemNotice | None:
    """Return a notice if a budget ends or postpones a run.

    All notices of one day have the same id, so that only the first is stored.
    """
    ended_run = end is not None and end.outcome is Outcome.BUDGET
    budget = reached_budget(facts.budgets)
    if budget is None and end is not None and ended_run:
        notice_id = derive_id(facts.state.agent_id, f"unpriced on {now.date()}")
        return SystemNotice(notice_id, explanations.UNPRICED, explanations.why_refused(end.error), now)
    if budget is None:
        return None
    wake = decide(facts, now, policy).wake
    postponed_run = wake is not None and wake.is_postponed and not explanations.never_starts(budget)
    if not (ended_run or postponed_run):
        return None
    notice_id = derive_id(facts.state.agent_id, f"over budget on {now.date()}")
    spent = f"Spent today: {dollars(budget.spent_usd)} USD."
    body = f"{explanations.why_over_budget(budget, now)} {spent}"
    return SystemNotice(notice_id, explanations.OVER_BUDGET, body, now, _event_data(budget))


def _event_data(budget: Budget) -> str:
    """Return the data of the event `budget.reached`."""
    return to_json(
        {
            "of": "organization" if budget.of_organization else "agent",
            "cap_usd": float(budget.cap_usd),
            "spent_usd": float(budget.spent_usd),
        }
    ).decode()
