"""Agents as their organizations see them: their settings, and the part of their state that clients see."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.agents.actions import ADD_TAGS, MAX_TAGS_BYTES, REMOVE_TAGS, TagChange
from storage.agents.filters import AgentFilters, page_conditions
from storage.delivery.outbox import insert_agent_created
from storage.delivery.receipts import insert_receipt
from storage.errors import ParentCycle, ReferenceMissing, TooManyTags
from storage.events.events import insert_events
from storage.events.model import BY_SERVICE, EventType, NewEvent
from storage.model import Agent, AgentStatus, Notification, Priority, Receipt
from storage.organization_limits import OrganizationLimits
from storage.postgres.connections import PARENTS
from storage.postgres.json_values import to_json
from storage.postgres.paging import Chunk, Page, fetch_rows
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import fetch_all, fetch_one, fields_of, from_row, insert_into

# The fields of `Agent` that are no columns of the table `agent`.
JOINED = ("template_name", "parent_name", "adapters")
OF_STATE = (
    "status",
    "sleep_until",
    "run_started_at",
    "last_wake_reason",
    "last_wake_interrupted_sleep_until",
    "paused",
)

INSERT_ADAPTERS = """
INSERT INTO agent_adapter (agent_id, adapter_id, position)
SELECT $1, adapter_id, position FROM unnest($2::uuid[]) WITH ORDINALITY AS i (adapter_id, position)
"""

DELETE_ADAPTERS = "DELETE FROM agent_adapter WHERE agent_id = $1"

GET = """
SELECT a.*,
       s.status, s.paused, s.sleep_until, s.run_started_at, s.last_wake_reason,
       s.last_wake_interrupted_sleep_until,
       t.name AS template_name, coalesce(p.name, '') AS parent_name,
       ARRAY(SELECT adapter_id FROM agent_adapter WHERE agent_id = a.id ORDER BY position) AS adapters
FROM agent a
JOIN agent_state s ON s.agent_id = a.id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN agent p ON p.id = a.parent_id
WHERE a.id = ANY((SELECT $1::uuid[])::uuid[]) AND a.deleted_at IS NULL /* and */
"""

# Read a page of each organization along its index, then take the newest of all.
PAGE = """
SELECT a.*,
       s.status, s.paused, s.sleep_until, s.run_started_at, s.last_wake_reason,
       s.last_wake_interrupted_sleep_until,
       t.name AS template_name, coalesce(p.name, '') AS parent_name,
       ARRAY(SELECT adapter_id FROM agent_adapter WHERE agent_id = a.id ORDER BY position) AS adapters
FROM unnest(/* organizations */) AS o (id)
CROSS JOIN LATERAL (
    SELECT a.* FROM agent a JOIN agent_state s ON s.agent_id = a.id
    WHERE a.organization_id = o.id AND a.deleted_at IS NULL /* and */
    ORDER BY a.created_at DESC, a.id DESC LIMIT /* rows */
) a
JOIN agent_state s ON s.agent_id = a.id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN agent p ON p.id = a.parent_id
ORDER BY a.created_at DESC, a.id DESC LIMIT $2 OFFSET $3
"""

GET_ORGANIZATION_ID = """
SELECT id, organization_id FROM agent
WHERE id = ANY((SELECT $1::uuid[])::uuid[]) AND deleted_at IS NULL /* and */
"""

# Deleted agents, too: their rows stay for as long as other rows refer to them.
GET_RETAINED = """
SELECT id, organization_id, name, timezone FROM agent
WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

LOCK = "SELECT id FROM agent WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE"

UPDATE = "UPDATE agent SET prompt_author = $2, prompt_changed_at = $3, /* set */ WHERE id = $1"

LOCK_PARENTS = "SELECT pg_advisory_xact_lock($1, $2)"

LIST_ANCESTORS = """
WITH RECURSIVE line (id, distance) AS (
    SELECT parent_id, 1 FROM agent WHERE id = $1
    UNION ALL
    SELECT a.parent_id, line.distance + 1 FROM line JOIN agent a ON a.id = line.id
) CYCLE id SET seen USING path
SELECT id FROM line WHERE id IS NOT NULL AND NOT seen ORDER BY distance
"""

# The lock makes children of one parent, and what their caps take from its own, come one after the other.
LOCK_CAP = """
SELECT coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS cap,
       coalesce((SELECT cost_usd FROM spending WHERE owner_id = a.id AND day = $2), 0) AS spent
FROM agent a LEFT JOIN template t ON t.id = a.template_id
WHERE a.id = $1 AND a.deleted_at IS NULL FOR NO KEY UPDATE OF a
"""

FIND_CHILD = "SELECT id FROM agent WHERE parent_id = $1 AND name = $2 AND deleted_at IS NULL LIMIT 1"

LIST_ADAPTER_VISIBILITY = """
SELECT id, organization_id = $1 OR visibility = 'public' AS visible FROM adapter WHERE id = ANY($2::uuid[])
"""

MARK_DELETED = """
WITH deleted AS (
    UPDATE agent SET deleted_at = $2, email_alias = NULL, parent_id = NULL
    WHERE id = $1 AND deleted_at IS NULL RETURNING id, organization_id, name
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, actor, data)
    SELECT $2, 'agent.deleted', organization_id, id, $3, json_build_object('name', name, 'deleted_with', (
        SELECT coalesce(json_object_agg(kind, rows), '{}') FROM (
            SELECT 'schedule' AS kind, count(*) AS rows FROM schedule WHERE agent_id = $1
            UNION ALL SELECT 'hook', count(*) FROM hook WHERE agent_id = $1
            UNION ALL SELECT 'approval', count(*) FROM parked_call WHERE agent_id = $1 AND ended_at IS NULL
            UNION ALL SELECT 'approval_grant', count(*) FROM approval_grant WHERE agent_id = $1
        ) c WHERE rows > 0
    )) FROM deleted
)
SELECT id FROM deleted
"""

DETACH_CHILDREN = """
WITH detached AS (
    UPDATE agent SET parent_id = NULL WHERE parent_id = $1 RETURNING id, organization_id
)
INSERT INTO event (at, type, organization_id, agent_id, actor, data)
SELECT $2, 'agent.changed', organization_id, id, $3, '{"fields":["parent"]}' FROM detached ORDER BY id
"""

DELETE_STATE = "DELETE FROM agent_state WHERE agent_id = $1"

END_RUN = """
UPDATE run SET ended_at = greatest(started_at, $2), outcome = 'stopped', error = 'deleted'
WHERE agent_id = $1 AND ended_at IS NULL
"""

END_TRACE = """
UPDATE trace SET ended_at = greatest(started_at, $2), error = 'deleted'
WHERE agent_id = $1 AND ended_at IS NULL
"""

# The models whose price matters to a cap of the organization or the template.
LIST_MODELS_OF_ORGANIZATION = """
SELECT DISTINCT model FROM agent WHERE organization_id = $1 AND deleted_at IS NULL ORDER BY model LIMIT $2
"""

LIST_MODELS_OF_TEMPLATE = """
SELECT DISTINCT model FROM agent
WHERE template_id = $1 AND deleted_at IS NULL AND max_cost_usd_per_day IS NULL
  AND unpriced IS DISTINCT FROM 'allow'
ORDER BY model LIMIT $2
"""

COUNT_BY_PROVIDER = """
SELECT split_part(model, '/', 1) AS provider, count(*) FROM agent
WHERE model LIKE '%/%' AND deleted_at IS NULL GROUP BY provider
"""

MAX_MODELS = 1000  # of those in use that a list contains

# Select by the notifications, not by `next_due_at`: a supervisor that is deciding has not stored that yet.
LIST_HOLDING_OF_TEMPLATE = """
SELECT a.id FROM agent a JOIN agent_state s ON s.agent_id = a.id
WHERE a.template_id = $1 AND a.deleted_at IS NULL AND s.status = 'sleeping'
  AND EXISTS (SELECT FROM notification n WHERE n.agent_id = a.id AND n.activated_at IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class RetainedAgent:
    """The part of an agent that stays after its deletion, for the lists of its traces and its usage."""

    organization_id: UUID
    name: str
    timezone: str


Share = Callable[[Decimal, Decimal], Decimal]


@dataclass(frozen=True, slots=True)
class Child:
    """A child as it is stored, and the cap of its parent, which may have given a part of it to the child."""

    agent: Agent
    parent_cap: Decimal | None
    has_webhook: bool = False


class Agents:
    """The tables `agent` and `agent_adapter`; the rows of `agent_state` are created and deleted with them."""

    def __init__(
        self,
        pool: Pool,
        limits: OrganizationLimits | None = None,
        on_webhook_stored: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `on_webhook_stored` after each commit that put a webhook into the outbox."""
        self._pool = pool
        self._limits = limits or OrganizationLimits(pool)
        self._on_webhook_stored = on_webhook_stored
        self.get = SharedReads(
            "agents", pool, GET, partial(from_row, Agent), texts=("a.system_prompt",), documents=("a.tags",)
        )
        self.get_retained = SharedReads(
            "retained agents", pool, GET_RETAINED, partial(from_row, RetainedAgent)
        )
        self.get_organization_id: SharedReads[UUID] = SharedReads(
            "organizations of agents", pool, GET_ORGANIZATION_ID, itemgetter("organization_id")
        )

    async def insert(
        self,
        agent: Agent,
        notice: Notification | None,
        receipt: Receipt | None = None,
        *,
        actor: str = BY_SERVICE,
    ) -> None:
        """Store the agent, the low notification to its parent, and its template's webhook.

        Raise NotUnique if the `email_alias` is taken, AnsweredBefore if the receipt exists already,
        ReferenceMissing for `template`, `parent` or `adapters`, LimitReached if there are too many agents, or
        too many uncleared notifications for another one.
        """
        owner, limits = agent.organization_id, self._limits
        notices = 0 if notice is None else 1
        async with limits.agents.reserved(owner), limits.waiting_notifications.reserved(owner, notices):
            await self._pool.write(
                lambda connection: _insert(connection, agent, notice, receipt, actor),
                f"insert of agent {agent.id}",
                lambda has_webhook: self._on_webhook_stored() if has_webhook else None,
            )

    async def insert_child(
        self, child: Agent, notice: Notification | None, share: Share, *, actor: str
    ) -> Child:
        """Store a new child of an agent, unless the agent has a child of this name: then return that one.

        If the parent has a cap, its own or inherited, `share` returns how much of it becomes the child's: it
        is given the cap, and what is left of it today.
        Raise the errors of `insert` and of `share`.
        """
        owner, limits = child.organization_id, self._limits
        async with limits.agents.reserved(owner), limits.waiting_notifications.reserved(owner):
            return await self._pool.write(
                lambda connection: _insert_child(connection, child, notice, share, actor),
                f"insert of child {child.id}",
                lambda stored: self._on_webhook_stored() if stored.has_webhook else None,
            )

    async def list_rows(self, filters: AgentFilters, page: Page) -> Chunk[Record]:
        """List one page of the agents, newest first, as rows with the columns of `Agent`."""
        return await fetch_rows(self._pool, Agent, PAGE, page_conditions(filters, page))

    async def update(
        self, agent_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Agent | None:
        """Set the columns in `changes`, and `adapters`, and return the agent; None if there is no such agent.

        A prompt that is replaced is kept as a version. Raise the errors of `insert`, ParentCycle if the agent
        would be its own ancestor, ValueError for a column that must not be changed.
        """
        before = await self.get(agent_id) if "system_prompt" in changes else None
        async with self._limits.prompt_reserved(before, changes):
            return await self._pool.write(
                lambda connection: _update(connection, agent_id, changes, now, actor),
                f"update of agent {agent_id}",
            )

    async def tag(
        self,
        agent_id: UUID,
        tags: Sequence[str],
        max_tags: int,
        now: datetime,
        *,
        actor: str = BY_SERVICE,
    ) -> Agent | None:
        """Add the tags that the agent does not have, and return it; None if there is no such agent.

        Raise TooManyTags if it would have more than `max_tags`, or more than MAX_TAGS_BYTES of them.
        """
        changes = await self.tag_many([agent_id], tags, max_tags, now, actor=actor)
        if any(change.is_refused for change in changes):
            raise TooManyTags(f"agent {agent_id} may have at most {max_tags} tags")
        return await self.get(agent_id)

    async def untag(
        self, agent_id: UUID, tags: Sequence[str], now: datetime, *, actor: str = BY_SERVICE
    ) -> Agent | None:
        """Remove the tags from the agent, and return it; None if there is no such agent."""
        await self.untag_many([agent_id], tags, now, actor=actor)
        return await self.get(agent_id)

    async def tag_many(
        self,
        agent_ids: Sequence[UUID],
        tags: Sequence[str],
        max_tags: int,
        now: datetime,
        *,
        actor: str = BY_SERVICE,
    ) -> list[TagChange]:
        """Add to each agent the tags that it does not have; return those that did not have all of them."""
        given = (agent_ids, list(dict.fromkeys(tags)), max_tags, MAX_TAGS_BYTES, now, actor)
        return await self._pool.write(
            lambda connection: fetch_all(connection, TagChange, ADD_TAGS, *given),
            f"tagging of {len(agent_ids)} agents",
        )

    async def untag_many(
        self, agent_ids: Sequence[UUID], tags: Sequence[str], now: datetime, *, actor: str = BY_SERVICE
    ) -> list[TagChange]:
        """Take from each agent the tags that it has; return those that had one of them."""
        return await self._pool.write(
            lambda connection: fetch_all(connection, TagChange, REMOVE_TAGS, agent_ids, tags, now, actor),
            f"untagging of {len(agent_ids)} agents",
        )

    async def delete(self, agent_id: UUID, now: datetime, *, actor: str = BY_SERVICE) -> bool:
        """Delete the agent and end its run; return False if there is no such agent.

        Its row stays because traces refer to it; retention deletes its queue.
        """
        return await self._pool.write(
            lambda connection: _delete(connection, agent_id, now, actor), f"deletion of agent {agent_id}"
        )

    async def get_adapter_visibility(self, organization_id: UUID, ids: Sequence[UUID]) -> dict[UUID, bool]:
        """Return by id whether the organization may see the adapter, without ids that name no adapter."""
        rows = await self._pool.fetch(LIST_ADAPTER_VISIBILITY, organization_id, ids)
        return {row["id"]: row["visible"] for row in rows}

    async def list_holding_of_template(self, template_id: UUID) -> list[UUID]:
        """List the template's sleeping agents that may be holding, which a new debounce window affects."""
        return [row["id"] for row in await self._pool.fetch(LIST_HOLDING_OF_TEMPLATE, template_id)]

    async def list_models_of_organization(self, organization_id: UUID) -> list[str]:
        """List the models that the organization's agents have, at most MAX_MODELS."""
        rows = await self._pool.fetch(LIST_MODELS_OF_ORGANIZATION, organization_id, MAX_MODELS)
        return [row["model"] for row in rows]

    async def count_by_provider(self) -> dict[str, int]:
        """Count the agents by the providers that their models name."""
        return {row["provider"]: row["count"] for row in await self._pool.fetch(COUNT_BY_PROVIDER)}

    async def list_models_of_template(self, template_id: UUID) -> list[str]:
        """List the models of the agents to which the template's cap and its rule about prices apply."""
        rows = await self._pool.fetch(LIST_MODELS_OF_TEMPLATE, template_id, MAX_MODELS)
        return [row["model"] for row in rows]


async def _insert(
    connection: Connection, agent: Agent, notice: Notification | None, receipt: Receipt | None, actor: str
) -> bool:
    """Insert the rows of a new agent; return whether a webhook was stored."""
    next_due_at = agent.sleep_until if agent.status is AgentStatus.SLEEPING else None
    has_webhook = False
    await insert_receipt(connection, receipt, agent.organization_id)
    settings = fields_of(agent, without=(*JOINED, *OF_STATE)) | {"prompt_author": actor}
    await connection.execute(*insert_into("agent", settings))
    state = {name: getattr(agent, name) for name in OF_STATE if name != "paused"}
    owner = {"agent_id": agent.id, "organization_id": agent.organization_id, "next_due_at": next_due_at}
    await connection.execute(*insert_into("agent_state", owner | state))
    if agent.adapters:
        await connection.execute(INSERT_ADAPTERS, agent.id, agent.adapters)
    if agent.template_id is not None:
        has_webhook = await insert_agent_created(connection, agent.id)
    if notice is not None:
        # A low notification: it changes neither the parent's state nor what its supervisor does.
        low = fields_of(notice) | {"priority": Priority.LOW, "activated_at": None}
        await connection.execute(*insert_into("notification", low))
    await insert_events(connection, _creation_events(agent, notice, actor))
    return has_webhook


async def _insert_child(
    connection: Connection,
    child: Agent,
    notice: Notification | None,
    share: Share,
    actor: str,
) -> Child:
    parent_id, today = child.parent_id, child.created_at.astimezone(UTC).date()
    parent = None if parent_id is None else await connection.fetchrow(LOCK_CAP, parent_id, today)
    if parent_id is None or parent is None:
        raise ReferenceMissing("parent")
    cap: Decimal | None = parent["cap"]
    child_id = await connection.fetchval(FIND_CHILD, parent_id, child.name)
    if child_id is not None:
        earlier = await fetch_one(connection, Agent, GET, [child_id])
        return Child(earlier or child, cap)
    if cap is not None:
        part = share(cap, max(cap - parent["spent"], Decimal(0)))
        child, cap = replace(child, max_cost_usd_per_day=part), cap - part
        await _update(connection, parent_id, {"max_cost_usd_per_day": cap}, child.created_at, actor)
    return Child(child, cap, await _insert(connection, child, notice, None, actor))


async def _update(
    connection: Connection, agent_id: UUID, changes: Mapping[str, Any], now: datetime, actor: str
) -> Agent | None:
    columns = {name: value for name, value in changes.items() if name != "adapters"}
    if columns.get("parent_id") is not None:
        await _require_no_cycle(connection, agent_id, columns["parent_id"])
    if await connection.fetchval(LOCK, agent_id) is None:
        return None
    before = await fetch_one(connection, Agent, GET, [agent_id])
    if columns:
        update = assign(UPDATE, columns, Agent, after=3)
        await connection.execute(update, agent_id, actor, now, *columns.values())
    if "adapters" in changes:
        await connection.execute(DELETE_ADAPTERS, agent_id)
        await connection.execute(INSERT_ADAPTERS, agent_id, changes["adapters"])
    after = await fetch_one(connection, Agent, GET, [agent_id])
    await insert_events(connection, _change_events(before, after, changes, now, actor))
    return after


async def _delete(connection: Connection, agent_id: UUID, now: datetime, actor: str) -> bool:
    """Delete the agent and end its run, in this transaction; return False if there is no such agent."""
    if await connection.fetchval(MARK_DELETED, agent_id, now, actor) is None:
        return False
    await connection.execute(DETACH_CHILDREN, agent_id, now, actor)
    # This waits for a start that is being committed, and prevents later ones: END_RUN sees every run.
    await connection.execute(DELETE_STATE, agent_id)
    await connection.execute(END_RUN, agent_id, now)
    await connection.execute(END_TRACE, agent_id, now)
    return True


def _creation_events(agent: Agent, notice: Notification | None, actor: str) -> list[NewEvent]:
    """Return the events of a new agent, and of the notification to its parent."""
    created = NewEvent(EventType.AGENT_CREATED, agent.created_at, agent.id, actor=actor)
    if notice is None:
        return [created]
    data = to_json({"source": notice.source, "priority": Priority.LOW}).decode()
    notified = NewEvent(
        EventType.NOTIFICATION_CREATED,
        notice.created_at,
        notice.agent_id,
        resource_id=notice.id,
        actor=actor,
        data=data,
    )
    return [created, notified]


def _change_events(
    before: Agent | None, after: Agent | None, changes: Mapping[str, Any], now: datetime, actor: str
) -> list[NewEvent]:
    """Return the event that names the changed fields as the API does; none if nothing has changed."""
    changed = {name for name in changes if getattr(before, name) != getattr(after, name)}
    if after is None or not changed:
        return []
    data = to_json({"fields": sorted(name.removesuffix("_id") for name in changed)}).decode()
    return [NewEvent(EventType.AGENT_CHANGED, now, after.id, actor=actor, data=data)]


async def _require_no_cycle(connection: Connection, agent_id: UUID, parent_id: UUID) -> None:
    # One change of a parent at a time: two changes, each of them valid, could make a cycle together.
    await connection.execute(LOCK_PARENTS, *PARENTS)
    ancestors = await connection.fetch(LIST_ANCESTORS, parent_id)
    if agent_id in {parent_id, *(row["id"] for row in ancestors)}:
        raise ParentCycle(f"agent {agent_id} would be its own ancestor")
