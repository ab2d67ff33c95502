"""Ports: what supervisors need from storage. The classes of `storage` satisfy these Protocols."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from storage.agent_facts import AgentFacts, Budget, Counts, StateUpdate
from storage.events.model import Event, Interest
from storage.history.journals import JournalFacts
from storage.history.trace_model import NewSpan
from storage.history.usage import UsageRecord
from storage.model import Agent, Template
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

    def locked(self, agent_id: UUID, now: datetime) -> AbstractAsyncContextManager[LockedAgent]: ...

    async def end_open_spans(self, trace_id: UUID, ended_at: datetime) -> None: ...

    async def get_journal_facts(self, run_id: UUID) -> JournalFacts: ...

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[tuple[UUID, datetime]]: ...

    async def list_with_active_notification(
        self, now: datetime, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_non_idle_of_organization(
        self, organization_id: UUID, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_non_idle_of_template(
        self, template_id: UUID, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_without_due_time(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_newly_over_budget(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_running(self) -> list[UUID]: ...

    async def list_queued(self) -> list[UUID]: ...

    async def list_activated_later(self, now: datetime) -> list[UUID]: ...

    async def list_ids(self, organization_id: UUID | None, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_ids_of_name(
        self, name: str, organization_id: UUID | None, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_blockers(self, agent_id: UUID, now: datetime, limit: int) -> list[UUID]: ...

    async def count(self, now: datetime, *, quarantine_failures: int) -> Counts: ...


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


class AgentStore(Protocol):
    async def get(self, agent_id: UUID) -> Agent | None: ...


class TemplateStore(Protocol):
    async def get(self, template_id: UUID) -> Template | None: ...


class SecretStore(Protocol):
    """The secrets for code and tools."""

    async def get_values(
        self, organization_id: UUID, template_id: UUID | None, names: Collection[str]
    ) -> dict[str, str]: ...


class SpanStore(Protocol):
    """The spans of runs; `storage.history.traces.Traces` documents each operation."""

    async def insert_spans(self, spans: Sequence[NewSpan]) -> None: ...
    async def end_spans(self, spans: Sequence[NewSpan]) -> None: ...
    async def list_known_span_ids(self, span_ids: Collection[UUID]) -> set[UUID]: ...
    async def insert_note(self, note: NewSpan) -> None: ...


class JournalStore(Protocol):
    """The journals of runs that processes execute."""

    async def get_facts(self, run_id: UUID) -> JournalFacts: ...
    async def update(self, run_id: UUID, entries: dict[str, Any]) -> None: ...


class UsageStore(Protocol):
    """The store of model usage. Inserting the same record again has no effect."""

    async def insert_all(self, records: Sequence[UsageRecord]) -> None: ...


class KnownPrices(Protocol):
    """The models whose prices are known; `supervisors.llm.catalog.ModelCatalog` documents the operations."""

    def qualify(self, model: str) -> str: ...

    async def is_priced(self, model: str, now: datetime) -> bool: ...


class SpendingStore(Protocol):
    """The budgets of a day and what was spent of them."""

    async def list_budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]: ...
