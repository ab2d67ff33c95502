"""Bounds: what they say beside their numbers, which `tests/web/api/agents/test_wake_limits.py` compares."""

from supervisors.bounds import bounds_of
from supervisors.policy.decisions import decide
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import POLICY, facts, state


def test_next_look_names_the_waits_that_come_on_top() -> None:
    quarantined = state(
        failures=9,
        last_started_at=NOW,
        sleep_until=NOW + HOUR,
        retry_at=NOW + 6 * HOUR,
        retry_reason="retry_after_failure",
    )
    seen = facts(quarantined, max_sleep_hours=1)
    wake, bound = decide(seen, NOW, POLICY).wake, bounds_of(seen, POLICY).next_look_seconds
    assert (wake and wake.at, bound.at_most) == (NOW + 6 * HOUR, 3600)
    assert "the waits after failures come on top" in bound.because
