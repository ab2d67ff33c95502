"""Attendance: which node looks after an agent while it is awake, and when another one may act instead.

The row names the attendant (`AgentState.node_id`). It holds the agent's timer, its run and its place in the
queue. A sleeping agent has none: any node may wake it. Pure, but for the nodes that are alive at the moment.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from storage.agent_facts import AgentState
from supervisors.policy.phases import Phase

OVERDUE = timedelta(seconds=2)  # an attendant that is later than this has lost its timer
# A run, or something that lies ahead of the agent and is waited for in memory.
AWAKE = frozenset(
    {Phase.RUNNING, Phase.STOPPING, Phase.HOLDING, Phase.QUEUED, Phase.BACKING_OFF, Phase.QUARANTINED}
)


@dataclass(frozen=True, slots=True)
class View:
    """What this node knows of the others: its own id, and whether a node is dead or starts no runs."""

    node_id: int
    is_living: Callable[[int], bool] = lambda _: False
    is_leaving: Callable[[int], bool] = lambda _: False

    def is_elsewhere(self, state: AgentState) -> bool:
        """Return whether another living node attends the agent. One that starts no runs keeps its own."""
        attendant = state.node_id
        if attendant is None or attendant == self.node_id or not self.is_living(attendant):
            return False
        return _has_run(state) or not self.is_leaving(attendant)


def may_take_over(state: AgentState, now: datetime, *, has_room: bool) -> bool:
    """Return whether an agent that another node attends may be acted on here.

    So it is if it is queued and there `has_room` for it here, or if it is overdue: its attendant has lost its
    timer. Never while its run goes on, or something of the last one: two runs would work at the same time.
    """
    if _has_run(state):
        return False
    is_overdue = state.next_due_at is not None and state.next_due_at < now - OVERDUE
    return is_overdue or (has_room and state.queued_at is not None)


def attended(
    before: AgentState, after: AgentState, view: View, *, takes_over: bool = False, lingers: bool = False
) -> AgentState:
    """Return the state `after` with the node that attends the agent from now on.

    `lingers`: something of the agent's last run goes on in this process. `takes_over`: this node acts instead
    of the attendant.
    """
    attendant: int | None = view.node_id
    if after.run_id is not None:  # whoever writes, the run stays where it was started
        attendant, lingers = before.node_id, False
    else:
        if not takes_over and view.is_elsewhere(before):
            attendant, lingers = before.node_id, before.lingers or before.run_id is not None
        if not lingers and after.phase not in AWAKE:
            attendant = None
    if (after.node_id, after.lingers) == (attendant, lingers):
        return after
    return replace(after, node_id=attendant, lingers=lingers)


def _has_run(state: AgentState) -> bool:
    return state.run_id is not None or state.lingers
