"""Ports: what supervisors need from storage. The classes of `storage` satisfy these Protocols."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from storage.agent_facts import (
    AgentFacts,
    AttendedAgent,
    Budget,
    Counts,
    DueAgent,
    Orphan,
    RowVersion,
    StateUpdate,
)
from storage.events.model import Event, Interest
from storage.history.runs import JournalFacts
from storage.notifications.schedules import DueSchedule, Occurrence, Step
from storage.parked_calls import CallStep, DueCall, Rule
from storage.postgres.paging import Chunk


class LockedAgent(Protocol):
    """One agent's state under a lock: until it is released, no notification of it can become active."""

    @property
    def facts(self) -> AgentFacts | None: ...

    async def update(self, update: StateUpdate) -> bool: ...


class StateStore(Protocol):
    """The states of all agents; `storage.agents.state.AgentStates` documents each operation."""

    async def get_facts(self, agent_id: UUID, now: datetime) -> AgentFacts | None: ...

    async def update(self, update: StateUpdate) -> bool: ...

    async def start(self, update: StateUpdate, organization_id: UUID, max_runs: int) -> bool: ...

    def locked(self, agent_id: UUID, now: datetime) -> AbstractAsyncContextManager[LockedAgent]: ...

    async def end_open_spans(self, trace_id: UUID, ended_at: datetime) -> None: ...

    async def get_journal_facts(self, run_id: UUID) -> JournalFacts: ...

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[DueAgent]: ...

    async def list_with_active_notification(
        self, now: datetime, after: UUID | None, limit: int
    ) -> list[AttendedAgent]: ...

    async def list_non_idle(
        self,
        after: UUID | None,
        limit: int,
        *,
        organization_id: UUID | None = None,
        template_id: UUID | None = None,
    ) -> list[UUID]: ...

    async def list_without_due_time(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_newly_over_budget(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_orphans(self, living: Collection[int], staying: Collection[int]) -> list[Orphan]: ...

    async def list_attended(self, node_id: int) -> list[RowVersion]: ...

    async def list_queued_elsewhere(self, node_id: int, limit: int, max_runs: int) -> list[UUID]: ...

    async def list_activated_later(self, now: datetime) -> list[UUID]: ...

    async def list_ids(
        self, organization_id: UUID | None, after: UUID | None, limit: int, name: str | None = None
    ) -> list[UUID]: ...

    async def list_blockers(self, agent_id: UUID, now: datetime, limit: int) -> list[UUID]: ...

    async def count(self, now: datetime, *, quarantine_failures: int) -> Counts: ...


class Nodes(Protocol):
    """The nodes of the service; `storage.postgres.membership.Membership` documents each operation."""

    @property
    def node_id(self) -> int: ...

    @property
    def living_ids(self) -> Collection[int]: ...

    @property
    def staying_ids(self) -> Collection[int]: ...

    @property
    def is_confirmed(self) -> bool: ...

    def is_living(self, node_id: int) -> bool: ...

    def is_leaving(self, node_id: int) -> bool: ...

    @property
    def starts_runs(self) -> bool: ...

    def responsible_for(self, agent_id: UUID) -> int | None: ...

    async def wait_until_confirmed(self) -> None: ...


class EventStore(Protocol):
    """The log; `storage.events.events.Events` documents each operation."""

    @property
    def written(self) -> asyncio.Event: ...

    async def list_after(self, interest: Interest, after: int) -> Chunk[Event]: ...

    async def get_first_id(self) -> int | None: ...

    async def get_last_id(self) -> int: ...

    async def list_writers(self) -> frozenset[str]: ...


class OrganizationStore(Protocol):
    async def list_paused(self) -> list[UUID]: ...


class ScheduleStore(Protocol):
    """Due schedules; `storage.notifications.schedules.Schedules` documents each operation."""

    async def list_due(self, now: datetime, without: Collection[UUID], limit: int) -> list[DueSchedule]: ...

    async def fire(self, steps: Sequence[Step], now: datetime) -> list[Occurrence]: ...


class ParkedCallStore(Protocol):
    """Parked calls; `storage.parked_calls.ParkedCalls` documents each operation."""

    stored: asyncio.Event

    async def list_due(
        self, now: datetime, without: Collection[UUID], full: Collection[UUID], limit: int
    ) -> list[DueCall]: ...

    async def change(self, call_id: UUID, rule: Rule, now: datetime) -> CallStep | None: ...


class KnownModels(Protocol):
    """The models that agents can have; `supervisors.llm.catalog.ModelCatalog` documents the operations."""

    def qualify(self, model: str) -> str: ...

    def require_known(self, model: str) -> None: ...

    async def is_priced(self, model: str, now: datetime) -> bool: ...


class SpendingStore(Protocol):
    """The budgets of a day and what was spent of them."""

    async def list_budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]: ...
