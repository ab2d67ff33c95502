"""Schedules in memory: does what `storage.notifications.schedules.Schedules` does."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from hostsvc_testing.memory import row_events
from hostsvc_testing.memory.memory_queue import MemoryNotifications, changed, new_row
from hostsvc_testing.memory.tables import Edit, Tables, Transaction, Wire
from storage.model import AgentStatus, Notification
from storage.notifications.notifications import OnCommit
from storage.notifications.schedules import (
    Change,
    DueSchedule,
    IfUncleared,
    Occurrence,
    Schedule,
    Step,
    merged_changes,
    notification_of,
    settle,
)


class MemorySchedules:
    """A `supervisors.ports.ScheduleStore`."""

    def __init__(self, tables: Tables, wire: Wire, queue: MemoryNotifications, on_commit: OnCommit) -> None:
        self._tables = tables
        self._wire = wire
        self._queue = queue
        self._on_commit = on_commit

    def next_due(self) -> datetime | None:
        """Return when the first one is due; None if none is armed."""
        return min((each.due_at for each in self._armed() if each.due_at), default=None)

    async def list_due(self, now: datetime, without: Collection[UUID], limit: int) -> list[DueSchedule]:
        return await self._wire.carry(partial(self._list_due, now, without, limit), None)

    async def fire(self, steps: Sequence[Step], now: datetime) -> list[Occurrence]:
        fired = [await self._wire.run_to_completion(self._fire(step, now)) for step in steps]
        return [step.occurrence for step in fired if step is not None and step.occurrence is not None]

    async def save(
        self,
        agent_id: UUID,
        key: UUID | str,
        change: Change,
        now: datetime,
        *,
        allow: Callable[[Sequence[Schedule]], None] = lambda _: None,
        **_: Any,
    ) -> Schedule:
        async with Transaction(self._tables) as transaction:
            for each in await self.list_of_agent(agent_id):
                if key in {each.id, each.name}:
                    await transaction.lock("schedule", each.id)
            present = await self.list_of_agent(agent_id)
            allow(present)
            before = next((each for each in present if key in {each.id, each.name}), None)
            after = await change(before)
            stored = replace(after, version=before.version + 1) if before else after
            transaction.write(lambda: self._store(stored))
            if before and (before.every_seconds, before.next_at) != (after.every_seconds, after.next_at):
                edit = Edit(before, after.every_seconds or 0, now)
                transaction.write(lambda: self._tables.occurrences.append(edit))
        return stored

    async def list_of_agent(self, agent_id: UUID) -> list[Schedule]:
        own = (each for each in self._tables.schedules.values() if each.agent_id == agent_id)
        return sorted(own, key=lambda each: each.name)

    async def delete(self, schedule_id: UUID, now: datetime, **_: Any) -> bool:
        return self._tables.schedules.pop(schedule_id, None) is not None

    def _armed(self) -> list[Schedule]:
        return [each for each in self._tables.schedules.values() if self._tables.agent(each.agent_id)]

    async def _list_due(self, now: datetime, without: Collection[UUID], limit: int) -> list[DueSchedule]:
        await asyncio.sleep(0)
        due = [
            (each.due_at, each.id)
            for each in self._armed()
            if each.due_at is not None and each.due_at <= now and each.id not in without
        ]
        return [self._with_agent(self._tables.schedules[each_id]) for _, each_id in sorted(due)[:limit]]

    def _with_agent(self, schedule: Schedule) -> DueSchedule:
        state = self._tables.states.get(schedule.agent_id)
        is_archived = state is not None and state.status is AgentStatus.ARCHIVED
        values = {field.name: getattr(schedule, field.name) for field in fields(schedule)}
        return DueSchedule(**{**values, "agent_archived": is_archived})

    async def _fire(self, step: Step, now: datetime) -> Step | None:
        agent_id = step.before.agent_id
        fired = await self._wire.carry(partial(self._fire_row, step, now), agent_id)
        if fired is not None and fired.notifies:
            self._on_commit({agent_id: None})
        return fired

    async def _fire_row(self, step: Step, now: datetime) -> Step | None:
        tables, schedule = self._tables, step.before
        async with Transaction(tables) as transaction:
            last = await self._lock_waiting(transaction, step)
            if step.notifies:
                await transaction.lock("agent_state", schedule.agent_id)
            await transaction.lock("schedule", schedule.id)
            row = tables.schedules.get(schedule.id)
            if row is None or row.version != schedule.version or schedule.agent_id not in tables.states:
                return None
            decided = settle(step, {last.id} if last is not None else set())
            if last is not None and step.occurrence is not None:
                before, after = last, changed(last, merged_changes(step, last.scheduled_for), now)
                transaction.insert_events(schedule.organization_id, row_events.changes_of(before, after, now))
                transaction.write(lambda: self._queue.write_row(before, after, None))
            elif step.notifies:
                stored = new_row(notification_of(decided, now), schedule.organization_id)
                transaction.insert_events(schedule.organization_id, [row_events.created(stored)])
                transaction.write(lambda: self._queue.write_row(None, stored, None))
            transaction.write(lambda: self._move(decided))
        await asyncio.sleep(0)
        return decided

    async def _lock_waiting(self, transaction: Transaction, step: Step) -> Notification | None:
        """Lock the notification that still waits, and return its newest version."""
        last_id = step.before.last_notification_id
        merges = step.notifies and step.before.if_uncleared is IfUncleared.MERGE
        if not merges or last_id not in self._tables.notifications:
            return None
        await transaction.lock("notification", last_id)
        last = self._tables.notifications.get(last_id)
        return None if last is None or last.cleared else last

    def _move(self, step: Step) -> None:
        self._store(replace(step.after, version=step.before.version + 1))
        if step.occurrence is not None:
            self._tables.occurrences.append(step)
            what = f"{step.occurrence.outcome}, planned for {step.occurrence.occurs_at:%H:%M:%S}"
            self._tables.witness.changed(step.before.agent_id, f"{step.before.title} {what}")

    def _store(self, schedule: Schedule) -> None:
        self._tables.schedules[schedule.id] = schedule
