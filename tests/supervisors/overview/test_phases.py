"""The number of agents in each phase, from the phases of the event log."""

from storage.agents.overviews import ALL_PHASES
from supervisors.overview.phases import shown_phases
from supervisors.policy.phases import ShownPhase


def test_agents_that_are_in_no_other_phase_are_asleep() -> None:
    counts = [(False, "holding", 2), (False, "archived", 1), (False, ALL_PHASES, 10)]
    assert shown_phases(counts) == {ShownPhase.HOLDING: 2, ShownPhase.ASLEEP: 7, ShownPhase.ARCHIVED: 1}


def test_pause_holds_agents_that_neither_run_nor_are_archived() -> None:
    counts = [(True, "quarantined", 2), (True, "stopping", 1), (True, "archived", 3), (True, ALL_PHASES, 10)]
    assert shown_phases(counts) == {
        ShownPhase.STOPPING: 1,
        ShownPhase.PAUSED: 6,
        ShownPhase.ARCHIVED: 3,
    }


def test_count_of_all_that_is_older_leaves_no_negative_number() -> None:
    assert shown_phases([(False, ALL_PHASES, 1), (False, "running", 2)]) == {ShownPhase.RUNNING: 2}
