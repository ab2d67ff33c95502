"""The rest of the store in memory: the queue, and what agents, templates and organizations are.

Each does what its namesake in `storage` does, as far as the simulation acts on it.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from storage.activation import activation
from storage.arrivals import NewNotification
from storage.errors import Forbidden, ReferenceMissing
from storage.model import (
    Agent,
    AgentState,
    AgentStatus,
    Notification,
    Organization,
    Outcome,
    Priority,
    Run,
    Template,
)
from tests.simulation.memory_states import MemoryStates
from tests.simulation.tables import LOCK_TIMEOUT_SECONDS, ShortWire, Tables, Transaction, Wire

SHOWN_STATE = (
    "status",
    "sleep_until",
    "run_started_at",
    "last_wake_reason",
    "last_wake_interrupted_sleep_until",
)


class MemoryNotifications:
    """The queue. `on_commit` is told which agents a commit concerns, right after it."""

    def __init__(self, tables: Tables, wire: Wire, on_commit: Callable[[Sequence[UUID]], None]) -> None:
        self._tables = tables
        self._wire = wire
        self._on_commit = on_commit

    async def insert(self, notification: NewNotification, allowed: Collection[UUID]) -> None:
        await self._wire.to_the_end(self._insert(notification, allowed))

    async def get(self, notification_id: UUID) -> Notification | None:
        found = self._tables.notifications.get(notification_id)
        return found if found is not None and self._tables.agent(found.agent_id) else None

    async def list_for_agent(
        self, agent_id: UUID, *, include_cleared: bool, limit: int, now: datetime
    ) -> list[Notification]:
        return await self._wire.carry(partial(self._list, agent_id, include_cleared, limit, now), agent_id)

    async def update(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime
    ) -> Notification | None:
        return await self._wire.to_the_end(self._update(notification_id, changes, now))

    async def clear(self, agent_id: UUID, notification_id: UUID, now: datetime) -> bool:
        return await self._wire.to_the_end(self._clear(agent_id, notification_id, now))

    async def delete(self, notification_id: UUID) -> bool:
        return await self._wire.to_the_end(self._delete(notification_id))

    async def _insert(self, new: NewNotification, allowed: Collection[UUID]) -> None:
        await self._wire.carry(partial(self._insert_row, new, allowed), new.agent_id)
        if new.priority is Priority.HIGH:
            self._on_commit([new.agent_id])

    async def _insert_row(self, new: NewNotification, allowed: Collection[UUID]) -> None:
        while True:
            agent = self._tables.agent(new.agent_id)
            if agent is None:
                raise ReferenceMissing("agent")
            if agent.organization_id not in allowed:
                raise Forbidden(f"agent {agent.id} belongs to another organization")
            stored = _new_row(new, agent.organization_id)
            async with Transaction(self._tables) as transaction:
                if stored.activated_at is not None:
                    await transaction.lock("agent_state", agent.id, LOCK_TIMEOUT_SECONDS)
                    if agent.id not in self._tables.states:
                        continue  # deleted meanwhile: the next statement sees it
                due_at = stored.activated_at if stored.activated_at != stored.created_at else None
                transaction.write(lambda: self._write(None, stored, due_at))  # noqa: B023 -- not again
            await asyncio.sleep(0)
            return

    async def _list(
        self, agent_id: UUID, include_cleared: bool, limit: int, now: datetime
    ) -> list[Notification]:
        await asyncio.sleep(0)
        if self._tables.agent(agent_id) is None:
            return []
        shown = [
            one
            for one in self._tables.queue(agent_id)
            if (include_cleared or not one.cleared)
            and (one.scheduled_for is None or one.scheduled_for <= now)
        ]
        shown.sort(key=lambda one: (one.priority is not Priority.HIGH, one.created_at, one.id))
        await asyncio.sleep(0)
        return shown[:limit]

    async def _update(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime
    ) -> Notification | None:
        agent_id = self._agent_of(notification_id)
        both = await self._wire.carry(partial(self._update_row, notification_id, changes, now), agent_id)
        if both is None:
            return None
        before, after = both
        if after.activated_at != before.activated_at:
            self._on_commit([after.agent_id])
        return after

    async def _update_row(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime
    ) -> tuple[Notification, Notification] | None:
        async with Transaction(self._tables) as transaction:
            before = await self._lock(transaction, notification_id)
            if before is None:
                return None
            after = changed(before, changes, now)
            if after.activated_at is not None and after.activated_at != before.activated_at:
                await transaction.lock("agent_state", after.agent_id)
            due_at = after.activated_at if after.activated_at and after.activated_at > now else None
            transaction.write(lambda: self._write(before, after, due_at))
        await asyncio.sleep(0)
        return before, after

    async def _clear(self, agent_id: UUID, notification_id: UUID, now: datetime) -> bool:
        priority = await self._wire.carry(partial(self._clear_row, agent_id, notification_id, now), agent_id)
        if priority is Priority.HIGH:
            self._on_commit([agent_id])
        return priority is not None

    async def _clear_row(self, agent_id: UUID, notification_id: UUID, now: datetime) -> Priority | None:
        async with Transaction(self._tables) as transaction:
            before = await self._lock(transaction, notification_id)
            if before is None or before.agent_id != agent_id:
                return None
            after = changed(before, {"cleared": True}, now)
            transaction.write(lambda: self._write(before, after, None))
        await asyncio.sleep(0)
        return before.priority

    async def _delete(self, notification_id: UUID) -> bool:
        agent_id = self._agent_of(notification_id)
        before = await self._wire.carry(partial(self._delete_row, notification_id), agent_id)
        if before is not None and before.activated_at is not None:
            self._on_commit([before.agent_id])
        return before is not None

    async def _delete_row(self, notification_id: UUID) -> Notification | None:
        async with Transaction(self._tables) as transaction:
            before = await self._lock(transaction, notification_id)
            if before is not None:
                transaction.write(lambda: self._erase(before))
        await asyncio.sleep(0)
        return before

    async def _lock(self, transaction: Transaction, notification_id: UUID) -> Notification | None:
        """The newest version of the row; None if it is gone, or its agent was deleted before."""
        if await self.get(notification_id) is None:
            return None
        await transaction.lock("notification", notification_id)
        return self._tables.notifications.get(notification_id)

    def _write(self, before: Notification | None, after: Notification, due_at: datetime | None) -> None:
        tables, at = self._tables, after.activated_at
        tables.notifications[after.id] = after
        state = tables.states.get(after.agent_id)
        was_at = before.activated_at if before is not None else None
        if state is not None and at is not None and at != was_at:
            tables.states[state.agent_id] = _rung(state, due_at)
        tables.witness.changed(after.agent_id, _told(before, after))

    def _erase(self, gone: Notification) -> None:
        del self._tables.notifications[gone.id]
        self._tables.witness.changed(gone.agent_id, f"deleted {gone.title}")

    def _agent_of(self, notification_id: UUID) -> UUID | None:
        found = self._tables.notifications.get(notification_id)
        return None if found is None else found.agent_id


class MemoryAgents:
    """What agents are; of their state only birth and death."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def insert(self, agent: Agent, notice: Notification | None) -> None:
        assert notice is None, "nobody has parents here"
        await self._wire.carry(partial(self._insert, agent), agent.id)

    async def get(self, agent_id: UUID) -> Agent | None:
        agent, state = self._tables.agent(agent_id), self._tables.states.get(agent_id)
        if agent is None or state is None:
            return None
        return replace(agent, **{name: getattr(state, name) for name in SHOWN_STATE})

    async def update(self, agent_id: UUID, changes: Mapping[str, Any]) -> Agent | None:
        return await self._wire.carry(partial(self._update, agent_id, changes), agent_id)

    async def delete(self, agent_id: UUID, now: datetime) -> bool:
        return await self._wire.carry(partial(self._bury, agent_id, now), agent_id)

    async def holding_of_template(self, template_id: UUID) -> list[UUID]:
        await self._wire.carry(partial(asyncio.sleep, 0), None)
        return [
            agent.id
            for agent in self._tables.agents.values()
            if agent.template_id == template_id
            and (state := self._tables.states.get(agent.id)) is not None
            and state.status is AgentStatus.SLEEPING
            and state.next_due_at is not None
        ]

    async def _insert(self, agent: Agent) -> None:
        await asyncio.sleep(0)
        state = AgentState(agent.id, **{name: getattr(agent, name) for name in SHOWN_STATE})
        is_asleep = agent.status is AgentStatus.SLEEPING
        self._tables.agents[agent.id] = agent
        self._tables.states[agent.id] = replace(state, next_due_at=agent.sleep_until if is_asleep else None)
        self._tables.witness.changed(agent.id, "created")

    async def _update(self, agent_id: UUID, changes: Mapping[str, Any]) -> Agent | None:
        async with Transaction(self._tables) as transaction:
            await transaction.lock("agent", agent_id)
            agent = self._tables.agent(agent_id)
            if agent is None:
                return None

            def write() -> None:
                self._tables.agents[agent_id] = replace(agent, **changes)
                self._tables.witness.changed(agent_id, f"now has {dict(changes)}")

            transaction.write(write)
        await asyncio.sleep(0)
        return await self.get(agent_id)

    async def _bury(self, agent_id: UUID, now: datetime) -> bool:
        async with Transaction(self._tables) as transaction:
            await transaction.lock("agent", agent_id)
            if self._tables.agent(agent_id) is None:
                return False
            await transaction.lock("agent_state", agent_id)
            transaction.write(lambda: self._write_burial(agent_id, now))
        await asyncio.sleep(0)
        return True

    def _write_burial(self, agent_id: UUID, now: datetime) -> None:
        tables = self._tables
        tables.deleted.add(agent_id)
        del tables.states[agent_id]
        for run in list(tables.runs.values()):
            if run.agent_id == agent_id and run.ended_at is None:
                ended_at = max(run.started_at, now)
                ended = replace(run, ended_at=ended_at, outcome=Outcome.STOPPED, error="deleted")
                tables.runs[run.id] = ended
        tables.witness.changed(agent_id, "deleted")


class MemoryTemplates:
    """What agents inherit."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def insert(self, template: Template) -> None:
        await self._wire.carry(partial(asyncio.sleep, 0), None)
        self._tables.templates[template.id] = template

    async def update(self, template_id: UUID, changes: Mapping[str, Any]) -> Template | None:
        return await self._wire.carry(partial(self._update, template_id, changes), None)

    async def _update(self, template_id: UUID, changes: Mapping[str, Any]) -> Template | None:
        await asyncio.sleep(0)
        template = self._tables.templates.get(template_id)
        if template is None:
            return None
        self._tables.templates[template_id] = replace(template, **changes)
        for agent in self._tables.agents.values():
            if agent.template_id == template_id:
                self._tables.witness.changed(agent.id, f"its template now has {dict(changes)}")
        return self._tables.templates[template_id]


class MemoryOrganizations:
    """Fits `supervisors.ports.OrganizationStore`."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def update(self, organization_id: UUID, changes: Mapping[str, Any]) -> Organization | None:
        return await self._wire.carry(partial(self._update, organization_id, changes), None)

    async def list_paused(self) -> list[UUID]:
        await self._wire.carry(partial(asyncio.sleep, 0), None)
        return [one.id for one in self._tables.organizations.values() if one.paused]

    async def _update(self, organization_id: UUID, changes: Mapping[str, Any]) -> Organization | None:
        await asyncio.sleep(0)
        organization = self._tables.organizations.get(organization_id)
        if organization is None:
            return None
        self._tables.organizations[organization_id] = replace(organization, **changes)
        for agent in self._tables.agents.values():
            if agent.organization_id == organization_id:
                self._tables.witness.changed(agent.id, f"its organization now has {dict(changes)}")
        return self._tables.organizations[organization_id]


class MemoryRuns:
    """The wake ledger."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get(self, run_id: UUID) -> Run | None:
        run = self._tables.runs.get(run_id)
        return run if run is not None and self._tables.agent(run.agent_id) else None


@dataclass(frozen=True, slots=True)
class MemoryStorage:
    """What `storage.storage.Storage` is, for one process."""

    agent_states: MemoryStates
    notifications: MemoryNotifications
    agents: MemoryAgents
    templates: MemoryTemplates
    organizations: MemoryOrganizations
    runs: MemoryRuns


def build_memory_storage(
    tables: Tables, on_commit: Callable[[Sequence[UUID]], None], wire: Wire | None = None
) -> MemoryStorage:
    wire = wire or ShortWire()
    return MemoryStorage(
        agent_states=MemoryStates(tables, wire),
        notifications=MemoryNotifications(tables, wire, on_commit),
        agents=MemoryAgents(tables, wire),
        templates=MemoryTemplates(tables, wire),
        organizations=MemoryOrganizations(tables, wire),
        runs=MemoryRuns(tables),
    )


def changed(before: Notification, changes: Mapping[str, Any], now: datetime) -> Notification:
    """The notification after a change, with the activation that `storage.activation` gives it."""
    after = replace(before, **changes)
    cleared_at = (before.cleared_at or now) if after.cleared else None
    since = before.activated_at if after.scheduled_for == before.scheduled_for else None
    activated_at = activation(after.priority, after.scheduled_for, now, cleared=after.cleared, since=since)
    return replace(after, cleared_at=cleared_at, activated_at=activated_at)


def _new_row(new: NewNotification, organization_id: UUID) -> Notification:
    return Notification(
        id=new.id,
        organization_id=organization_id,
        agent_id=new.agent_id,
        source=new.source,
        source_id=new.source_id,
        title=new.title,
        body=new.body,
        priority=new.priority,
        created_at=new.created_at,
        scheduled_for=new.scheduled_for,
        cleared=False,
        cleared_at=None,
        activated_at=activation(new.priority, new.scheduled_for, new.created_at),
    )


def _rung(state: AgentState, due_at: datetime | None) -> AgentState:
    """What whoever makes a notification active does to its agent."""
    moments = [moment for moment in (state.next_due_at, due_at) if moment is not None]
    waits = state.status is AgentStatus.SLEEPING and state.queued_at is None
    next_due_at = min(moments, default=None) if waits else state.next_due_at
    return replace(state, wake_seq=state.wake_seq + 1, next_due_at=next_due_at)


def _told(before: Notification | None, after: Notification) -> str:
    if before is None:
        active = f", active at {after.activated_at:%H:%M:%S.%f}" if after.activated_at else ""
        return f"received {after.title} ({after.source}, {after.priority}{active})"
    shown = {
        name: getattr(after, name)
        for name in ("priority", "scheduled_for", "cleared", "activated_at")
        if getattr(after, name) != getattr(before, name)
    }
    return f"{after.title} now has {', '.join(f'{name} {value}' for name, value in shown.items())}"
