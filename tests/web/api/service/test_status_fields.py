"""Query of the supervisors' status."""

from storage.model import AgentStatus
from supervisors.policy.phases import Phase
from tests.web.api.checks import ID, ID_TEXT, accept, refuse
from web.api.service.status import DEFAULT_LIMIT, SupervisorQuery


def test_query_has_a_default_limit_and_no_filter() -> None:
    assert accept(SupervisorQuery(), {}) == {
        "phase": None,
        "status": None,
        "organization": None,
        "name": None,
        "limit": DEFAULT_LIMIT,
    }


def test_query_reads_filters_and_limit() -> None:
    query = {
        "phase": "running",
        "status": "running",
        "organization": ID_TEXT,
        "name": " Ada ",
        "limit": "1000",
    }
    assert accept(SupervisorQuery(), query) == {
        "phase": Phase.RUNNING,
        "status": AgentStatus.RUNNING,
        "organization": ID,
        "name": "Ada",
        "limit": 1000,
    }


def test_query_refuses_unknown_phase_and_too_large_limit() -> None:
    assert refuse(SupervisorQuery(), {"phase": "dead", "limit": "1001"}) == {
        "phase": ['"dead" is not a valid choice.'],
        "limit": ["Ensure this value is less than or equal to 1000."],
    }
