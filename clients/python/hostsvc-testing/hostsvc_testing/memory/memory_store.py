"""The store in memory: agents, templates and organizations beside their states and notifications.

Each does what its namesake in `storage` does, as far as the simulation acts on it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

from hostsvc_testing.memory import row_events
from hostsvc_testing.memory.memory_calls import MemoryParkedCalls
from hostsvc_testing.memory.memory_channels import (
    MemoryContacts,
    MemoryDocuments,
    MemoryMemories,
    MemoryMessages,
    page_of,
)
from hostsvc_testing.memory.memory_events import MemoryEvents
from hostsvc_testing.memory.memory_facts import budgets
from hostsvc_testing.memory.memory_queue import MemoryNotifications
from hostsvc_testing.memory.memory_schedules import MemorySchedules
from hostsvc_testing.memory.memory_states import MemoryStates
from hostsvc_testing.memory.memory_tools import MemoryTools, Untold
from hostsvc_testing.memory.tables import QUANTUM_SECONDS, ShortWire, Tables, Transaction, Wire
from storage.agent_facts import AgentState, Budget
from storage.agents.agents import Child, Share
from storage.errors import ReferenceMissing
from storage.events.model import BY_SERVICE, EventType
from storage.history.runs import RunFilters
from storage.history.usage import UsageRecord
from storage.model import Agent, AgentStatus, Notification, Organization, Outcome, Run, Template
from storage.notifications.notifications import OnCommit
from storage.postgres.paging import Chunk, Page

SLOWEST_QUANTA = 4  # a change of an agent takes less

SHOWN_STATE = (
    "status",
    "sleep_until",
    "run_started_at",
    "last_wake_reason",
    "last_wake_interrupted_sleep_until",
)


class MemoryAgents:
    """Agents; of their states only creation and deletion."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def insert(self, agent: Agent, notice: Notification | None) -> None:
        await self._wire.carry(partial(self._insert, agent, notice), agent.id)

    async def insert_child(
        self, child: Agent, notice: Notification | None, share: Share, *, actor: str
    ) -> Child:
        inserting = partial(self._insert_child, child, notice, share, actor)
        return await self._wire.run_to_completion(self._wire.carry(inserting, child.parent_id))

    async def get(self, agent_id: UUID) -> Agent | None:
        agent, state = self._tables.agent(agent_id), self._tables.states.get(agent_id)
        if agent is None or state is None:
            return None
        return replace(agent, **{name: getattr(state, name) for name in SHOWN_STATE})

    async def update(
        self, agent_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Agent | None:
        return await self._wire.carry(partial(self._update, agent_id, changes, now, actor), agent_id)

    async def delete(self, agent_id: UUID, now: datetime, *, actor: str = BY_SERVICE) -> bool:
        return await self._wire.carry(partial(self._bury, agent_id, now, actor), agent_id)

    async def list_holding_of_template(self, template_id: UUID) -> list[UUID]:
        await self._wire.carry(partial(asyncio.sleep, 0), None)
        return [
            agent.id
            for agent in self._tables.agents.values()
            if agent.template_id == template_id
            and (state := self._tables.states.get(agent.id)) is not None
            and state.status is AgentStatus.SLEEPING
            and any(one.activated_at is not None for one in self._tables.queue(agent.id))
        ]

    async def _insert(self, agent: Agent, notice: Notification | None) -> None:
        await asyncio.sleep(0)
        async with Transaction(self._tables) as transaction:
            self._write_new(transaction, agent, notice)

    async def _insert_child(
        self, child: Agent, notice: Notification | None, share: Share, actor: str
    ) -> Child:
        async with Transaction(self._tables) as transaction:
            await transaction.lock("agent", child.parent_id or child.id)
            parent = self._tables.agent(child.parent_id) if child.parent_id else None
            if parent is None:
                raise ReferenceMissing("parent")
            own = [
                each for each in budgets(self._tables, parent, child.created_at) if not each.of_organization
            ]
            cap = own[0].cap_usd if own else None
            for each in self._tables.agents.values():
                if (each.parent_id, each.name) == (parent.id, child.name) and self._tables.agent(each.id):
                    return Child(each, cap)
            if cap is not None:
                part = share(cap, max(cap - own[0].spent_usd, Decimal(0)))
                child, cap = replace(child, max_cost_usd_per_day=part), cap - part
                self._write_changes(
                    transaction, parent, {"max_cost_usd_per_day": cap}, child.created_at, actor
                )
            self._write_new(transaction, child, notice)
        return Child(child, cap)

    def _write_new(self, transaction: Transaction, agent: Agent, notice: Notification | None) -> None:
        state = AgentState(agent.id, **{name: getattr(agent, name) for name in SHOWN_STATE})
        is_asleep = agent.status is AgentStatus.SLEEPING
        armed = replace(state, next_due_at=agent.sleep_until if is_asleep else None)

        def write() -> None:
            self._tables.agents[agent.id] = agent
            self._tables.states[agent.id] = armed
            self._tables.witness.changed(agent.id, "created")
            if notice is not None:
                self._tables.put(notice)

        events = [row_events.agent_event(EventType.AGENT_CREATED, agent.id, agent.created_at)]
        events += [row_events.created(notice)] if notice is not None else []
        transaction.insert_events(agent.organization_id, events)
        transaction.write(write)

    async def _update(
        self, agent_id: UUID, changes: Mapping[str, Any], now: datetime, actor: str
    ) -> Agent | None:
        async with Transaction(self._tables) as transaction:
            await transaction.lock("agent", agent_id)
            agent = self._tables.agent(agent_id)
            if agent is None:
                return None
            self._write_changes(transaction, agent, changes, now, actor)
            # The ids of its events stay taken for as long as the rest of the transaction lasts.
            await asyncio.sleep(QUANTUM_SECONDS * (self._tables.events.last_id % SLOWEST_QUANTA))
        await asyncio.sleep(0)
        return await self.get(agent_id)

    def _write_changes(
        self, transaction: Transaction, agent: Agent, changes: Mapping[str, Any], now: datetime, actor: str
    ) -> None:
        def write() -> None:
            self._tables.agents[agent.id] = replace(agent, **changes)
            self._tables.witness.changed(agent.id, f"now has {dict(changes)}")

        fields = [name for name, value in changes.items() if getattr(agent, name) != value]
        if fields:
            event = row_events.agent_event(EventType.AGENT_CHANGED, agent.id, now, fields, actor)
            transaction.insert_events(agent.organization_id, [event])
        transaction.write(write)

    async def _bury(self, agent_id: UUID, now: datetime, actor: str) -> bool:
        async with Transaction(self._tables) as transaction:
            await transaction.lock("agent", agent_id)
            agent = self._tables.agent(agent_id)
            if agent is None:
                return False
            await transaction.lock("agent_state", agent_id)
            event = row_events.agent_event(EventType.AGENT_DELETED, agent_id, now, actor=actor)
            transaction.insert_events(agent.organization_id, [event])
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
    """Templates."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def get(self, template_id: UUID) -> Template | None:
        return self._tables.templates.get(template_id)

    async def get_of(self, agent: Agent) -> Template | None:
        return self._tables.templates.get(agent.template_id) if agent.template_id else None

    async def insert(self, template: Template) -> None:
        await self._wire.carry(partial(asyncio.sleep, 0), None)
        self._tables.templates[template.id] = template

    async def update(
        self, template_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Template | None:
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
    """A `supervisors.ports.OrganizationStore`."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def update(
        self,
        organization_id: UUID,
        changes: Mapping[str, Any],
        now: datetime,
        *,
        actor: str = BY_SERVICE,
    ) -> Organization | None:
        return await self._wire.carry(partial(self._update, organization_id, changes, now, actor), None)

    async def list_paused(self) -> list[UUID]:
        await self._wire.carry(partial(asyncio.sleep, 0), None)
        return [one.id for one in self._tables.organizations.values() if one.paused]

    async def _update(
        self, organization_id: UUID, changes: Mapping[str, Any], now: datetime, actor: str
    ) -> Organization | None:
        await asyncio.sleep(0)
        async with Transaction(self._tables) as transaction:
            await transaction.lock("organization", organization_id)
            organization = self._tables.organizations.get(organization_id)
            if organization is None:
                return None
            changed = replace(organization, **changes)
            if changed.paused != organization.paused:
                event = row_events.pause_event(now, paused=changed.paused, actor=actor)
                transaction.insert_events(organization_id, [event])
            transaction.write(lambda: self._write(changed, changes))
        return changed

    def _write(self, changed: Organization, changes: Mapping[str, Any]) -> None:
        self._tables.organizations[changed.id] = changed
        for agent in self._tables.agents.values():
            if agent.organization_id == changed.id:
                self._tables.witness.changed(agent.id, f"its organization now has {dict(changes)}")


class MemoryRuns:
    """Runs."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get(self, run_id: UUID) -> Run | None:
        run = self._tables.runs.get(run_id)
        return run if run is not None and self._tables.agent(run.agent_id) else None

    async def list_page(self, filters: RunFilters, page: Page) -> Chunk[Run]:
        own = (run for run in reversed(self._tables.runs.values()) if run.agent_id == filters.agent_id)
        return page_of(own, page, attrgetter("started_at", "id"))


class MemoryUsage:
    """The cost of model calls; only their sums."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire
        self._known: set[UUID] = set()

    async def insert(self, record: UsageRecord) -> None:
        await self._wire.carry(partial(self._insert, record), record.agent_id)

    async def insert_all(self, records: Sequence[UsageRecord]) -> None:
        for record in records:
            await self.insert(record)

    async def _insert(self, record: UsageRecord) -> None:
        await asyncio.sleep(0)
        if record.id in self._known or not record.cost_usd:
            return
        self._known.add(record.id)
        spending, day = self._tables.spending, record.occurred_at.date()
        for owner_id in (record.agent_id, record.organization_id):
            spending[owner_id, day] = spending.get((owner_id, day), Decimal(0)) + record.cost_usd
        for agent in self._tables.agents.values():
            if agent.organization_id == record.organization_id:
                self._tables.witness.changed(agent.id, f"has spent {record.cost_usd}, or others with it")


class MemorySpending:
    """A `supervisors.ports.SpendingStore`."""

    def __init__(self, tables: Tables, wire: Wire) -> None:
        self._tables = tables
        self._wire = wire

    async def list_budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]:
        return await self._wire.carry(partial(self._budgets, agent_id, now), agent_id)

    async def _budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]:
        await asyncio.sleep(0)
        agent = self._tables.agents.get(agent_id)
        return () if agent is None else budgets(self._tables, agent, now)


@dataclass(frozen=True, slots=True)
class MemoryStorage:
    """The counterpart of `storage.storage.Storage`, for one process."""

    agent_states: MemoryStates
    notifications: MemoryNotifications
    agents: MemoryAgents
    templates: MemoryTemplates
    organizations: MemoryOrganizations
    runs: MemoryRuns
    usage: MemoryUsage
    spending: MemorySpending
    schedules: MemorySchedules
    parked_calls: MemoryParkedCalls
    approval_grants: MemoryParkedCalls
    events: MemoryEvents
    contacts: MemoryContacts
    messages: MemoryMessages
    documents: MemoryDocuments
    memories: MemoryMemories
    agent_tools: MemoryTools
    wakes: Untold
    recent_notifications: Untold
    traces: Untold


def build_memory_storage(
    tables: Tables,
    on_commit: OnCommit,
    wire: Wire | None = None,
    on_clear: Callable[[Sequence[UUID]], None] | None = None,
) -> MemoryStorage:
    wire = wire or ShortWire()
    notifications = MemoryNotifications(
        tables, wire, on_commit, on_clear or (lambda agent_ids: on_commit(dict.fromkeys(agent_ids)))
    )
    calls, untold = MemoryParkedCalls(tables, wire, notifications, on_commit), Untold(tables)
    return MemoryStorage(
        agent_states=MemoryStates(tables, wire),
        notifications=notifications,
        agents=MemoryAgents(tables, wire),
        templates=MemoryTemplates(tables, wire),
        organizations=MemoryOrganizations(tables, wire),
        runs=MemoryRuns(tables),
        usage=MemoryUsage(tables, wire),
        spending=MemorySpending(tables, wire),
        schedules=MemorySchedules(tables, wire, notifications, on_commit),
        parked_calls=calls,
        approval_grants=calls,
        events=MemoryEvents(tables, wire),
        contacts=MemoryContacts(tables),
        messages=MemoryMessages(tables, wire),
        documents=MemoryDocuments(tables, wire),
        memories=MemoryMemories(tables, wire),
        agent_tools=MemoryTools(tables),
        wakes=untold,
        recent_notifications=untold,
        traces=untold,
    )
