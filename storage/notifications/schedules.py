"""Schedules: rows whose falling due puts a notification into the queue of their agent, each time once.

A step says what an occurrence leads to. It is stored in one transaction: the row moves on only if nobody has
changed it since it was read (`version`), and the occurrence has a primary key.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID, uuid5

from storage.delivery.receipts import insert_receipt
from storage.errors import LimitReached
from storage.events.events import format_moment, insert_events
from storage.events.model import BY_SERVICE, EventType, NewEvent
from storage.model import Priority, Receipt, Source
from storage.notifications.changes import update_locked
from storage.notifications.notifications import (
    InsertItem,
    NewNotification,
    Notifications,
    insert_together,
    lock_states,
)
from storage.postgres.json_values import to_json
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import Conditions, assign, fill_in
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import fetch_all, fields_of, from_row, insert_into

MAX_PER_AGENT = 100
KEPT_OCCURRENCES = 100  # of each schedule
MAX_IN_TURN = 10_000  # due schedules, among which organizations take turns


class PausedReason(StrEnum):
    """The reason why a schedule notifies nobody."""

    NONE = ""
    """It is not paused."""
    MANUAL = "manual"
    """A request paused it. Its occurrences pass, and are recorded."""
    AGENT_ARCHIVED = "agent_archived"
    """Its agent is archived. Its occurrences pass until the agent is restored."""
    TIMEZONE = "timezone"
    """Its time zone is not known any more, so nobody can say when it comes next."""
    ENDED = "ended"
    """It has no further occurrence."""


class IfUncleared(StrEnum):
    """What happens when the notification of an earlier occurrence is still uncleared."""

    MERGE = "merge"
    """That notification is updated: how many occurrences it stands for, and the latest of them."""
    ADD = "add"
    """Another one is added."""


class OnlyIf(StrEnum):
    """The condition on which an occurrence notifies."""

    ALWAYS = "always"
    """It always does."""
    WAITING = "waiting"
    """Only if another uncleared notification of the agent waits, whatever its priority."""


class WakeIf(StrEnum):
    """The answer to a check that notifies. The same answer as the last time never does."""

    CHANGED = "changed"
    """One that differs from the last. The first only begins the comparison."""
    NONEMPTY = "nonempty"
    """One that differs from the last and is neither null nor an empty text, list or object."""
    ERROR = "error"
    """The first error after the start or after an answer."""


class OccurrenceOutcome(StrEnum):
    """What became of an occurrence."""

    FIRED = "fired"
    """It has put a notification into the queue."""
    MERGED = "merged"
    """It has updated the notification that still waited."""
    LATE = "late"
    """It was dropped, because it was later than `late_seconds`."""
    PAUSED = "paused"
    """It passed while the schedule was paused or its agent archived."""
    NOTHING_WAITING = "nothing_waiting"
    """It passed, because nothing waited."""
    UNCHANGED = "unchanged"
    """Its check found nothing to tell."""
    FAILED = "failed"
    """Its check failed. The third time in a row puts a notification of low priority into the queue."""
    MANUAL = "manual"
    """A request has made it."""


PLANNED = frozenset({OccurrenceOutcome.FIRED, OccurrenceOutcome.MERGED})
NOTIFYING = PLANNED | {OccurrenceOutcome.MANUAL}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule, with what it takes from its agent. Its timing is explained in `policy.schedules`.

    `due_at`: when it must be looked at; before `next_at` only if its next moment must be computed again.
    `merged_count`: how many occurrences its last notification stands for. `watch`: its check, with `tool`,
    `arguments` and `wake_if`; `answer` is the beginning of the last answer, and `failed_count` counts errors
    in a row.
    """

    id: UUID
    organization_id: UUID
    agent_id: UUID
    name: str
    title: str
    created_at: datetime
    created_by: str
    agent_timezone: str
    agent_name: str = ""
    agent_archived: bool = False
    body: str = ""
    priority: Priority = Priority.HIGH
    cron: str | None = None
    every_seconds: int | None = None
    timezone: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_occurrences: int | None = None
    late_seconds: int | None = None
    if_uncleared: IfUncleared = IfUncleared.MERGE
    only_if: OnlyIf = OnlyIf.ALWAYS
    jitter_seconds: int = 0
    paused_reason: PausedReason = PausedReason.NONE
    next_at: datetime | None = None
    due_at: datetime | None = None
    version: int = 0
    last_at: datetime | None = None
    last_outcome: str = ""
    last_notification_id: UUID | None = None
    merged_count: int = 0
    notified_count: int = 0
    missed_count: int = 0
    watch: dict[str, Any] | None = None
    answer_digest: str = ""
    answer: str = ""
    failed_count: int = 0

    @property
    def effective_timezone(self) -> str:
        """Return its own time zone, else that of its agent."""
        return self.timezone or self.agent_timezone

    @property
    def shown_reason(self) -> PausedReason:
        """Return why it is paused. An archived agent pauses its schedules, and a restored one ends that."""
        if self.paused_reason is PausedReason.NONE and self.agent_archived:
            return PausedReason.AGENT_ARCHIVED
        return self.paused_reason


OF_AGENT = ("agent_timezone", "agent_name", "agent_archived")
FIXED = (
    *("id", "organization_id", "agent_id", "created_at", "created_by", "version", "something_waits"),
    *OF_AGENT,
)
PROGRESS = (
    *("next_at", "due_at", "last_at", "last_outcome", "last_notification_id", "merged_count"),
    *("notified_count", "missed_count", "answer_digest", "answer", "failed_count"),
)


FIELD_NAMES = {"paused_reason": "paused", "watch": "check"}  # for clients, where they differ


@dataclass(frozen=True, slots=True)
class DueSchedule(Schedule):
    """A schedule that must be looked at. `something_waits`: its agent has another uncleared notification."""

    something_waits: bool = True


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A moment of a schedule, and what became of it. `missed_count`: earlier ones that it stands for.

    `run_id`: the run in which its notification was cleared, if it is read from the record.
    """

    schedule_id: UUID
    occurs_at: datetime
    outcome: OccurrenceOutcome
    decided_at: datetime
    missed_count: int
    notification_id: UUID | None = None
    run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A schedule as it was read and as it will be, and its occurrence, if there is one.

    `text` is the body of a new notification, `merged_text` that of one which still waits. It `warns`, with a
    low notification of its own, of checks that fail.
    """

    before: Schedule
    after: Schedule
    occurrence: Occurrence | None = None
    text: str = ""
    merged_text: str = ""
    warns: bool = False

    @property
    def notifies(self) -> bool:
        return self.occurrence is not None and (self.warns or self.occurrence.outcome in NOTIFYING)

    @property
    def merges(self) -> bool:
        """Return whether it updates the notification that still waits; known once it is settled."""
        is_last = self.after.last_notification_id == self.before.last_notification_id
        return self.notifies and is_last and not self.warns


def occurrence_id(schedule_id: UUID, moment: datetime) -> UUID:
    """Return the id of the occurrence, and of the notification that it makes."""
    return uuid5(schedule_id, format_moment(moment))


def settle(step: Step, waiting: Collection[UUID], *, has_occurred: bool = False) -> Step:
    """Return the step with its counts and its notification: the last one if that is `waiting`, or a new one.

    If it `has_occurred` before, only the next moment is left.
    """
    occurrence, before, after = step.occurrence, step.before, step.after
    if occurrence is None or has_occurred:
        return replace(step, occurrence=None)
    if step.warns:
        occurrence = replace(occurrence, notification_id=occurrence_id(before.id, occurrence.occurs_at))
    elif step.notifies:
        last_id, is_planned = before.last_notification_id, occurrence.outcome in PLANNED
        merges = last_id in waiting
        if merges and is_planned:
            occurrence = replace(occurrence, outcome=OccurrenceOutcome.MERGED)
        notification_id = last_id if merges else occurrence_id(before.id, occurrence.occurs_at)
        occurrence = replace(occurrence, notification_id=notification_id)
        after = replace(
            after,
            last_notification_id=notification_id,
            merged_count=before.merged_count + 1 if merges else 1,
            notified_count=before.notified_count + is_planned,
        )
    after = replace(
        after,
        last_at=occurrence.occurs_at,
        last_outcome=occurrence.outcome,
        missed_count=before.missed_count + occurrence.missed_count,
    )
    return replace(step, after=after, occurrence=occurrence)


def notification_of(step: Step, now: datetime) -> NewNotification:
    """Return the new notification of a settled step."""
    schedule, made = step.before, step.occurrence
    if made is None or made.notification_id is None:
        raise ValueError("the step notifies nobody")
    return NewNotification(
        id=made.notification_id,
        agent_id=schedule.agent_id,
        source=Source.SYSTEM,
        source_id=str(schedule.id),
        title=schedule.title,
        body=step.text,
        priority=Priority.LOW if step.warns else schedule.priority,
        created_at=now,
        scheduled_for=None,
    )


def merged_changes(step: Step, scheduled_for: datetime | None) -> dict[str, Any]:
    """Return what a settled step changes in the notification that waits, which is `scheduled_for` that time.

    The new time makes it as new as another notification would be, unless somebody has postponed it.
    """
    schedule, latest_at = step.before, scheduled_for
    if step.occurrence is not None:
        latest_at = max(step.occurrence.occurs_at, scheduled_for or step.occurrence.occurs_at)
    return {
        "title": schedule.title,
        "body": step.merged_text,
        "priority": schedule.priority,
        "scheduled_for": latest_at,
    }


SHOWN = """(
    SELECT s.*, a.timezone AS agent_timezone, a.name AS agent_name, a.tags AS agent_tags,
           st.status = 'archived' AS agent_archived, st.paused AS agent_paused
    FROM schedule s JOIN agent a ON a.id = s.agent_id JOIN agent_state st ON st.agent_id = s.agent_id
    WHERE a.deleted_at IS NULL)"""
TABLE = OwnedTable(SHOWN, "s", Schedule)

LIST_OF_AGENT = f"SELECT * FROM {SHOWN} s WHERE agent_id = $1 ORDER BY name"  # noqa: S608

LIST_COMING = f"""
SELECT s.* FROM organization o CROSS JOIN LATERAL (
    SELECT * FROM {SHOWN} s
    WHERE s.organization_id = o.id AND s.paused_reason = '' AND s.next_at <= $2
      AND s.priority = 'high' AND s.watch IS NULL AND NOT s.agent_archived AND NOT s.agent_paused
    ORDER BY s.next_at LIMIT $3) s
WHERE o.id = ANY($1::uuid[]) AND NOT o.paused AND (SELECT paused_at FROM instance) IS NULL
ORDER BY s.next_at, s.id LIMIT $3
"""  # noqa: S608

# The organizations take turns, among the schedules that have been due the longest.
LIST_DUE = f"""
WITH due AS MATERIALIZED (
    SELECT id, organization_id, due_at FROM schedule
    WHERE due_at <= $1 AND /* watch */ AND id <> ALL ($2::uuid[]) AND (SELECT paused_at FROM instance) IS NULL
    ORDER BY due_at, id LIMIT {MAX_IN_TURN}
), turn AS (
    SELECT id FROM due
    ORDER BY row_number() OVER (PARTITION BY organization_id ORDER BY due_at, id), due_at, id LIMIT $3
)
SELECT s.*, s.only_if = 'always' OR EXISTS (
    SELECT FROM notification n
    WHERE n.agent_id = s.agent_id AND NOT n.cleared AND n.source_id <> s.id::text
      AND (n.scheduled_for IS NULL OR n.scheduled_for <= $1)) AS something_waits
FROM turn JOIN {SHOWN} s USING (id) ORDER BY s.due_at, s.id
"""  # noqa: S608

OF_CHECKS = "watch IS NOT NULL AND organization_id <> ALL ($4::uuid[])"
LIST_DUE_CHECKS = fill_in(LIST_DUE, "/* watch */", OF_CHECKS)
LIST_DUE = fill_in(LIST_DUE, "/* watch */", "watch IS NULL")

LOCK_AGENT = "SELECT FROM agent WHERE id = $1 FOR NO KEY UPDATE"
LOCK_OF_AGENT = "SELECT FROM schedule WHERE agent_id = $1 ORDER BY id FOR NO KEY UPDATE"

# Notifications are locked before the states of agents, as everywhere, then the schedules, each by id.
LOCK_WAITING = """
SELECT id, scheduled_for FROM notification
WHERE id = ANY($1::uuid[]) AND NOT cleared ORDER BY id FOR NO KEY UPDATE
"""

LIST_RUNNING = "SELECT agent_id FROM agent_state WHERE agent_id = ANY($1::uuid[]) AND status = 'running'"

LOCK_UNCHANGED = """
SELECT s.id, EXISTS (
    SELECT FROM schedule_occurrence o WHERE o.schedule_id = s.id AND o.occurs_at = step.occurs_at
) AS has_occurred
FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) AS step (id, version, occurs_at)
JOIN schedule s ON s.id = step.id AND s.version = step.version
ORDER BY s.id FOR NO KEY UPDATE OF s
"""

UPDATE = "UPDATE schedule SET version = version + 1, /* set */ WHERE id = $1"

DELETE = """
WITH deleted AS (DELETE FROM schedule WHERE id = $1 RETURNING organization_id, agent_id),
inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor)
    SELECT $2, 'schedule.deleted', organization_id, agent_id, event_run_id($3), $1, $3 FROM deleted
)
SELECT agent_id FROM deleted
"""

# By their places, so that PostgreSQL never reads the whole table.
TRIM = """
DELETE FROM schedule_occurrence WHERE ctid = ANY(ARRAY(
    SELECT o.ctid FROM unnest($1::uuid[]) AS s (id)
    CROSS JOIN LATERAL (
        SELECT ctid FROM schedule_occurrence WHERE schedule_id = s.id ORDER BY occurs_at DESC OFFSET $2
    ) o))
"""

LIST_OCCURRENCES = """
SELECT o.*, (
    SELECT r.id FROM notification n JOIN run r ON r.agent_id = n.agent_id
    WHERE n.id = o.notification_id AND r.started_at <= n.cleared_at
      AND (r.ended_at IS NULL OR r.ended_at >= n.cleared_at)
    ORDER BY r.started_at DESC LIMIT 1) AS run_id
FROM schedule_occurrence o
WHERE o.schedule_id = $1 /* and */
ORDER BY o.occurs_at DESC LIMIT 100
"""


Change = Callable[[Schedule | None], Awaitable[Schedule]]
Fired = tuple[list[Step], list[InsertItem]]


class Schedules:
    """The tables `schedule` and `schedule_occurrence`.

    `outcomes` counts the occurrences of this process, `late_seconds` how late those were that notified.
    """

    def __init__(self, pool: Pool, notifications: Notifications) -> None:
        self._pool = pool
        self._notifications = notifications
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OccurrenceOutcome, 0))
        self.late_seconds = 0.0
        self.get = SharedReads(
            "schedules",
            pool,
            TABLE.get,
            partial(from_row, Schedule),
            texts=("s.title", "s.body", "s.answer"),
            documents=("s.watch",),
        )

    async def save(
        self,
        agent_id: UUID,
        key: UUID | str | None,
        change: Change,
        now: datetime,
        receipt: Receipt | None = None,
        *,
        allow: Callable[[Sequence[Schedule]], None] = lambda _: None,
        actor: str = BY_SERVICE,
    ) -> Schedule:
        """Store what `change` makes of the agent's schedule with this id or name, of None if there is none.

        Nothing is written if that is the same. `allow` may refuse by all schedules of the agent, which are
        locked. Raise NotUnique, ReferenceMissing, LimitReached, AnsweredBefore and the errors of both.
        """

        async def work(connection: Connection) -> Schedule:
            await connection.execute(LOCK_AGENT, agent_id)
            await connection.execute(LOCK_OF_AGENT, agent_id)
            present = await fetch_all(connection, Schedule, LIST_OF_AGENT, agent_id)
            allow(present)
            before = next((each for each in present if key in {each.id, each.name}), None)
            after = await change(before)
            await insert_receipt(connection, receipt, after.organization_id)
            if before is None and len(present) >= MAX_PER_AGENT:
                message = f"The agent has {MAX_PER_AGENT} schedules, the maximum. Delete one first."
                raise LimitReached("schedules", MAX_PER_AGENT, message)
            if after != before:
                await _store(connection, before, after, now, actor)
            return after

        return await self._pool.write(work, f"write of schedule {key}")

    async def insert(
        self, schedule: Schedule, receipt: Receipt | None = None, *, actor: str = BY_SERVICE
    ) -> None:
        """Store a new schedule. Raise the errors of `save`."""

        async def new(_: Schedule | None) -> Schedule:
            return schedule

        await self.save(schedule.agent_id, None, new, schedule.created_at, receipt, actor=actor)

    async def delete(self, schedule_id: UUID, now: datetime, *, actor: str = BY_SERVICE) -> bool:
        """Delete the schedule and its record; its notifications stay. Return False if there is none."""
        return bool(await self._pool.change(DELETE, schedule_id, now, actor))

    async def list_page(
        self,
        organization_ids: tuple[UUID, ...],
        page: Page,
        *,
        agent: UUID | None = None,
        paused: bool | None = None,
        tag: str = "",
    ) -> Chunk[Schedule]:
        """List one page of the schedules, newest first."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        conditions.add_optional("s.agent_id = $", agent)
        conditions.add_optional("(s.paused_reason <> '' OR s.agent_archived) = $", paused)
        conditions.add_optional("$ = ANY (s.agent_tags)", tag or None)
        return await fetch_page(self._pool, Schedule, TABLE.page, conditions)

    async def list_of_agent(self, agent_id: UUID) -> list[Schedule]:
        """List the schedules of the agent by name."""
        return await fetch_all(self._pool, Schedule, LIST_OF_AGENT, agent_id)

    async def list_coming(
        self, organization_ids: Sequence[UUID], until: datetime, limit: int
    ) -> list[Schedule]:
        """List the schedules of the organizations that wake an agent by `until`, the next one first."""
        return await fetch_all(self._pool, Schedule, LIST_COMING, organization_ids, until, limit)

    async def list_occurrences(
        self, schedule_id: UUID, outcome: OccurrenceOutcome | None, since: datetime | None
    ) -> list[Occurrence]:
        """List what is recorded of the schedule, the latest first: at most KEPT_OCCURRENCES."""
        conditions = Conditions(schedule_id)
        conditions.add_optional("o.outcome = $", outcome)
        conditions.add_optional("o.occurs_at >= $", since)
        sql = conditions.into(LIST_OCCURRENCES)
        return await fetch_all(self._pool, Occurrence, sql, *conditions.parameters)

    async def list_due(self, now: datetime, without: Collection[UUID], limit: int) -> list[DueSchedule]:
        """List schedules without a check that are due, some of each organization, `without` these ids."""
        return await fetch_all(self._pool, DueSchedule, LIST_DUE, now, without, limit)

    async def list_due_checks(
        self, now: datetime, without: Collection[UUID], full: Collection[UUID], limit: int
    ) -> list[DueSchedule]:
        """List schedules with a check in the same way, none of the organizations that are `full`."""
        return await fetch_all(self._pool, DueSchedule, LIST_DUE_CHECKS, now, without, limit, full)

    async def fire(
        self, steps: Sequence[Step], now: datetime, *, actor: str = BY_SERVICE
    ) -> list[Occurrence]:
        """Store the steps with their notifications, and return the occurrences that are new.

        A step of a schedule that was changed since it was read is left out. Raise RowLocked if the queue of
        an agent stays locked.
        """
        merging = {step.before.id for step in steps if await self._may_merge(step)}
        fired, _ = await self._pool.write(
            lambda connection: _fire(connection, steps, merging, now, actor),
            f"step of {len(steps)} schedules",
            self._report,
        )
        return [step.occurrence for step in fired if step.occurrence is not None]

    async def _may_merge(self, step: Step) -> bool:
        """Return whether it updates a notification that waits, as all do while there is no room for more."""
        if not step.notifies or step.before.if_uncleared is IfUncleared.MERGE:
            return True
        try:
            async with self._notifications.limit.reserved(step.before.organization_id):
                return False
        except LimitReached:
            return True

    def _report(self, fired: Fired) -> None:
        steps, items = fired
        self._notifications.report_committed(items, [step.before.agent_id for step in steps if step.merges])
        for step in steps:
            if step.occurrence is not None:
                self.outcomes[step.occurrence.outcome] += 1
                if step.occurrence.outcome in PLANNED and step.before.due_at is not None:
                    late = step.occurrence.decided_at - step.before.due_at
                    self.late_seconds += max(0.0, late.total_seconds())


async def _store(
    connection: Connection, before: Schedule | None, after: Schedule, now: datetime, actor: str
) -> None:
    data: dict[str, Any] = {}
    if before is None:
        await connection.execute(*insert_into("schedule", fields_of(after, without=OF_AGENT)))
    else:
        await _update(connection, [after])
        settings = fields_of(after, without=(*FIXED, *PROGRESS))
        names = [name for name, value in settings.items() if value != getattr(before, name)]
        if not names:
            return
        data["fields"] = [FIELD_NAMES.get(name, name) for name in names]
    type_ = EventType.SCHEDULE_CREATED if before is None else EventType.SCHEDULE_CHANGED
    await insert_events(connection, [_event(type_, after, now, actor, **data)])


async def _update(connection: Connection, schedules: Sequence[Schedule]) -> None:
    rows = [(each.id, fields_of(each, without=FIXED)) for each in schedules]
    for _, columns in rows[:1]:
        sql = assign(UPDATE, columns, Schedule, after=1)
        await connection.executemany(sql, [(row_id, *values.values()) for row_id, values in rows])


async def _fire(
    connection: Connection, steps: Sequence[Step], merging: Collection[UUID], now: datetime, actor: str
) -> Fired:
    notifying = [step.before for step in steps if step.notifies]
    waiting = await _lock_waiting(connection, notifying, merging)
    read = [(s.before.id, s.before.version, s.occurrence and s.occurrence.occurs_at) for s in steps]
    rows = await connection.fetch(LOCK_UNCHANGED, *zip(*read, strict=True))
    unchanged = {row["id"]: row["has_occurred"] for row in rows}
    settled = [
        settle(step, waiting, has_occurred=unchanged[step.before.id])
        for step in steps
        if step.before.id in unchanged
    ]
    await _update(connection, [step.after for step in settled])
    await _record(connection, settled, now, actor)
    items = []
    for step in settled:
        last_id = step.after.last_notification_id
        if step.merges and last_id:
            await update_locked(connection, last_id, merged_changes(step, waiting[last_id]), now, actor)
        elif step.notifies:
            items.append(InsertItem(notification_of(step, now), {step.before.organization_id}, actor=actor))
    refusals = await insert_together(connection.fetch, items)
    return settled, [item for item, refusal in zip(items, refusals, strict=True) if refusal is None]


async def _lock_waiting(
    connection: Connection, notifying: Sequence[Schedule], merging: Collection[UUID]
) -> dict[UUID, datetime | None]:
    """Lock the agents, and return the notifications that wait for an update, with their `scheduled_for`.

    One that a watch has made does not wait during a run, which may have read it, and would clear it with a
    change that nobody was told of.
    """
    last_ids = [each.last_notification_id for each in notifying if each.id in merging]
    waiting = {row["id"]: row["scheduled_for"] for row in await connection.fetch(LOCK_WAITING, last_ids)}
    await lock_states(connection, {each.agent_id for each in notifying})
    watches = [each for each in notifying if each.watch is not None]
    if watches:
        rows = await connection.fetch(LIST_RUNNING, [each.agent_id for each in watches])
        running = {row["agent_id"] for row in rows}
        read = {each.last_notification_id for each in watches if each.agent_id in running}
        waiting = {id_: moment for id_, moment in waiting.items() if id_ not in read}
    return waiting


async def _record(connection: Connection, steps: Sequence[Step], now: datetime, actor: str) -> None:
    """Insert what became of the moments, and their events; keep the last KEPT_OCCURRENCES of each."""
    occurred = [step.occurrence for step in steps if step.occurrence is not None]
    inserts = [insert_into("schedule_occurrence", fields_of(each, without=("run_id",))) for each in occurred]
    for sql, *_ in inserts[:1]:
        await connection.executemany(sql, [values for _, *values in inserts])
    await connection.execute(TRIM, [each.schedule_id for each in occurred], KEPT_OCCURRENCES)
    await insert_events(connection, list(chain.from_iterable(_events(step, now, actor) for step in steps)))


def _events(step: Step, now: datetime, actor: str) -> list[NewEvent]:
    events, after, occurrence = [], step.after, step.occurrence
    if occurrence is not None:
        data = {
            "outcome": occurrence.outcome,
            "occurs_at": format_moment(occurrence.occurs_at),
            "missed_count": occurrence.missed_count,
            "notification": occurrence.notification_id,
        }
        events.append(_event(EventType.SCHEDULE_OCCURRED, after, now, actor, **data))
    if after.paused_reason is not step.before.paused_reason:
        events.append(_event(EventType.SCHEDULE_CHANGED, after, now, BY_SERVICE, fields=["paused"]))
    return events


def _event(type_: EventType, schedule: Schedule, at: datetime, actor: str, **data: object) -> NewEvent:
    text = to_json(data).decode()
    return NewEvent(type_, at, schedule.agent_id, resource_id=schedule.id, actor=actor, data=text)
