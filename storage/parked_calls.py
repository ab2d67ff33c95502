"""Parked calls: tool calls and questions whose answer comes later, each a row and nothing else.

A rule says what follows for a call that is locked. Its step is stored in one transaction: the row with its
event, its grant, and the notification that wakes the agent.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from storage.approval_grants import ApprovalGrant, insert_grant
from storage.errors import LimitReached
from storage.events.events import format_moment, insert_events
from storage.events.model import BY_SERVICE, EventType, NewEvent
from storage.ids import derive_id
from storage.model import Priority, Role, Source
from storage.notifications.notifications import (
    InsertItem,
    NewNotification,
    Notifications,
    insert_together,
)
from storage.postgres.json_values import to_json
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import fetch_all, fetch_one, fields_of, from_row, insert_into

MAX_OPEN_PER_AGENT = 1000
MAX_IN_TURN = 10_000  # due calls, among which organizations take turns


class CallKind(StrEnum):
    """What a parked call waits for."""

    APPROVAL = "approval"
    """A person allows or denies the call of a tool."""
    QUESTION = "question"
    """A person answers a question of the agent."""
    RESULT = "result"
    """A tool that was called sends its result later."""
    INPUT = "input"
    """A person answers a question of the tool, which then goes on."""


class CallState(StrEnum):
    """How far a parked call is."""

    PENDING = "pending"
    """A person is asked."""
    DUE = "due"
    """It was decided, and the service is about to make the call, or to go on with it."""
    CALLING = "calling"
    """The service makes the call."""
    WAITING = "waiting"
    """The tool was called, and sends its result later."""
    DONE = "done"
    """The agent was told the result or the answer."""
    FAILED = "failed"
    """The call was made and failed, or nobody knows whether it had an effect."""
    DENIED = "denied"
    """A person has denied it, or declined to answer."""
    EXPIRED = "expired"
    """Nothing came in time."""
    WITHDRAWN = "withdrawn"
    """The agent or the tool has changed or is gone, so nobody needs to decide any more."""


class Lost(StrEnum):
    """Why a call that nobody has made yet is pointless."""

    NOTHING = ""
    AGENT_DELETED = "the agent was deleted"
    AGENT_ARCHIVED = "the agent was archived"
    TOOL_DELETED = "the tool was deleted"
    TOOL_DETACHED = "the agent no longer has the tool"
    TOOL_CHANGED = "the tool has changed since"


@dataclass(frozen=True, slots=True)
class ParkedCall:
    """A call that waits, or waited. Its JSON is kept as text: `arguments`, `approved_arguments`, `answer`.

    `due_at`: when the service must look at it next; while it is being made, the end of the lease of the node
    that makes it. `remote`: what the server of an MCP tool needs in order to go on. It has ended once
    `ended_at` is set, and `outcome` says in a sentence what ended it. `approval`: that of the tool, as it is
    now.
    """

    id: UUID
    organization_id: UUID
    agent_id: UUID
    run_id: UUID | None
    kind: CallKind
    state: CallState
    tool_id: UUID | None
    tool: str
    arguments: str
    digest: bytes
    created_at: datetime
    expires_at: datetime | None
    due_at: datetime | None
    question: str = ""
    answer_schema: Any = None
    contact_id: UUID | None = None
    remote: Any = None
    tool_digest: bytes = b""
    approved_arguments: str | None = None
    answer: str | None = None
    reminded_at: datetime | None = None
    decided_at: datetime | None = None
    decided_by: str = ""
    decision_digest: bytes | None = None
    result_digest: bytes | None = None
    note: str = ""
    ended_at: datetime | None = None
    outcome: str = ""
    agent_name: str = ""
    adapter_id: UUID | None = None
    approvers: Role = Role.ADMIN
    approval: Any = None


SHOWN_ONLY = ("agent_name", "adapter_id", "approvers", "approval")


@dataclass(frozen=True, slots=True)
class PresentCall(ParkedCall):
    """A call with what a rule must know of the present. `is_idempotent`: a repeated call does no harm."""

    lost: Lost = Lost.NOTHING
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True)
class DueCall:
    """A call that the service must look at, without its arguments, which may be long."""

    id: UUID
    organization_id: UUID


@dataclass(frozen=True, slots=True)
class Notice:
    """What the agent is told when a call has ended; `payload` is JSON that it can open."""

    title: str
    body: str
    priority: Priority = Priority.HIGH
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class CallStep:
    """A call as it will be, and what is stored together with it.

    `refusal` says why something that was asked for, such as a decision, did not happen.
    """

    after: ParkedCall
    event: EventType | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    notice: Notice | None = None
    grant: ApprovalGrant | None = None
    refusal: str = ""


Rule = Callable[[PresentCall], CallStep | None]

ROW = """
    p.*, a.name AS agent_name, t.adapter_id, coalesce(e.approvers, 'admin') AS approvers,
    coalesce(c.approval, t.approval) AS approval
FROM parked_call p
JOIN agent a ON a.id = p.agent_id
LEFT JOIN tool t ON t.id = p.tool_id
LEFT JOIN template e ON e.id = a.template_id
LEFT JOIN adapter_config c ON c.template_id = a.template_id AND c.adapter_id = t.adapter_id
"""
TABLE = OwnedTable(f"(SELECT {ROW} WHERE a.deleted_at IS NULL)", "p", ParkedCall)

LOCK_STATE = """
SELECT FROM agent_state WHERE agent_id = (SELECT agent_id FROM parked_call WHERE id = $1) FOR NO KEY UPDATE
"""

LOCK = f"""
SELECT coalesce(t.idempotent, false) AS is_idempotent,
       CASE WHEN a.deleted_at IS NOT NULL THEN '{Lost.AGENT_DELETED}'
            WHEN s.status = 'archived' THEN '{Lost.AGENT_ARCHIVED}'
            WHEN p.tool_id IS NULL THEN ''
            WHEN t.id IS NULL THEN '{Lost.TOOL_DELETED}'
            WHEN NOT EXISTS (SELECT FROM agent_adapter x
                             WHERE x.agent_id = p.agent_id AND x.adapter_id = t.adapter_id)
            THEN '{Lost.TOOL_DETACHED}'
            WHEN tool_digest(t) <> p.tool_digest THEN '{Lost.TOOL_CHANGED}'
            ELSE '' END AS lost, {ROW}
LEFT JOIN agent_state s ON s.agent_id = p.agent_id
WHERE p.id = $1 FOR NO KEY UPDATE OF p
"""  # noqa: S608

GET_TOOL_DIGEST = "SELECT tool_digest(t) FROM tool t WHERE id = $1"

ONCE = "state = 'pending' AND kind <> 'input'"  # as in the index

GET_PENDING = f"SELECT {ROW} WHERE p.agent_id = $1 AND p.digest = $2 AND {ONCE}"

COUNT_OPEN = "SELECT count(*) FROM parked_call WHERE agent_id = $1 AND ended_at IS NULL"

INSERT_ONCE = f" ON CONFLICT (agent_id, digest) WHERE {ONCE} DO NOTHING RETURNING id"

UPDATE = "UPDATE parked_call SET /* set */ WHERE id = $1"

# The organizations take turns, among the calls that have been due the longest.
LIST_DUE = f"""
WITH due AS MATERIALIZED (
    SELECT id, organization_id, due_at FROM parked_call
    WHERE due_at <= $1 AND id <> ALL ($2::uuid[]) AND organization_id <> ALL ($3::uuid[])
      AND (SELECT paused_at FROM instance) IS NULL
    ORDER BY due_at, id LIMIT {MAX_IN_TURN}
)
SELECT id, organization_id FROM due
ORDER BY row_number() OVER (PARTITION BY organization_id ORDER BY due_at, id), due_at, id LIMIT $4
"""  # noqa: S608

COUNT_PENDING = """
SELECT count(*) AS count, min(created_at) AS oldest_at FROM parked_call WHERE state = 'pending'
"""

COUNT_PENDING_OF = """
SELECT count(*) AS count, min(created_at) AS oldest_at FROM parked_call
WHERE agent_id = $1 AND state = 'pending' AND ended_at IS NULL  -- for the index
"""


@dataclass(frozen=True, slots=True)
class PendingCalls:
    """How many calls wait for a person, and since when the oldest of them does."""

    count: int
    oldest_at: datetime | None


class ParkedCalls:
    """The table `parked_call`. The event `stored` is set when the service has to make a call at once."""

    def __init__(self, pool: Pool, notifications: Notifications) -> None:
        self._pool = pool
        self._notifications = notifications
        self.stored = asyncio.Event()
        self.last_pending = PendingCalls(0, None)
        self.get = SharedReads(
            "parked calls",
            pool,
            TABLE.get,
            partial(from_row, ParkedCall),
            texts=("p.arguments", "p.approved_arguments", "p.question", "p.answer", "p.note", "p.outcome"),
            documents=("p.answer_schema", "p.remote", "p.approval"),
        )

    async def insert(self, call: ParkedCall, *, actor: str = BY_SERVICE) -> ParkedCall:
        """Park the call, and return it, or the pending one of the agent for the same tool and arguments.

        Raise LimitReached if the agent has MAX_OPEN_PER_AGENT that have not ended, ReferenceMissing("agent").
        """
        return await self._pool.write(partial(_insert, call=call, actor=actor), f"parking of call {call.id}")

    async def change(
        self, call_id: UUID, rule: Rule, now: datetime, *, actor: str = BY_SERVICE
    ) -> CallStep | None:
        """Lock the call, store what the rule says, and return it; None if there is no call or nothing to do.

        Raise RowLocked if the queue of the agent stays locked.
        """
        changed = await self._pool.write(
            partial(_change, call_id=call_id, rule=rule, now=now, actor=actor),
            f"step of parked call {call_id}",
            self._report,
        )
        return changed[0] if changed else None

    def _report(self, changed: "tuple[CallStep, list[InsertItem]] | None") -> None:
        if changed is None:
            return
        step, items = changed
        self._notifications.report_committed(items)
        if step.after.state is CallState.DUE:
            self.stored.set()

    async def list_page(
        self,
        organization_ids: tuple[UUID, ...],
        page: Page,
        *,
        state: CallState | None = None,
        kind: CallKind | None = None,
        agent: UUID | None = None,
        tool: str | None = None,
        until: datetime | None = None,
    ) -> Chunk[ParkedCall]:
        """List one page of the calls, newest first. `until`: only those that were made by then."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        if state is CallState.PENDING:
            conditions.add("p.state = 'pending'")  # all that their index contains
        else:
            conditions.add_optional("p.state = $", state)
        conditions.add_optional("p.kind = $", kind)
        conditions.add_optional("p.agent_id = $", agent)
        conditions.add_optional("p.tool = $", tool)
        conditions.add_optional("p.created_at <= $", until)
        return await fetch_page(self._pool, ParkedCall, TABLE.page, conditions)

    async def count_pending_of(self, agent_id: UUID) -> PendingCalls:
        """Count what the agent waits for a person for."""
        return await fetch_one(self._pool, PendingCalls, COUNT_PENDING_OF, agent_id) or PendingCalls(0, None)

    async def refresh_pending(self) -> None:
        """Count all into `last_pending`, which the metrics show without waiting for the database."""
        pending = await fetch_one(self._pool, PendingCalls, COUNT_PENDING)
        self.last_pending = pending or PendingCalls(0, None)

    async def list_due(
        self, now: datetime, without: Collection[UUID], full: Collection[UUID], limit: int
    ) -> list[DueCall]:
        """List calls that are due, some of each organization, `without` these ids and organizations."""
        return await fetch_all(self._pool, DueCall, LIST_DUE, now, without, full, limit)


async def _insert(connection: Connection, call: ParkedCall, actor: str) -> ParkedCall:
    if await connection.fetchval(COUNT_OPEN, call.agent_id) >= MAX_OPEN_PER_AGENT:
        message = f"The agent waits for {MAX_OPEN_PER_AGENT} calls, the maximum. Go on with something else."
        raise LimitReached("parked_calls", MAX_OPEN_PER_AGENT, message)
    tool_digest = await connection.fetchval(GET_TOOL_DIGEST, call.tool_id) if call.tool_id else b""
    new = replace(call, tool_digest=tool_digest or b"")
    sql, *values = insert_into("parked_call", fields_of(new, without=SHOWN_ONLY))
    while await connection.fetchval(sql + INSERT_ONCE, *values) is None:
        pending = await fetch_one(connection, ParkedCall, GET_PENDING, call.agent_id, call.digest)
        if pending is not None:  # None: it was decided in between
            return pending
    if call.kind is not CallKind.RESULT:
        data = {"expires_at": new.expires_at and format_moment(new.expires_at)}
        event = _event(EventType.APPROVAL_REQUESTED, new, call.created_at, actor, data)
        await insert_events(connection, [event])
    return new


async def _change(
    connection: Connection, call_id: UUID, rule: Rule, now: datetime, actor: str
) -> "tuple[CallStep, list[InsertItem]] | None":
    """Lock the agent's state before the call, as everywhere: its notification may become active."""
    await connection.execute(LOCK_STATE, call_id)
    before = await fetch_one(connection, PresentCall, LOCK, call_id)
    step = rule(before) if before else None
    if before is None or step is None:
        return None
    after = fields_of(step.after)
    changes = {name: value for name, value in after.items() if value != getattr(before, name)}
    if changes:
        await connection.execute(assign(UPDATE, changes, ParkedCall, after=1), call_id, *changes.values())
    if step.event is not None:
        await insert_events(connection, [_event(step.event, step.after, now, actor, step.data)])
    if step.grant is not None:
        await insert_grant(connection, step.grant)
    return step, await _insert_notice(connection, step, now)


async def _insert_notice(connection: Connection, step: CallStep, now: datetime) -> list[InsertItem]:
    if step.notice is None:
        return []
    new = notification_of(step.after, step.notice, now)
    item = InsertItem(new, {step.after.organization_id}, payload=step.notice.payload)
    [refusal] = await insert_together(connection.fetch, [item])
    if refusal is not None:
        raise refusal
    return [item]


def notification_of(call: ParkedCall, notice: Notice, now: datetime) -> NewNotification:
    """Return the notification by which the agent of the call is told."""
    return NewNotification(
        id=derive_id(call.id, "outcome"),
        agent_id=call.agent_id,
        source=Source.SYSTEM,
        source_id=str(call.id),
        title=notice.title,
        body=notice.body,
        priority=notice.priority,
        created_at=now,
        scheduled_for=None,
    )


def _event(
    type_: EventType, call: ParkedCall, at: datetime, actor: str, data: Mapping[str, object]
) -> NewEvent:
    text = to_json({"kind": call.kind, "tool": call.tool, **data}).decode()
    return NewEvent(type_, at, call.agent_id, resource_id=call.id, actor=actor, data=text)
