"""The phases of an agent and the status that clients see."""

import pytest

from storage.model import AgentStatus
from supervisors.policy.phases import Phase


@pytest.mark.parametrize("phase", list(Phase))
def test_phase_shows_as_running_archived_or_sleeping(phase: Phase) -> None:
    expected = {
        Phase.RUNNING: AgentStatus.RUNNING,
        Phase.STOPPING: AgentStatus.RUNNING,
        Phase.ARCHIVED: AgentStatus.ARCHIVED,
    }.get(phase, AgentStatus.SLEEPING)

    assert phase.status is expected
