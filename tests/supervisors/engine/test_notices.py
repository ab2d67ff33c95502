"""Notices in an agent's own queue: one for each quarantine, and one a day over budget."""

from datetime import timedelta
from decimal import Decimal

from storage.agent_facts import AgentFacts, Budget, RunEnd
from storage.model import Outcome
from supervisors.engine.notices import notice_for, quarantine_notice
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import POLICY, RUN, facts, state

SPENT = Budget(of_organization=False, cap_usd=Decimal(5), spent_usd=Decimal(5))
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
