"""Bodies, queries and responses of runs."""

import pytest

from storage.model import Outcome, Run, Source
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    OTHER_ID,
    OTHER_ID_TEXT,
    accept,
    refuse,
    serve,
)
from web.api.agents.runs import (
    DEFAULT_LIMIT,
    RunBody,
    RunQuery,
    StopBody,
    WaitQuery,
    serialize_run,
    wake_reasons,
)


def test_run_wakes_a_sleeping_agent_by_default() -> None:
    assert accept(RunBody(), {}) == {"wakeup": True}


def test_stop_is_gentle_by_default() -> None:
    assert accept(StopBody(), {}) == {"force": False, "reason": ""}


def test_list_of_runs_has_a_default_limit() -> None:
    assert accept(RunQuery(), {})["limit"] == DEFAULT_LIMIT


def test_wake_reason_is_exact_or_all_notifications() -> None:
    assert wake_reasons("reminder") == ("reminder",)
    assert wake_reasons("notification:sms") == ("notification:sms",)
    assert set(wake_reasons("notification")) == {f"notification:{source}" for source in Source}
    assert wake_reasons(None) == ()


@pytest.mark.parametrize("wait", ["0", "61", "", "x"])
def test_wait_outside_one_to_sixty_seconds_is_refused(wait: str) -> None:
    assert list(refuse(WaitQuery(), {"wait": wait})) == ["wait"]


def test_response_has_the_trace_under_the_id_of_the_run() -> None:
    run = Run(
        id=ID,
        agent_id=OTHER_ID,
        organization_id=ORGANIZATION_ID,
        wake_reason="reminder",
        notifications=(OTHER_ID,),
        notification_count=5,
        interrupted_sleep_until=None,
        max_sleep_until=None,
        started_at=NOON,
        ended_at=NOON,
        turns=3,
        outcome=Outcome.SLEPT,
        error="",
        stop_reason="Maintenance",
    )
    assert serve(serialize_run(run)) == {
        "id": ID_TEXT,
        "agent": OTHER_ID_TEXT,
        "trace": ID_TEXT,
        "wake_reason": "reminder",
        "notifications": [OTHER_ID_TEXT],
        "notification_count": 5,
        "interrupted_sleep_until": None,
        "started_at": NOON_TEXT,
        "ended_at": NOON_TEXT,
        "turns": 3,
        "outcome": "slept",
        "error": "",
        "stop_reason": "Maintenance",
        "output": "",
        "journal": None,
        "max_sleep_until": None,
    }
