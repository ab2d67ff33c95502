"""The scans: each finds agents that must act although no signal has told them, and signals them.

A paused agent has no `next_due_at`, so that no due scan returns to it during the pause. It has to be
signalled when the pause ends. If a process dies before it has signalled all agents, the next process finds
those that have something ahead of them but no `next_due_at`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from uuid import UUID

import structlog

from storage.agent_facts import AttendedAgent
from supervisors.clock import Clock
from supervisors.engine.context import HORIZON
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry, Teller, tell_agents_of, tell_pages
from supervisors.policy.attendance import OVERDUE
from supervisors.policy.decisions import renewed_at
from supervisors.ports import Nodes, OrganizationStore, StateStore

log = structlog.get_logger()

PAGE = 1000
IMMEDIATE_STARTS = 20  # overdue agents that are signalled at once after a start of the service
MAX_DRIFT_SECONDS = 0.5  # of the wall clock between two scans; beyond it, the clock was set back
STARTS_PER_SECOND = 500  # of the others


class DueScan:
    """Makes up for lost signals, and fills the timer queue for the next minutes."""

    def __init__(
        self, store: StateStore, registry: Registry, nodes: Nodes, clock: Clock, random: Random
    ) -> None:
        self._store = store
        self._registry = registry
        self._nodes = nodes
        self._clock = clock
        self._random = random
        self._spread: dict[UUID, float] = {}  # agents that start later, and when by the monotonic clock
        self._spread_until = 0.0
        self._has_recovered = False
        self._clock_offset = self._wall_clock_offset()

    async def run_once(self) -> None:
        """Signal the agents that are due or have active notifications; set timers for those due soon.

        The first pass after a recovery, or after the clock was set back, looks for what lies ahead. This
        reads all reminders, so the service does not wait for it at its start.
        """
        offset = self._wall_clock_offset()
        if self._has_recovered or offset < self._clock_offset - MAX_DRIFT_SECONDS:
            # The clock was set back since these became active. Their stored due times may be far ahead.
            activated_later = await self._store.list_activated_later(self._clock.now())
            self._registry.tell_all(activated_later, Signal.RELOAD)
            self._has_recovered = False
        self._clock_offset = offset  # only now, so that the next pass repeats a look that failed
        if self._clock.monotonic() >= self._spread_until:
            self._spread.clear()
        async for agent_id, signal in self._overdue():
            if self._clock.monotonic() >= self._spread.get(agent_id, 0):
                self._registry.tell(agent_id, signal)

    def _wall_clock_offset(self) -> float:
        """Return the wall clock minus the monotonic clock, in seconds."""
        return self._clock.now().timestamp() - self._clock.monotonic()

    async def recover(self) -> None:
        """Adopt orphans, then scan; to be called when the node starts, and when others have come or gone.

        The agents that fell due in the meantime start a few at a time instead of all at once.
        """
        nodes = self._nodes
        orphans = await self._store.list_orphans(nodes.living_ids, nodes.staying_ids)
        adopted = [orphan for orphan in orphans if nodes.responsible_for(orphan.agent_id) == nodes.node_id]
        interrupted = sum(orphan.had_run for orphan in adopted)
        self._registry.spread_recovery_over(interrupted / STARTS_PER_SECOND)
        self._registry.tell_all((orphan.agent_id for orphan in adopted), Signal.RELOAD)
        self._registry.tell_queued()
        self._has_recovered = True
        overdue = {agent_id: signal async for agent_id, signal in self._overdue()}
        log.info(
            "recovered", interrupted_runs=interrupted, queued=len(adopted) - interrupted, due=len(overdue)
        )
        for agent_id in list(overdue)[:IMMEDIATE_STARTS]:
            self._registry.tell(agent_id, overdue[agent_id])
        self._spread_starts(list(overdue)[IMMEDIATE_STARTS:])

    def _spread_starts(self, agent_ids: Sequence[UUID]) -> None:
        """Set a timer for each agent, one after the other. A new message still wakes one before its timer."""
        now, moment = self._clock.now(), self._clock.monotonic()
        for position, agent_id in enumerate(agent_ids):
            delay_seconds = (position + self._random.uniform(0, IMMEDIATE_STARTS)) / STARTS_PER_SECOND
            self._spread[agent_id] = moment + delay_seconds
            self._registry.schedule(agent_id, now + timedelta(seconds=delay_seconds))
        self._spread_until = max(self._spread.values(), default=0.0)

    async def _overdue(self) -> AsyncIterator[tuple[UUID, Signal]]:
        """Yield the agents to signal, and set timers for those that are due soon."""
        now, last_due = self._clock.now(), None
        while True:
            due = await self._store.list_due(now + HORIZON, last_due, PAGE)
            for each in due:
                if not self._is_ours(each) and each.next_due_at > now - OVERDUE:
                    continue
                if each.next_due_at <= now:
                    yield each.agent_id, Signal.DUE
                else:
                    self._registry.schedule(each.agent_id, each.next_due_at)
            if len(due) < PAGE:
                break
            last_due = (due[-1].next_due_at, due[-1].agent_id)
        last_active: UUID | None = None
        while True:
            active = await self._store.list_with_active_notification(now, last_active, PAGE)
            for agent in active:
                if self._is_ours(agent):
                    yield agent.agent_id, Signal.DUE
            if len(active) < PAGE:
                return
            last_active = active[-1].agent_id

    def _is_ours(self, agent: AttendedAgent) -> bool:
        """Return whether this node attends the agent, or, if nobody does, is responsible for it."""
        nodes, attendant = self._nodes, agent.node_id
        if attendant is None or not nodes.is_living(attendant) or nodes.is_leaving(attendant):
            return nodes.responsible_for(agent.agent_id) == nodes.node_id
        return attendant == nodes.node_id


@dataclass(slots=True, eq=False)
class NodeWatch:
    """Adopts the agents of nodes that die or leave, and scans again after an outage of the database.

    The event `changed` is set when nodes have come or gone, or this one is confirmed again.
    """

    nodes: Nodes
    changed: asyncio.Event
    scan: DueScan

    async def run_once(self) -> None:
        """Wait until the nodes have changed, and recover what is now this node's to do."""
        await self.changed.wait()
        self.changed.clear()
        try:
            await self.nodes.wait_until_confirmed()
            await self.scan.recover()
        except BaseException:
            self.changed.set()
            raise


@dataclass(slots=True, eq=False)
class Sweep:
    """Makes up for lost rings while several nodes live, and takes queued agents of others into free slots."""

    store: StateStore
    registry: Registry
    nodes: Nodes

    async def run_once(self) -> None:
        """Tell the supervisors here of rows that name this node and that they have not seen."""
        node_id = self.nodes.node_id
        if len(self.nodes.living_ids) < 2:
            return
        working = self.registry.working_agents  # before the rows: a later start is in none of them
        rows = await self.store.list_attended(node_id)
        for row in rows:
            self.registry.catch_up(row)
        # Deleted, or taken over by another node: the runs of these agents here are to end.
        self.registry.tell_all(sorted(working.difference(row.agent_id for row in rows)), Signal.RELOAD)
        if untaken := self.registry.untaken_slots:
            limit = self.registry.max_runs_per_organization
            queued = await self.store.list_queued_elsewhere(node_id, untaken, limit)
            self.registry.tell_all(queued, Signal.RELOAD)


@dataclass(slots=True, eq=False)
class PauseSync:
    """Compares the paused organizations with those it saw last, and signals the agents of changed ones.

    Each node signals its own supervisors, and the one for which `is_chosen` returns True all other agents.
    """

    store: StateStore
    organizations: OrganizationStore
    registry: Teller
    clock: Clock
    is_chosen: Callable[[], bool] = lambda: True
    _seen: frozenset[UUID] | None = None  # None after a start
    _was_chosen: bool = False

    async def run_once(self) -> None:
        """Signal the agents of each organization whose pause began or ended since the last call."""
        paused, is_chosen = frozenset(await self.organizations.list_paused()), self.is_chosen()
        if is_chosen and not self._was_chosen:
            # A pause from before the start needs no signal: its runs have died, and no agent starts in it.
            await tell_pages(partial(self.store.list_without_due_time, self.clock.now()), self.registry)
        for organization_id in paused ^ (paused if self._seen is None else self._seen):
            if is_chosen:
                await tell_agents_of(organization_id, self.store, self.registry)
            else:
                self.registry.tell_organization(organization_id, Signal.RELOAD)
        # Only now, so that a failed signal is sent again by the next call.
        self._seen, self._was_chosen = paused, is_chosen


@dataclass(slots=True, eq=False)
class BudgetRenewal:
    """Signals resting agents that are over their budgets, or within them, other than the event log says."""

    store: StateStore
    registry: Teller
    clock: Clock

    async def run_once(self) -> None:
        now = self.clock.now()
        await tell_pages(partial(self.store.list_within_budget, now, renewed_at(now)), self.registry)
        await tell_pages(partial(self.store.list_newly_over_budget, now), self.registry)
