"""Attendance: which node attends an agent after each update, and who may act on it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from storage.agent_facts import AgentState
from storage.ids import new_id
from supervisors.policy.attendance import View, attended, may_take_over
from tests.storage.factories import NOW, SECOND
from tests.supervisors.agent_facts import state

ME, OTHER, LEAVING, DEAD = 1, 2, 3, 4
VIEW = View(ME, is_living={ME, OTHER, LEAVING}.__contains__, is_leaving={LEAVING}.__contains__)
RUN = new_id()
ASLEEP, HOLDING = state(), state(phase="holding")


@pytest.mark.parametrize(
    ("row", "elsewhere"),
    [
        (ASLEEP, False),
        (replace(HOLDING, node_id=ME), False),
        (replace(HOLDING, node_id=OTHER), True),
        (replace(HOLDING, node_id=DEAD), False),
        (replace(HOLDING, node_id=LEAVING), False),
        (state(phase="running", run_id=RUN, node_id=LEAVING), True),
        (state(lingers=True, node_id=LEAVING), True),
    ],
)
def test_agent_is_elsewhere_while_a_living_node_attends_it(row: AgentState, *, elsewhere: bool) -> None:
    assert VIEW.is_elsewhere(row) is elsewhere


def test_awake_agent_gets_this_node_and_a_sleeping_one_none() -> None:
    assert attended(ASLEEP, HOLDING, VIEW).node_id == ME
    assert attended(replace(HOLDING, node_id=ME), ASLEEP, VIEW).node_id is None
    assert attended(replace(HOLDING, node_id=DEAD), HOLDING, VIEW).node_id == ME


def test_update_by_another_node_keeps_the_attendant_while_awake() -> None:
    held = replace(HOLDING, node_id=OTHER)

    assert attended(held, HOLDING, VIEW).node_id == OTHER
    assert attended(held, ASLEEP, VIEW).node_id is None
    assert attended(held, HOLDING, VIEW, takes_over=True).node_id == ME


def test_run_stays_with_its_node_whoever_writes() -> None:
    running = state(phase="running", run_id=RUN, node_id=OTHER)

    assert attended(running, replace(running, node_id=None, phase="stopping"), VIEW).node_id == OTHER


def test_lingering_run_keeps_its_node_until_it_is_gone() -> None:
    own = attended(state(phase="running", run_id=RUN, node_id=ME), ASLEEP, VIEW, lingers=True)
    others = attended(state(phase="running", run_id=RUN, node_id=OTHER), ASLEEP, VIEW)

    assert (own.node_id, own.lingers) == (ME, True)
    assert (others.node_id, others.lingers) == (OTHER, True), "its process may go on there"
    gone = attended(own, ASLEEP, VIEW)
    assert (gone.node_id, gone.lingers) == (None, False)
    held = attended(others, HOLDING, VIEW)
    assert (held.node_id, held.lingers) == (OTHER, True)


@pytest.mark.parametrize(
    ("row", "has_room", "may"),
    [
        (state(phase="queued", queued_at=NOW), True, True),
        (state(phase="queued", queued_at=NOW), False, False),
        (state(phase="holding", next_due_at=NOW - 3 * SECOND), False, True),
        (state(phase="holding", next_due_at=NOW - SECOND), True, False),
        (state(lingers=True, next_due_at=NOW - timedelta(hours=1), queued_at=NOW), True, False),
        (state(run_id=RUN, queued_at=NOW), True, False),
    ],
)
def test_agent_of_another_node_may_be_taken_over(row: AgentState, *, has_room: bool, may: bool) -> None:
    assert may_take_over(row, NOW, has_room=has_room) is may
