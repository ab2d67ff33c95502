"""Ports: what supervisors need from storage. The classes of `storage` satisfy these Protocols."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from storage.agent_facts import AgentFacts, Budget, Counts, StateUpdate
from storage.channels.contacts import Contact
from storage.channels.messages import Message, MessageStatus, Origin
from storage.history.traces import Ending
from storage.history.usage import UsageRecord
from storage.model import Agent, NewSpan, Notification, Template, Trace
from storage.notifications.inserts import NewNotification
from storage.notifications.since import RecentNotification
from storage.postgres.paging import Chunk
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

    async def list_running(self) -> list[UUID]: ...

    async def list_queued(self) -> list[UUID]: ...

    async def list_activated_later(self, now: datetime) -> list[UUID]: ...

    async def list_ids(self, organization_id: UUID | None, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_ids_of_name(
        self, name: str, organization_id: UUID | None, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_blockers(self, agent_id: UUID, now: datetime, limit: int) -> list[UUID]: ...

    async def count(self, now: datetime, *, quarantine_failures: int) -> Counts: ...


class OrganizationStore(Protocol):
    async def list_paused(self) -> list[UUID]: ...


class QueueStore(Protocol):
    """The notifications, for the agents' tools."""

    async def list_for_agent(
        self, agent_id: UUID, *, include_cleared: bool, limit: int, now: datetime
    ) -> Chunk[Notification]: ...

    async def clear(self, agent_id: UUID, notification_id: UUID, now: datetime) -> bool: ...

    async def insert(self, notification: NewNotification, allowed: Collection[UUID]) -> None: ...


class InboxUpdateStore(Protocol):
    """The notifications that arrive during a run."""

    async def list_for_agent(
        self, agent_id: UUID, *, since: datetime, limit: int, now: datetime
    ) -> list[RecentNotification]: ...


class AgentStore(Protocol):
    async def get(self, agent_id: UUID) -> Agent | None: ...


class ContactStore(Protocol):
    async def get(self, contact_id: UUID) -> Contact | None: ...


class MessageStore(Protocol):
    async def get(self, message_id: UUID) -> Message | None: ...

    async def get_last_origin(self, agent_id: UUID, contact_id: UUID) -> Origin | None: ...

    async def insert(self, message: Message) -> None: ...

    async def update_queued(self, message_id: UUID, status: MessageStatus) -> MessageStatus: ...


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
    def agent_tools(self) -> AgentToolStore: ...

    @property
    def traces(self) -> TraceStore: ...


class TemplateStore(Protocol):
    async def get(self, template_id: UUID) -> Template | None: ...


class SpanStore(Protocol):
    async def insert_spans(self, spans: Sequence[NewSpan]) -> None: ...
    async def insert_note(self, note: NewSpan) -> None: ...


class UsageStore(Protocol):
    """The store of model usage. Inserting the same record again has no effect."""

    async def insert(self, record: UsageRecord) -> None: ...


class SpendingStore(Protocol):
    """The budgets of a day and what was spent of them."""

    async def list_budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]: ...
