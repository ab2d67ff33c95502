"""What a move leaves in its agent's queue: a low line about what people may have to do something about."""

from dataclasses import replace
from datetime import datetime

from storage.ids import id_of, new_id
from storage.model import AgentFacts, AgentState, Outcome, RunEnd, SystemNotice
from supervisors.policy import explanations
from supervisors.policy.budgets import reached
from supervisors.policy.decisions import Policy, decide
from supervisors.policy.transitions import is_newly_quarantined


def notice_for(
    seen: AgentFacts, after: AgentState, end: RunEnd | None, now: datetime, policy: Policy
) -> SystemNotice | None:
    """The remark on a move from what was seen to `after`, if there is anything to say."""
    ahead = replace(seen, state=after)
    return quarantine_notice(seen.state, after, now) or _budget_notice(ahead, end, now, policy)


def quarantine_notice(before: AgentState, after: AgentState, now: datetime) -> SystemNotice | None:
    """One line when the agent is quarantined, not at each failure after that."""
    if not is_newly_quarantined(before, after):
        return None
    return SystemNotice(new_id(), explanations.QUARANTINED, explanations.why_quarantined(after), now)


def _budget_notice(
    ahead: AgentFacts, end: RunEnd | None, now: datetime, policy: Policy
) -> SystemNotice | None:
    """One line a day when a budget ends a run or puts one off: the day's has always the same id."""
    budget = reached(ahead.budgets)
    if budget is None:
        return None
    wake = decide(ahead, now, policy).wake
    has_ended_one = end is not None and end.outcome is Outcome.BUDGET
    has_put_one_off = wake is not None and wake.is_put_off and not explanations.never_starts(budget)
    if not (has_ended_one or has_put_one_off):
        return None
    remark_id = id_of(ahead.state.agent_id, f"over budget on {now.date()}")
    return SystemNotice(remark_id, explanations.OVER_BUDGET, explanations.why_over_budget(budget, now), now)
