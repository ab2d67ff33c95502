"""The judge of attendance: checks N1 to N6, the rules by which several nodes share the agents."""

from datetime import timedelta
from uuid import UUID

from hostsvc_testing.memory.tables import Nobody
from storage.agent_facts import AgentState, StateUpdate
from supervisors.engine.registry import Registry
from supervisors.policy.attendance import AWAKE, OVERDUE
from tests.simulation.cluster import Cluster, Membership
from tests.simulation.judge import SWEPT_SECONDS, Judge
from tests.simulation.process import RUNS, SimulatedProcess

# Until a free slot of another node has taken a queued agent, and until the grace of a stopped run is over.
LONGER_SECONDS = SWEPT_SECONDS + RUNS.stop_grace_seconds
CLOCK_TICKS = timedelta(milliseconds=1)


class NodeJudge(Nobody):
    """A witness of every update, and of every quiet moment."""

    def __init__(self, judge: Judge, cluster: Cluster) -> None:
        self._judge = judge
        self._cluster = cluster
        self._since: dict[tuple[UUID, str], float] = {}  # breaches that a sweep may still repair

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None:
        writer = self._judge.loop.owner
        if not isinstance(writer, SimulatedProcess):
            self._condemn("N3", after, "is changed by nobody")
            return
        me, other = writer.node.node_id, before.node_id
        is_elsewhere = other not in {me, None} and other in self._cluster.rows
        if me not in self._cluster.rows:
            self._condemn("N3", after, f"is changed by node {me}, which is dead")
        if update.start is not None and after.node_id != me:
            self._condemn("N1", after, f"is started by node {me}, and attended by {after.node_id}")
        if after.node_id is None and (after.phase in AWAKE or after.run_id is not None or after.lingers):
            self._condemn("N1", after, f"is {after.phase}, and nobody attends it")
        if not is_elsewhere:
            return
        if update.end is not None:
            self._condemn("N2", after, f"node {me} ends its run, and node {other} lives")
        if before.lingers and not after.lingers:
            self._condemn("N2", after, f"node {me} takes what lingers in node {other} for gone")
        if update.start is None and after.node_id not in {other, None} and not self._may_be_taken(before):
            self._condemn("N1", after, f"node {me} takes it from node {other}")

    def at_rest(self) -> None:
        """Check what each living node knows of the rows that name it."""
        if len(self._cluster.rows) == 1:
            self._since.clear()
            return
        breaches = {}
        for agent_id, state in self._judge.tables.states.items():
            for what in self._breaches(state):
                breaches[agent_id, what] = self._since.get((agent_id, what), self._judge.loop.time())
        self._since = breaches
        for (agent_id, what), since in breaches.items():
            seconds = SWEPT_SECONDS if what.startswith("names") else LONGER_SECONDS
            if self._judge.loop.time() - since > seconds:
                self._judge.condemn("N6", agent_id, what)

    def find_registry(self, agent_id: UUID) -> Registry | None:
        """Return the registry where the agent is attended, or any that is up."""
        state = self._judge.tables.states[agent_id]
        found = self._process(state.node_id) if state.node_id in self._cluster.rows else None
        if found is not None or state.node_id in self._cluster.rows:
            return found.registry if found else None
        up = (self._process(node_id) for node_id in self._cluster.rows)
        return next((process.registry for process in up if process is not None), None)

    def _process(self, node_id: int | None) -> SimulatedProcess | None:
        """Return the process of a node if that is up."""
        if node_id is None or node_id not in self._cluster.rows:
            return None
        process = self._cluster.nodes[node_id].owner
        assert isinstance(process, SimulatedProcess)
        is_up = process.has_begun and not (process.clock.is_stopped or process.wire.is_frozen)
        return process if is_up and process.node.is_confirmed else None

    def _breaches(self, state: AgentState) -> list[str]:
        """Return what is wrong at this moment, and may be so for as long as a sweep takes."""
        process = self._process(state.node_id)
        if process is None or self._judge.is_lenient(state.agent_id):
            return []
        found, registry, node_id = [], process.registry, state.node_id
        supervisor = registry._supervisors.get(state.agent_id)
        if supervisor is None or supervisor.version < state.version:
            found.append(f"names node {node_id}, which does not know its row")
        run = registry._context.runs.get(state.agent_id)
        if state.run_id is not None and (run is None or run.id != state.run_id):
            found.append(f"has a run of node {node_id}, which does not know it")
        if state.run_id is not None and state.stopped_at is not None:
            found.append("is to stop, and its run goes on")
        if state.queued_at is not None and self._is_room_elsewhere(state):
            found.append(f"is queued at node {node_id}, and another has a free slot")
        return found

    def _is_room_elsewhere(self, state: AgentState) -> bool:
        if not self._judge.may_run_more(self._judge.tables.agents[state.agent_id].organization_id):
            return False
        processes = (self._process(node_id) for node_id in self._cluster.rows if node_id != state.node_id)
        return any(process.registry.free_slots for process in processes if process is not None)

    def _may_be_taken(self, before: AgentState) -> bool:
        if before.lingers or before.run_id is not None:
            return False
        is_leaving = self._cluster.rows.get(before.node_id or 0) is Membership.LEAVING
        now = self._judge.wall.now()
        is_late = before.next_due_at is not None and before.next_due_at < now - OVERDUE + CLOCK_TICKS
        return is_leaving or is_late or before.queued_at is not None

    def _condemn(self, invariant: str, of: AgentState, what: str) -> None:
        self._judge.condemn(invariant, of.agent_id, what)
