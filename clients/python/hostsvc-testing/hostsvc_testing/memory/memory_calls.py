"""Parked calls and grants in memory: does what `storage.parked_calls` and `storage.approval_grants` do."""

import asyncio
from collections.abc import Collection
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from hostsvc_testing.memory import row_events
from hostsvc_testing.memory.memory_queue import MemoryNotifications, new_row
from hostsvc_testing.memory.tables import Tables, Transaction, Wire
from storage.approval_grants import ApprovalGrant
from storage.model import AgentStatus
from storage.notifications.notifications import OnCommit
from storage.parked_calls import (
    CallState,
    CallStep,
    DueCall,
    Lost,
    ParkedCall,
    PresentCall,
    Rule,
    notification_of,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OPEN = frozenset({CallState.PENDING, CallState.DUE})


class MemoryParkedCalls:
    """A `supervisors.ports.ParkedCallStore`, and the grants beside it."""

    def __init__(self, tables: Tables, wire: Wire, queue: MemoryNotifications, on_commit: OnCommit) -> None:
        self._tables = tables
        self._calls = tables.calls
        self._wire = wire
        self._queue = queue
        self._on_commit = on_commit
        self.stored = asyncio.Event()

    def next_due(self) -> datetime | None:
        """Return when the first one is due; None if none is armed."""
        return min((moment for _, moment in self._due()), default=None)

    async def list_due(
        self, now: datetime, without: Collection[UUID], full: Collection[UUID], limit: int
    ) -> list[DueCall]:
        return await self._wire.carry(partial(self._list_due, now, without, limit), None)

    async def insert(self, call: ParkedCall, *, actor: str = "") -> ParkedCall:
        async with Transaction(self._tables) as transaction:
            await transaction.lock("agent_state", call.agent_id)
            same = [
                each
                for each in self._calls.rows.values()
                if (each.agent_id, each.digest) == (call.agent_id, call.digest)
            ]
            pending = next((each for each in same if each.state is CallState.PENDING), None)
            if pending is None:
                transaction.write(lambda: self._calls.rows.__setitem__(call.id, call))
        return pending or call

    async def change(self, call_id: UUID, rule: Rule, now: datetime) -> CallStep | None:
        return await self._wire.run_to_completion(self._change(call_id, rule, now))

    async def list_usable(
        self, agent_id: UUID, tool_id: UUID, digest: bytes, now: datetime
    ) -> list[ApprovalGrant]:
        await asyncio.sleep(0)
        return [
            grant
            for grant in self._calls.grants.values()
            if grant.agent_id == agent_id
            and grant.tool_id == tool_id
            and _is_usable(grant, now)
            and grant.digest in {None, digest}
        ]

    async def use(self, grant_id: UUID, now: datetime) -> bool:
        async with Transaction(self._tables) as transaction:
            await transaction.lock("approval_grant", grant_id)
            grant = self._calls.grants[grant_id]
            used = replace(grant, used_count=grant.used_count + 1)
            if _is_usable(grant, now):
                transaction.write(lambda: self._calls.grants.__setitem__(grant_id, used))
                return True
        return False

    def _due(self) -> list[tuple[ParkedCall, datetime]]:
        """Return the calls with the moment of each; triggers have pointless ones looked at."""
        moments = (
            (call, EPOCH if call.state in OPEN and self._lost(call) else call.due_at)
            for call in self._calls.rows.values()
        )
        return [(call, moment) for call, moment in moments if moment is not None]

    async def _list_due(self, now: datetime, without: Collection[UUID], limit: int) -> list[DueCall]:
        await asyncio.sleep(0)
        due = sorted((moment, call.id) for call, moment in self._due() if moment <= now)
        rows = [self._calls.rows[call_id] for _, call_id in due if call_id not in without]
        return [DueCall(call.id, call.organization_id) for call in rows[:limit]]

    def _lost(self, call: ParkedCall) -> Lost:
        state = self._tables.states.get(call.agent_id)
        if self._tables.agent(call.agent_id) is None or state is None:
            return Lost.AGENT_DELETED
        return Lost.AGENT_ARCHIVED if state.status is AgentStatus.ARCHIVED else Lost.NOTHING

    async def _change(self, call_id: UUID, rule: Rule, now: datetime) -> CallStep | None:
        agent_id = self._calls.rows[call_id].agent_id
        step = await self._wire.carry(partial(self._change_row, call_id, rule, now), agent_id)
        if step is not None and step.notice is not None:
            self._on_commit({agent_id: None})
        if step is not None and step.after.state is CallState.DUE:
            self.stored.set()
        return step

    async def _change_row(self, call_id: UUID, rule: Rule, now: datetime) -> CallStep | None:
        rows = self._calls.rows
        async with Transaction(self._tables) as transaction:
            await transaction.lock("agent_state", rows[call_id].agent_id)
            await transaction.lock("parked_call", call_id)
            row = rows[call_id]
            values = {each.name: getattr(row, each.name) for each in fields(ParkedCall)}
            is_idempotent = call_id in self._calls.harmless
            step = rule(PresentCall(**values, lost=self._lost(row), is_idempotent=is_idempotent))
            if step is None:
                return None
            after = ParkedCall(**{name: getattr(step.after, name) for name in values})
            transaction.write(lambda: rows.__setitem__(call_id, after))
            if (grant := step.grant) is not None:
                transaction.write(lambda: self._calls.grants.__setitem__(grant.id, grant))
            if step.notice is not None:
                stored = new_row(notification_of(after, step.notice, now), after.organization_id)
                transaction.insert_events(after.organization_id, [row_events.created(stored)])
                transaction.write(lambda: self._queue.write_row(None, stored, None))
                transaction.write(lambda: self._calls.told.append(call_id))
            what = f"{after.kind} {after.arguments} is {after.state}"
            transaction.write(lambda: self._tables.witness.changed(after.agent_id, what))
        await asyncio.sleep(0)
        return step


def _is_usable(grant: ApprovalGrant, now: datetime) -> bool:
    is_over = grant.until is not None and grant.until <= now
    return not is_over and (grant.max_uses is None or grant.used_count < grant.max_uses)
