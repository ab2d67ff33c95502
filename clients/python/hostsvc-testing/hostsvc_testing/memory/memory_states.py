"""The states of agents in memory: does what `storage.agents.state.AgentStates` does.

The contract suite in `tests/storage/test_store_*.py` holds the two to the same behaviour.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from hostsvc_testing.memory import row_events
from hostsvc_testing.memory.memory_facts import budgets, facts
from hostsvc_testing.memory.tables import LOCK_TIMEOUT_SECONDS, Tables, Transaction, Wire
from storage.agent_facts import (
    AgentFacts,
    AgentState,
    AttendedAgent,
    Counts,
    DueAgent,
    Orphan,
    RowVersion,
    StateUpdate,
    SystemNotice,
)
from storage.agents.state_updates import MAX_RUN_NOTIFICATIONS
from storage.errors import RunLimitReached
from storage.events.model import EventType, NewEvent
from storage.history.runs import JournalFacts
from storage.model import Agent, AgentStatus, Notification, Outcome, Priority, Run, Source
from supervisors.policy.phases import HELD_BY_LIMITS, OVER_BUDGET, Phase

Result = TypeVar("Result")


class MemoryLock:
    """One agent's row, locked by this transaction."""

    def __init__(self, tables: Tables, transaction: Transaction, facts: AgentFacts | None) -> None:
        self._tables = tables
        self._transaction = transaction
        self.facts = facts

    async def update(self, update: StateUpdate) -> bool:
        return await update_row(self._tables, self._transaction, update)


class MemoryStates:
    """A `supervisors.ports.StateStore`."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def get_facts(self, agent_id: UUID, now: datetime) -> AgentFacts | None:
        return await self._wire.carry(partial(self._get_facts, agent_id, now), agent_id)

    async def update(self, update: StateUpdate) -> bool:
        agent_id = update.before.agent_id
        return await self._wire.run_to_completion(self._wire.carry(partial(self._update, update), agent_id))

    async def start(self, update: StateUpdate, organization_id: UUID, max_runs: int) -> bool:
        return await self._wire.run_to_completion(self._start(update, organization_id, max_runs))

    async def end_open_spans(self, trace_id: UUID, ended_at: datetime) -> None:
        """Do nothing: there are no spans here."""

    async def get_journal_facts(self, run_id: UUID) -> JournalFacts:
        """Return that the run did nothing: there is no journal here."""
        return JournalFacts()

    @asynccontextmanager
    async def locked(self, agent_id: UUID, now: datetime) -> AsyncIterator[MemoryLock]:
        async with Transaction(self._tables) as transaction:
            self._wire.opened(transaction)
            await self._wire.carry(partial(self._lock, transaction, agent_id), agent_id, may_be_late=False)
            yield MemoryLock(self._tables, transaction, await self._get_facts(agent_id, now))
            await self._wire.carry(partial(asyncio.sleep, 0), agent_id)  # the commit
        await self._wire.carry(partial(asyncio.sleep, 0), agent_id)  # and its answer

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[DueAgent]:
        def due(states: list[AgentState]) -> list[DueAgent]:
            return [
                DueAgent(state.agent_id, state.node_id, state.next_due_at)
                for state in states
                if state.next_due_at is not None and state.next_due_at <= until
            ]

        found = sorted(await self._read(due), key=lambda each: (each.next_due_at, each.agent_id))
        return [each for each in found if after is None or (each.next_due_at, each.agent_id) > after][:limit]

    async def list_with_active_notification(
        self, now: datetime, after: UUID | None, limit: int
    ) -> list[AttendedAgent]:
        def calls(state: AgentState) -> bool:
            return (
                state.status is AgentStatus.SLEEPING
                and state.queued_at is None
                and not self._is_paused(state)
                and any(at <= now and not _is_stopped(state, at) for at in self._activations(state))
            )

        states = self._tables.states
        found = await self._page(calls, after, limit)
        return [AttendedAgent(each, states[each].node_id) for each in found if each in states]

    async def list_non_idle(
        self,
        after: UUID | None,
        limit: int,
        *,
        organization_id: UUID | None = None,
        template_id: UUID | None = None,
    ) -> list[UUID]:
        def is_concerned(state: AgentState) -> bool:
            agent = self._tables.agents[state.agent_id]
            owners = {agent.organization_id, agent.template_id} - {None}
            return not owners.isdisjoint({organization_id, template_id}) and self._is_busy(state)

        return await self._page(is_concerned, after, limit)

    async def list_without_due_time(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        def is_unarmed(state: AgentState) -> bool:
            return (
                state.status is AgentStatus.SLEEPING
                and state.next_due_at is None
                and state.queued_at is None
                and not self._is_paused(state)
                and (bool(_plans(state)) or any(at > now for at in self._activations(state)))
            )

        return await self._page(is_unarmed, after, limit)

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]:
        def waits_in_vain(state: AgentState) -> bool:
            agent = self._tables.agents[state.agent_id]
            is_postponed = state.next_due_at == renewed_at and any(
                at < renewed_at for at in (*_plans(state), *self._activations(state))
            )
            return (state.phase == OVER_BUDGET or is_postponed) and not any(
                budget.is_reached for budget in budgets(self._tables, agent, now)
            )

        return await self._page(waits_in_vain, after, limit)

    async def list_newly_over_budget(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        def is_unaware(state: AgentState) -> bool:
            agent = self._tables.agents[state.agent_id]
            is_resting = state.status is AgentStatus.SLEEPING
            return (
                is_resting
                and not state.paused
                and state.phase not in {OVER_BUDGET, Phase.QUARANTINED}
                and any(budget.is_reached for budget in budgets(self._tables, agent, now))
            )

        return await self._page(is_unaware, after, limit)

    async def list_orphans(self, living: Collection[int], staying: Collection[int]) -> list[Orphan]:
        def is_orphan(state: AgentState) -> bool:
            if state.run_id is not None:
                return state.node_id not in living
            if state.queued_at is None:
                is_dead = state.node_id is not None and state.node_id not in living
                return is_dead and state.next_due_at is None
            return state.queued_at is not None and state.node_id not in staying

        def orphans(states: list[AgentState]) -> list[AgentState]:
            return sorted(filter(is_orphan, states), key=_by_turn)

        return [Orphan(state.agent_id, state.run_id is not None) for state in await self._read(orphans)]

    async def list_attended(self, node_id: int) -> list[RowVersion]:
        def attended(states: list[AgentState]) -> list[RowVersion]:
            return [
                RowVersion(state.agent_id, state.version, state.wake_seq)
                for state in states
                if state.node_id == node_id
            ]

        return await self._read(attended)

    async def list_queued_elsewhere(self, node_id: int, limit: int, max_runs: int) -> list[UUID]:
        def by_turn(states: list[AgentState]) -> list[UUID]:
            agents, places = self._tables.agents, Counter[UUID]()
            for state in states:
                places[agents[state.agent_id].organization_id] += state.run_id is not None
            turns = []
            for state in sorted(states, key=_by_turn):
                if state.queued_at is not None and state.node_id not in {node_id, None}:
                    places[agents[state.agent_id].organization_id] += 1
                    turns.append((places[agents[state.agent_id].organization_id], state.agent_id))
            return [agent_id for place, agent_id in sorted(turns)[:limit] if place <= (max_runs or place)]

        return await self._read(by_turn)

    async def list_activated_later(self, now: datetime) -> list[UUID]:
        def is_ahead(state: AgentState) -> bool:
            return state.status is AgentStatus.SLEEPING and any(
                one.activated_at is not None and now < one.activated_at != one.scheduled_for
                for one in self._tables.uncleared(state.agent_id)
            )

        return await self._page(is_ahead, None, len(self._tables.states))

    async def list_ids(
        self, organization_id: UUID | None, after: UUID | None, limit: int, name: str | None = None
    ) -> list[UUID]:
        def is_listed(state: AgentState) -> bool:
            agent = self._tables.agents[state.agent_id]
            is_named = name is None or agent.name.lower() == name.lower()
            return is_named and organization_id in {None, agent.organization_id}

        return await self._page(is_listed, after, limit)

    async def list_blockers(self, agent_id: UUID, now: datetime, limit: int) -> list[UUID]:
        def blockers(_: object) -> list[UUID]:
            return active_ids(self._tables, agent_id, now)

        return (await self._wire.carry(partial(self._select, blockers), agent_id))[:limit]

    async def count(self, now: datetime, *, quarantine_failures: int) -> Counts:
        return await self._read(lambda states: self._count(states, now, quarantine_failures))

    async def _get_facts(self, agent_id: UUID, now: datetime) -> AgentFacts | None:
        await asyncio.sleep(0)
        seen = facts(self._tables, agent_id, now)
        await asyncio.sleep(0)
        return seen

    async def _update(self, update: StateUpdate) -> bool:
        async with Transaction(self._tables) as transaction:
            is_made = await update_row(self._tables, transaction, update)
        await asyncio.sleep(0)
        return is_made

    async def _start(self, update: StateUpdate, organization_id: UUID, max_runs: int) -> bool:
        """Start in a transaction of several statements, so that a frozen process keeps others waiting."""
        before = update.before
        carry = partial(self._wire.carry, agent_id=before.agent_id, may_be_late=False)
        async with Transaction(self._tables) as transaction:
            self._wire.opened(transaction)
            await carry(partial(transaction.lock, "starts", organization_id, LOCK_TIMEOUT_SECONDS))
            await carry(
                partial(self._select, partial(_require_turn, self._tables, before, organization_id, max_runs))
            )
            is_made = await carry(partial(update_row, self._tables, transaction, update))
            await carry(partial(asyncio.sleep, 0))  # the commit
        await carry(partial(asyncio.sleep, 0))  # and its answer
        return is_made

    async def _lock(self, transaction: Transaction, agent_id: UUID) -> None:
        await transaction.lock("agent_state", agent_id, LOCK_TIMEOUT_SECONDS)

    async def _read(self, select: Callable[[list[AgentState]], Result]) -> Result:
        return await self._wire.carry(partial(self._select, select), None)

    async def _select(self, select: Callable[[list[AgentState]], Result]) -> Result:
        await asyncio.sleep(0)
        return select(list(self._tables.states.values()))

    async def _page(self, fits: Callable[[AgentState], bool], after: UUID | None, limit: int) -> list[UUID]:
        found = await self._read(lambda states: sorted(state.agent_id for state in states if fits(state)))
        return [agent_id for agent_id in found if after is None or agent_id > after][:limit]

    def _count(self, states: list[AgentState], now: datetime, quarantine_failures: int) -> Counts:
        status = [state.status for state in states]
        moments = [state.next_due_at for state in states if state.next_due_at is not None]
        active = [one.activated_at for one in self._tables.notifications.values() if one.activated_at]
        return Counts(
            running=status.count(AgentStatus.RUNNING),
            sleeping=status.count(AgentStatus.SLEEPING),
            archived=status.count(AgentStatus.ARCHIVED),
            quarantined=frozenset(
                state.agent_id
                for state in states
                if _is_quarantined(state, now, quarantine_failures) and not self._is_paused(state)
            ),
            timers=len(moments),
            next_due_at=min(moments, default=None),
            oldest_active_at=min((at for at in active if at <= now), default=None),
            held_by_limits=sum(state.phase == HELD_BY_LIMITS for state in states),
        )

    def _activations(self, state: AgentState) -> list[datetime]:
        return [one.activated_at for one in self._tables.uncleared(state.agent_id) if one.activated_at]

    def _is_busy(self, state: AgentState) -> bool:
        """Return whether something is under way, ahead or pending."""
        if state.status is not AgentStatus.SLEEPING:
            return state.status is AgentStatus.RUNNING
        is_ahead = state.queued_at is not None or state.next_due_at is not None or bool(_plans(state))
        return is_ahead or bool(self._activations(state))

    def _is_paused(self, state: AgentState) -> bool:
        organization_id = self._tables.agents[state.agent_id].organization_id
        return state.paused or self._tables.organizations[organization_id].paused


async def update_row(tables: Tables, transaction: Transaction, update: StateUpdate) -> bool:
    """Do what the statement UPDATE does: lock the row, check the guard on its newest version, write."""
    agent_id = update.before.agent_id
    active = active_ids(tables, agent_id, update.start.started_at) if update.start else []
    await transaction.lock("agent_state", agent_id, LOCK_TIMEOUT_SECONDS)
    newest, agent = tables.states.get(agent_id), tables.agents.get(agent_id)
    if newest is None or agent is None or not guard_holds(update, newest):
        return False
    events = [replace(event, agent_id=agent_id) for event in update.events]
    if update.notice is not None and update.notice.id not in tables.notifications:
        events.append(row_events.created(_left(update.notice, agent)))
        if update.notice.budget:
            reached = EventType.BUDGET_REACHED
            events.append(NewEvent(reached, update.notice.created_at, agent_id, data=update.notice.budget))
    transaction.insert_events(agent.organization_id, events)
    transaction.write(lambda: _write_update(tables, newest, agent, update, active))
    return True


def _require_turn(
    tables: Tables, before: AgentState, organization_id: UUID, max_runs: int, states: list[AgentState]
) -> None:
    """Raise RunLimitReached if the organization has enough runs, or with agents queued earlier."""
    own = [state for state in states if tables.agents[state.agent_id].organization_id == organization_id]
    left = max_runs - sum(state.run_id is not None and state.phase != Phase.ASLEEP for state in own)
    if left <= 0:
        raise RunLimitReached
    queue = sorted((state.queued_at, state.agent_id) for state in own if state.queued_at is not None)
    place = (before.queued_at or datetime.max.replace(tzinfo=UTC), before.agent_id)
    earlier = [agent_id for queued_at, agent_id in queue if (queued_at, agent_id) < place][:left]
    if len(earlier) == left:
        raise RunLimitReached(earlier)


def guard_holds(update: StateUpdate, newest: AgentState) -> bool:
    """Return whether the row is still as the update expects it."""
    before = update.before
    is_unchanged = (newest.status, newest.run_id, newest.version) == (
        before.status,
        before.run_id,
        before.version,
    )
    return is_unchanged and (not update.guarded or newest.wake_seq == update.before.wake_seq)


def active_ids(tables: Tables, agent_id: UUID, now: datetime) -> list[UUID]:
    """Return the active notifications, oldest activation first. Only reminders depend on the clock."""
    found = sorted(
        (one.activated_at, one.id)
        for one in tables.uncleared(agent_id)
        if one.activated_at is not None and (one.activated_at <= now or one.scheduled_for != one.activated_at)
    )
    return [notification_id for _, notification_id in found]


def _write_update(
    tables: Tables, before: AgentState, agent: Agent, update: StateUpdate, active: list[UUID]
) -> None:
    after = replace(update.after, wake_seq=before.wake_seq, version=before.version + 1)
    tables.states[agent.id] = after
    if update.start is not None:
        tables.runs[update.start.run_id] = Run(
            id=update.start.run_id,
            agent_id=agent.id,
            organization_id=agent.organization_id,
            wake_reason=update.start.wake_reason,
            notifications=tuple(active[:MAX_RUN_NOTIFICATIONS]),
            notification_count=len(active),
            interrupted_sleep_until=update.start.interrupted_sleep_until,
            max_sleep_until=update.start.max_sleep_until,
            started_at=update.start.started_at,
            ended_at=None,
            turns=0,
            outcome=None,
            error="",
        )
    if update.end is not None:
        run = tables.runs.get(update.end.run_id)
        if run is not None and run.ended_at is None:
            end = update.end
            tables.runs[run.id] = replace(
                run,
                ended_at=end.ended_at,
                outcome=end.outcome,
                turns=end.turns,
                error=end.error,
                stop_reason=after.stop_reason if end.outcome is Outcome.STOPPED else "",
                output=end.output,
            )
    if update.notice is not None and update.notice.id not in tables.notifications:
        tables.put(_left(update.notice, agent))
    tables.witness.moved(before, after, update)


def _left(notice: SystemNotice, agent: Agent) -> Notification:
    return Notification(
        id=notice.id,
        organization_id=agent.organization_id,
        agent_id=agent.id,
        source=Source.SYSTEM,
        source_id="",
        title=notice.title,
        body=notice.body,
        priority=Priority.LOW,
        created_at=notice.created_at,
        scheduled_for=None,
        cleared=False,
        cleared_at=None,
        activated_at=None,
    )


def _is_quarantined(state: AgentState, now: datetime, quarantine_failures: int) -> bool:
    is_ahead = state.retry_at is not None and state.retry_at > now
    return state.failures >= quarantine_failures and is_ahead and state.run_id is None


def _is_stopped(state: AgentState, at: datetime) -> bool:
    """Return whether a stop silences an activation at this time."""
    if state.stopped_at is None:
        return False
    return at <= max(state.stopped_at, state.seen_until or state.stopped_at)


def _plans(state: AgentState) -> list[datetime]:
    moments = (state.sleep_until, state.retry_at, state.run_requested_at)
    return [moment for moment in moments if moment is not None]


def _by_turn(state: AgentState) -> tuple[Any, ...]:
    """Return what sorts orphans: those whose runs died, then by the beginning of their wait."""
    last = (datetime.max.replace(tzinfo=UTC),)
    started_at = (state.last_started_at,) if state.last_started_at else last
    return state.run_id is None, (state.queued_at,) if state.queued_at else last, started_at, state.agent_id
