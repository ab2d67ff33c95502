"""Schedules in memory: does what `storage.notifications.schedules.Schedules` does."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from hostsvc_testing.memory import row_events
from hostsvc_testing.memory.memory_queue import MemoryNotifications, changed, new_row
from hostsvc_testing.memory.tables import Edit, Tables, Transaction, Wire
from storage.model import AgentStatus, Notification
from storage.notifications.notifications import OnCommit
from storage.notifications.schedules import (
    DueSchedule,
    IfUncleared,
    Occurrence,
    PausedReason,
    Schedule,
    Step,
    merged_changes,
    notification_of,
    settle,
)
from supervisors.policy import schedules as policy

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MemorySchedules:
    """A `supervisors.ports.ScheduleStore`."""

    def __init__(self, tables: Tables, wire: Wire, queue: MemoryNotifications, on_commit: OnCommit) -> None:
        self._tables = tables
        self._wire = wire
        self._queue = queue
        self._on_commit = on_commit

    async def get_next_due(self) -> datetime | None:
        return min((each.due_at for each in self._armed() if each.due_at), default=None)

    async def list_due(self, now: datetime, without: Collection[UUID], limit: int) -> list[DueSchedule]:
        return await self._wire.carry(partial(self._list_due, now, without, limit), None)

    async def fire(self, steps: Sequence[Step], now: datetime) -> list[Occurrence]:
        fired = [await self._wire.run_to_completion(self._fire(step, now)) for step in steps]
        return [step.occurrence for step in fired if step is not None and step.occurrence is not None]

    async def pause(self, schedule_id: UUID) -> None:
        """Pause the schedule, or end its pause."""
        async with Transaction(self._tables) as transaction:
            await transaction.lock("schedule", schedule_id)
            row = self._tables.schedules[schedule_id]
            reason = PausedReason.NONE if row.paused_reason else PausedReason.MANUAL
            after = replace(row, paused_reason=reason, version=row.version + 1)
            transaction.write(lambda: self._store(after))

    async def set_interval(self, schedule_id: UUID, every_seconds: int, now: datetime) -> None:
        """Give the schedule another interval, as a client does."""
        async with Transaction(self._tables) as transaction:
            await transaction.lock("schedule", schedule_id)
            row = self._tables.schedules[schedule_id]
            after = policy.changed(row, {"every_seconds": every_seconds}, now)
            after = replace(after, version=row.version + 1)
            transaction.write(lambda: self._store(after))
            transaction.write(lambda: self._tables.occurrences.append(Edit(row, every_seconds, now)))

    async def follow_zone(self, schedule_id: UUID) -> None:
        """Have the schedule looked at, as the trigger does when the zone of its agent changes."""
        async with Transaction(self._tables) as transaction:
            await transaction.lock("schedule", schedule_id)
            row = self._tables.schedules[schedule_id]
            after = replace(row, due_at=EPOCH, version=row.version + 1)
            transaction.write(lambda: self._store(after))

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
