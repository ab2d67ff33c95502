"""A store of either kind, PostgreSQL and in memory, for tests that hold both to one behaviour."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hostsvc_testing.memory.memory_store import MemoryStorage
from storage.agent_facts import (
    AgentFacts,
    AgentState,
    RunEnd,
    RunStart,
    StateUpdate,
)
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Notification, Outcome
from storage.storage import Storage
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    agent,
    new_notification,
)


@dataclass(slots=True)
class Store:
    """A store of either kind, with the ids of the agents that its commits reported."""

    storage: Storage | MemoryStorage
    new_organization: Callable[[], Any]
    new_tool: Callable[..., Any]
    reported: list[UUID] = field(default_factory=list)

    def report(self, agent_ids: Iterable[UUID]) -> None:
        self.reported.extend(agent_ids)

    def take_reported(self) -> list[UUID]:
        """Return the ids reported since the last call."""
        reported, self.reported = self.reported, []
        return reported

    async def agent(self, organization_id: UUID | None = None, **fields: Any) -> Agent:
        owner = organization_id or (await self.new_organization()).id
        stored = agent(owner, **fields)
        await self.storage.agents.insert(stored, None)
        return stored

    async def insert(self, agent: Agent, **fields: Any) -> Notification:
        """Insert a high notification for the agent."""
        new = new_notification(agent.id, **fields)
        await self.storage.notifications.insert(new, {agent.organization_id})
        stored = await self.storage.notifications.get(new.id)
        assert stored is not None
        return stored

    async def change(self, notification: Notification, now: datetime, **changes: Any) -> Notification:
        after = await self.storage.notifications.update(notification.id, changes, now)
        assert after is not None
        return after

    async def get_facts(self, of: Agent, now: datetime = NOW) -> AgentFacts:
        seen = await self.storage.agent_states.get_facts(of.id, now)
        assert seen is not None
        return seen

    async def state(self, of: Agent) -> AgentState:
        return (await self.get_facts(of)).state

    async def put(self, of: Agent, **fields: Any) -> AgentState:
        """Change the agent's state and return it."""
        before = await self.state(of)
        assert await self.storage.agent_states.update(guarded(before, **fields))
        return await self.state(of)

    async def started(self, of: Agent, at: datetime = NOW) -> AgentState:
        assert await self.storage.agent_states.update(start(await self.state(of), at))
        return await self.state(of)


def guarded(before: AgentState, **fields: Any) -> StateUpdate:
    return StateUpdate(before, replace(before, **fields), guarded=True)


def start(before: AgentState, at: datetime = NOW) -> StateUpdate:
    run_id = new_id()
    after = replace(before, status=AgentStatus.RUNNING, run_id=run_id, last_started_at=at, stopped_at=None)
    begun = RunStart(run_id, "run_requested", None, NOW + HOUR, at, "invoke_agent Scout")
    return StateUpdate(before, after, guarded=False, start=begun)


def end(before: AgentState, at: datetime = NOW + MINUTE) -> StateUpdate:
    assert before.run_id is not None
    after = replace(before, status=AgentStatus.SLEEPING, run_id=None, last_ended_at=at)
    return StateUpdate(before, after, guarded=True, end=RunEnd(before.run_id, Outcome.SLEPT, at, 3, ""))


@asynccontextmanager
async def in_flight(store: Store, of: Agent) -> AsyncIterator[Any]:
    """Hold the lock on the agent's row."""
    async with store.storage.agent_states.locked(of.id, NOW) as locked:
        yield locked
