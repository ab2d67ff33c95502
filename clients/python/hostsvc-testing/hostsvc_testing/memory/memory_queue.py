"""Notifications in memory: does what `storage.notifications.notifications.Notifications` does."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from hostsvc_testing.memory import row_events
from hostsvc_testing.memory.tables import LOCK_TIMEOUT_SECONDS, Tables, Transaction, Wire
from storage.agent_facts import AgentState
from storage.errors import Forbidden, ReferenceMissing
from storage.events.model import BY_SERVICE
from storage.model import AgentStatus, Notification, Priority, Source
from storage.notifications.changes import activation
from storage.notifications.notifications import NewNotification, OnCommit
from storage.postgres.paging import Chunk


class MemoryNotifications:
    """The queue. `on_commit` and `on_clear` are called with the agents of a commit, right after it."""

    def __init__(
        self,
        tables: Tables,
        wire: Wire,
        on_commit: OnCommit,
        on_clear: Callable[[Sequence[UUID]], None],
    ) -> None:
        self._tables = tables
        self._wire = wire
        self._on_commit = on_commit
        self._on_clear = on_clear

    async def insert(
        self, notification: NewNotification, allowed: Collection[UUID], *, actor: str = BY_SERVICE
    ) -> None:
        await self._wire.run_to_completion(self._insert(notification, allowed, actor))

    async def get(self, notification_id: UUID) -> Notification | None:
        found = self._tables.notifications.get(notification_id)
        return found if found is not None and self._tables.agent(found.agent_id) else None

    async def list_for_agent(
        self, agent_id: UUID, *, include_cleared: bool, limit: int, now: datetime
    ) -> Chunk[Notification]:
        return await self._wire.carry(partial(self._list, agent_id, include_cleared, limit, now), agent_id)

    async def update(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Notification | None:
        return await self._wire.run_to_completion(self._update(notification_id, changes, now, actor))

    async def clear(
        self, agent_id: UUID, notification_id: UUID, now: datetime, *, actor: str = BY_SERVICE
    ) -> bool:
        return await self._wire.run_to_completion(self._clear(agent_id, notification_id, now, actor))

    async def delete(self, notification_id: UUID, now: datetime, *, actor: str = BY_SERVICE) -> bool:
        return await self._wire.run_to_completion(self._delete(notification_id, now, actor))

    async def _insert(self, new: NewNotification, allowed: Collection[UUID], actor: str) -> None:
        node_id = await self._wire.carry(partial(self._insert_row, new, allowed, actor), new.agent_id)
        if new.priority is Priority.HIGH:
            self._on_commit({new.agent_id: node_id})

    async def _insert_row(self, new: NewNotification, allowed: Collection[UUID], actor: str) -> int | None:
        """Store the notification; return the node that attends its agent, if the statement learns of it."""
        while True:
            agent = self._tables.agent(new.agent_id)
            if agent is None:
                raise ReferenceMissing("agent")
            if agent.organization_id not in allowed:
                raise Forbidden(f"agent {agent.id} belongs to another organization")
            stored, node_id = new_row(new, agent.organization_id), None
            async with Transaction(self._tables) as transaction:
                if stored.activated_at is not None:
                    await transaction.lock("agent_state", agent.id, LOCK_TIMEOUT_SECONDS)
                    if agent.id not in self._tables.states:
                        continue  # deleted since: the next statement sees it
                    node_id = self._tables.states[agent.id].node_id
                due_at = stored.activated_at if stored.activated_at != stored.created_at else None
                transaction.insert_events(agent.organization_id, [row_events.created(stored, actor)])
                transaction.write(lambda: self.write_row(None, stored, due_at))  # noqa: B023 -- not again
            await asyncio.sleep(0)
            return node_id

    async def _list(
        self, agent_id: UUID, include_cleared: bool, limit: int, now: datetime
    ) -> Chunk[Notification]:
        await asyncio.sleep(0)
        if self._tables.agent(agent_id) is None:
            return Chunk([], is_cut=False)
        shown = [
            one
            for one in (self._tables.queue if include_cleared else self._tables.uncleared)(agent_id)
            if (one.scheduled_for is None or one.scheduled_for <= now)
        ]
        shown.sort(key=lambda one: (one.priority is not Priority.HIGH, one.created_at, one.id))
        await asyncio.sleep(0)
        return Chunk(shown[:limit], is_cut=False)

    async def _update(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime, actor: str
    ) -> Notification | None:
        agent_id = self._agent_of(notification_id)
        update = partial(self._update_row, notification_id, changes, now, actor)
        both = await self._wire.carry(update, agent_id)
        if both is None:
            return None
        before, after = both
        if after.activated_at != before.activated_at:
            if before.activated_at is not None:
                self._on_clear([after.agent_id])
            if after.activated_at is not None:
                self._on_commit({after.agent_id: None})
        return after

    async def _update_row(
        self, notification_id: UUID, changes: Mapping[str, Any], now: datetime, actor: str
    ) -> tuple[Notification, Notification] | None:
        async with Transaction(self._tables) as transaction:
            before = await self._lock(transaction, notification_id)
            if before is None:
                return None
            after = changed(before, changes, now)
            if after.activated_at is not None and after.activated_at != before.activated_at:
                await transaction.lock("agent_state", after.agent_id)
            due_at = after.activated_at if after.activated_at and after.activated_at > now else None
            transaction.insert_events(after.organization_id, row_events.changes_of(before, after, now, actor))
            transaction.write(lambda: self.write_row(before, after, due_at))
        stored = self._tables.notifications[after.id]
        await asyncio.sleep(0)
        return before, stored

    async def _clear(self, agent_id: UUID, notification_id: UUID, now: datetime, actor: str) -> bool:
        clear = partial(self._clear_row, agent_id, notification_id, now, actor)
        priority = await self._wire.carry(clear, agent_id)
        if priority is Priority.HIGH:
            self._on_clear([agent_id])
        return priority is not None

    async def _clear_row(
        self, agent_id: UUID, notification_id: UUID, now: datetime, actor: str
    ) -> Priority | None:
        async with Transaction(self._tables) as transaction:
            before = await self._lock(transaction, notification_id)
            if before is None or before.agent_id != agent_id:
                return None
            after = changed(before, {"cleared": True}, now)
            events = row_events.changes_of(before, after, now, actor)
            transaction.insert_events(after.organization_id, events)
            transaction.write(lambda: self.write_row(before, after, None))
        await asyncio.sleep(0)
        return before.priority

    async def _delete(self, notification_id: UUID, now: datetime, actor: str) -> bool:
        agent_id = self._agent_of(notification_id)
        delete = partial(self._delete_row, notification_id, now, actor)
        before = await self._wire.carry(delete, agent_id)
        if before is not None and before.activated_at is not None:
            self._on_clear([before.agent_id])
        return before is not None

    async def _delete_row(self, notification_id: UUID, now: datetime, actor: str) -> Notification | None:
        async with Transaction(self._tables) as transaction:
            before = await self._lock(transaction, notification_id)
            if before is not None:
                transaction.insert_events(before.organization_id, [row_events.deleted(before, now, actor)])
                transaction.write(lambda: self._erase(before))
        await asyncio.sleep(0)
        return before

    async def _lock(self, transaction: Transaction, notification_id: UUID) -> Notification | None:
        """Lock the row and return its newest version; None if it or its agent was deleted before."""
        if await self.get(notification_id) is None:
            return None
        await transaction.lock("notification", notification_id)
        return self._tables.notifications.get(notification_id)

    def write_row(self, before: Notification | None, after: Notification, due_at: datetime | None) -> None:
        tables, at = self._tables, after.activated_at
        state = tables.states.get(after.agent_id)
        was_at = before.activated_at if before is not None else None
        if state is not None and at is not None and at != was_at:
            if at != after.scheduled_for and not (before is None and _is_own(state, after)):
                last_at = tables.last_activated_at
                at = last_at[state.agent_id] = state.activation_at(at, last_at.get(state.agent_id))
                after = replace(after, activated_at=at)
            tables.states[state.agent_id] = _rung(state, due_at)
            tables.witness.activated(after)
        tables.put(after)
        tables.witness.changed(after.agent_id, _told(before, after))

    def _erase(self, gone: Notification) -> None:
        del self._tables.notifications[gone.id]
        self._tables.open[gone.agent_id].pop(gone.id, None)
        self._tables.witness.changed(gone.agent_id, f"deleted {gone.title}")

    def _agent_of(self, notification_id: UUID) -> UUID | None:
        found = self._tables.notifications.get(notification_id)
        return None if found is None else found.agent_id


def changed(before: Notification, changes: Mapping[str, Any], now: datetime) -> Notification:
    """Return the notification after a change, activated as `storage.notifications.notifications` says."""
    after = replace(before, **changes)
    cleared_at = (before.cleared_at or now) if after.cleared else None
    since = before.activated_at if after.scheduled_for == before.scheduled_for else None
    activated_at = activation(after.priority, after.scheduled_for, now, cleared=after.cleared, since=since)
    return replace(after, cleared_at=cleared_at, activated_at=activated_at)


def new_row(new: NewNotification, organization_id: UUID) -> Notification:
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
        urgent=new.urgent,
    )


def _is_own(state: AgentState, new: Notification) -> bool:
    """Return whether the agent's run creates it, and so has to clear it."""
    return state.run_id is not None and new.source is Source.AGENT


def _rung(state: AgentState, due_at: datetime | None) -> AgentState:
    """Update the state of an agent as the activation of a notification does."""
    moments = [moment for moment in (state.next_due_at, due_at) if moment is not None]
    waits = state.status is AgentStatus.SLEEPING and state.queued_at is None
    next_due_at = min(moments, default=None) if waits else state.next_due_at
    return replace(state, wake_seq=state.wake_seq + 1, next_due_at=next_due_at)


def _told(before: Notification | None, after: Notification) -> str:
    if before is None:
        active = f", active at {after.activated_at:%H:%M:%S.%f}" if after.activated_at else ""
        urgent = "urgent, " if after.urgent else ""
        return f"received {after.title} ({urgent}{after.source}, {after.priority}{active})"
    shown = {
        name: getattr(after, name)
        for name in ("priority", "scheduled_for", "cleared", "activated_at")
        if getattr(after, name) != getattr(before, name)
    }
    return f"{after.title} now has {', '.join(f'{name} {value}' for name, value in shown.items())}"
