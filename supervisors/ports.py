"""What supervisors need of the world, in their own words. Storage and the clients of `hostsvc` fit these."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from storage.channels.contacts import Contact
from storage.channels.messages import Channel, Message, MessageStatus
from storage.history.usage import UsageRecord
from storage.model import Agent, AgentFacts, Budget, Counts, NewSpan, Notification, StateUpdate, Template
from storage.notifications.inserts import NewNotification
from storage.toolbox.agent_tools import CallableTool, DescribedTool, ListedTool


class LockedAgent(Protocol):
    """One agent's state under lock: nothing can become active until the lock is given back."""

    @property
    def facts(self) -> AgentFacts | None: ...

    async def update(self, update: StateUpdate) -> bool: ...


class StateStore(Protocol):
    """The states of all agents; `storage.agents.state.AgentStates` says what each operation does."""

    async def get_facts(self, agent_id: UUID, now: datetime) -> AgentFacts | None: ...

    async def update(self, update: StateUpdate) -> bool: ...

    def locked(self, agent_id: UUID, now: datetime) -> AbstractAsyncContextManager[LockedAgent]: ...

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[tuple[UUID, datetime]]: ...

    async def list_attention(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_concerned(self, organization_id: UUID, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_concerned_of_template(
        self, template_id: UUID, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_unarmed(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]: ...

    async def list_running(self) -> list[UUID]: ...

    async def list_queued(self) -> list[UUID]: ...

    async def list_ids(self, organization_id: UUID | None, after: UUID | None, limit: int) -> list[UUID]: ...

    async def list_blockers(self, agent_id: UUID, now: datetime, limit: int) -> list[UUID]: ...

    async def count(self, now: datetime, *, quarantine_failures: int) -> Counts: ...


class OrganizationStore(Protocol):
    """Which organizations are paused."""

    async def list_paused(self) -> list[UUID]: ...


class QueueStore(Protocol):
    """The notification queues, as the agents' tools use them."""

    async def list_for_agent(
        self, agent_id: UUID, *, include_cleared: bool, limit: int, now: datetime
    ) -> list[Notification]: ...

    async def clear(self, agent_id: UUID, notification_id: UUID, now: datetime) -> bool: ...

    async def insert(self, notification: NewNotification, allowed: Collection[UUID]) -> None: ...


class InboxUpdateStore(Protocol):
    """The notification queues, as a run looks at them between turns."""

    async def list_for_agent(
        self, agent_id: UUID, *, since: datetime, limit: int, now: datetime
    ) -> list[Notification]: ...


class AgentStore(Protocol):
    """What a run needs to know of its agent."""

    async def get(self, agent_id: UUID) -> Agent | None: ...


class ContactStore(Protocol):
    """The people that agents write to."""

    async def get(self, contact_id: UUID) -> Contact | None: ...


class MessageStore(Protocol):
    """What agents and their contacts write to each other."""

    async def get(self, message_id: UUID) -> Message | None: ...

    async def last_channel(self, agent_id: UUID, contact_id: UUID) -> Channel | None: ...

    async def insert(self, message: Message) -> None: ...

    async def settle(self, message_id: UUID, status: MessageStatus) -> MessageStatus: ...


class AgentToolStore(Protocol):
    """The tools that agents have by their adapters."""

    async def list_for_agent(self, agent_id: UUID) -> list[ListedTool]: ...

    async def describe(self, tool_ids: Collection[UUID]) -> dict[UUID, DescribedTool]: ...

    async def get(self, agent_id: UUID, tool_id: UUID) -> CallableTool | None: ...

    async def get_channel(self, agent_id: UUID, channel: str) -> CallableTool | None: ...


class ToolStores(Protocol):
    """What the agents' tools work on."""

    @property
    def notifications(self) -> QueueStore: ...

    @property
    def agents(self) -> AgentStore: ...

    @property
    def contacts(self) -> ContactStore: ...

    @property
    def messages(self) -> MessageStore: ...

    @property
    def agent_tools(self) -> AgentToolStore: ...


class TemplateStore(Protocol):
    """What an agent inherits."""

    async def get(self, template_id: UUID) -> Template | None: ...


class SpanStore(Protocol):
    """Where finished spans go."""

    async def insert_spans(self, spans: Sequence[NewSpan]) -> None: ...


class UsageStore(Protocol):
    """Where the usage of models goes; the same record may be given again."""

    async def insert(self, record: UsageRecord) -> None: ...


class SpendingStore(Protocol):
    """What may be spent in a day, and what was."""

    async def budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]: ...
