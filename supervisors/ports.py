"""Ports: what supervisors need from storage. The classes of `storage` satisfy these Protocols."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from storage.agent_facts import AgentFacts, Budget, Counts, StateUpdate
from storage.agents.wakes import WakeFacts
from storage.channels.contacts import Contact, ContactFilters
from storage.channels.document_search import DocumentHit, SearchScope
from storage.channels.document_titles import DocumentTitle
from storage.channels.documents import Document, Writer
from storage.channels.memories import DirectoryEntry, MemoryFile
from storage.channels.messages import Message, MessageFilters, MessageStatus, Origin
from storage.channels.projects import Project, ProjectFilters
from storage.events.model import Event, Interest
from storage.history.journals import JournalFacts
from storage.history.runs import RunFilters
from storage.history.trace_model import NewSpan, Trace
from storage.history.traces import Ending
from storage.history.transcripts import TranscriptTurn
from storage.history.usage import UsageRecord
from storage.model import Agent, Notification, Run, Template
from storage.notifications.inserts import NewNotification
from storage.notifications.since import RecentNotification
from storage.postgres.paging import Chunk, Page
from storage.toolbox.agent_tools import CallableTool, DescribedTool, ListedTool


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


class QueueStore(Protocol):
    """The notifications, for the agents' tools."""

    async def list_for_agent(
        self, agent_id: UUID, *, include_cleared: bool, limit: int, now: datetime
    ) -> Chunk[Notification]: ...

    async def clear(self, agent_id: UUID, notification_id: UUID, now: datetime, *, actor: str) -> bool: ...

    async def insert(
        self, notification: NewNotification, allowed: Collection[UUID], *, actor: str
    ) -> None: ...


class InboxUpdateStore(Protocol):
    """The notifications that arrive during a run."""

    async def list_for_agent(
        self, agent_id: UUID, *, since: datetime, limit: int, now: datetime
    ) -> list[RecentNotification]: ...


class AgentStore(Protocol):
    async def get(self, agent_id: UUID) -> Agent | None: ...


class ContactStore(Protocol):
    async def get(self, contact_id: UUID) -> Contact | None: ...

    async def list_page(self, filters: ContactFilters, page: Page) -> Chunk[Contact]: ...

    async def update(self, contact_id: UUID, changes: Mapping[str, Any]) -> Contact | None: ...


class MessageStore(Protocol):
    async def get(self, message_id: UUID) -> Message | None: ...

    async def list_page(self, filters: MessageFilters, page: Page) -> Chunk[Message]: ...

    async def get_last_origin(self, agent_id: UUID, contact_id: UUID) -> Origin | None: ...

    async def insert(self, message: Message, *, actor: str) -> None: ...

    async def update_queued(
        self, message_id: UUID, status: MessageStatus, now: datetime, *, actor: str
    ) -> MessageStatus: ...

    async def requeue(self, message_id: UUID) -> None: ...


class DocumentStore(Protocol):
    """The documents; `storage.channels.documents.Documents` documents each operation."""

    async def get(self, document_id: UUID) -> Document | None: ...

    async def list_titles(
        self, agent_id: UUID, project_id: UUID | None, page: Page
    ) -> Chunk[DocumentTitle]: ...

    async def search(self, scope: SearchScope, query: str, limit: int) -> list[DocumentHit]: ...

    async def insert(self, document: Document) -> None: ...

    async def update(
        self,
        document: Document,
        changes: Mapping[str, Any],
        writer: Writer,
        now: datetime,
        expected_version: int | None = None,
    ) -> Document | None: ...


class MemoryStore(Protocol):
    """The documents of agents by their paths; see `storage.channels.memories.Memories`."""

    async def get(self, agent_id: UUID, path: str) -> Document | None: ...

    async def find_conflict(self, agent_id: UUID, path: str) -> str | None: ...

    async def list_directory(self, agent_id: UUID, path: str, limit: int) -> list[DirectoryEntry]: ...

    async def list_files(self, agent_id: UUID, path: str) -> list[MemoryFile]: ...

    async def delete(self, files: Sequence[MemoryFile], writer: Writer, now: datetime) -> None: ...

    async def rename(self, files: Sequence[MemoryFile], old: str, new: str, name: str) -> bool: ...


class ProjectStore(Protocol):
    async def get(self, project_id: UUID) -> Project | None: ...

    async def list_page(self, filters: ProjectFilters, page: Page) -> Chunk[Project]: ...


class RunStore(Protocol):
    async def get(self, run_id: UUID) -> Run | None: ...

    async def list_page(self, filters: RunFilters, page: Page) -> Chunk[Run]: ...


class AttachmentStore(Protocol):
    """The files that were uploaded with messages."""

    async def get_start(self, attachment_id: UUID, max_bytes: int) -> bytes: ...


class AgentToolStore(Protocol):
    async def list_for_agent(self, agent_id: UUID) -> list[ListedTool]: ...

    async def describe(self, tool_ids: Sequence[UUID]) -> dict[UUID, DescribedTool]: ...

    async def get(self, agent_id: UUID, tool_id: UUID) -> CallableTool | None: ...

    async def get_channel(self, agent_id: UUID, channel: str) -> CallableTool | None: ...


class TraceStore(Protocol):
    async def insert(self, trace: Trace) -> None: ...
    async def insert_spans(self, spans: Sequence[NewSpan]) -> None: ...
    async def end(self, trace_id: UUID, ending: Ending) -> Trace | None: ...


class ToolStores(Protocol):
    @property
    def notifications(self) -> QueueStore: ...

    @property
    def agents(self) -> AgentStore: ...

    @property
    def contacts(self) -> ContactStore: ...

    @property
    def messages(self) -> MessageStore: ...

    @property
    def attachments(self) -> AttachmentStore: ...

    @property
    def documents(self) -> DocumentStore: ...

    @property
    def memories(self) -> MemoryStore: ...

    @property
    def projects(self) -> ProjectStore: ...

    @property
    def runs(self) -> RunStore: ...

    @property
    def agent_tools(self) -> AgentToolStore: ...

    @property
    def traces(self) -> TraceStore: ...


class TemplateStore(Protocol):
    async def get(self, template_id: UUID) -> Template | None: ...


class WakeStore(Protocol):
    async def get(self, agent_id: UUID, now: datetime, context_tokens: int) -> WakeFacts | None: ...


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


class SharedContentStore(Protocol):
    """System prompts and tool definitions, by digest."""

    async def store(self, organization_id: UUID, text: bytes, now: datetime) -> bytes: ...


class JournalStore(Protocol):
    """The journals of runs that processes execute."""

    async def get_facts(self, run_id: UUID) -> JournalFacts: ...
    async def update(self, run_id: UUID, entries: dict[str, Any]) -> None: ...


class TranscriptStore(Protocol):
    """What agents carry from run to run; see `storage.history.transcripts`."""

    async def insert(self, turn: TranscriptTurn) -> None: ...
    async def list_carried(self, agent_id: UUID, max_tokens: int) -> list[TranscriptTurn]: ...
    async def replace(self, last_id: UUID, summary: TranscriptTurn) -> bool: ...


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
