"""Actions on many agents: which agents an action concerns, which of them it would change, and their tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import LiteralString
from uuid import UUID

from storage.agents.filters import AgentFilters, add_filters
from storage.postgres.pool import Pool
from storage.postgres.query import Conditions, fill_in
from storage.postgres.statement import fetch_all


class AgentAction(StrEnum):
    """Something that people do to many agents at once."""

    PAUSE = "pause"
    """Stop the run of each agent, and hold every start until `resume`."""
    RESUME = "resume"
    """End the pause of each agent; whatever has fallen due wakes it."""
    STOP = "stop"
    """End the run of each agent, and cancel what is about to start one. It has no inverse."""
    ARCHIVE = "archive"
    """Archive each agent, so that nothing wakes it."""
    RESTORE = "restore"
    """Restore each agent that is archived; an active notification wakes it at once."""
    CLEAR = "clear"
    """Clear the active notifications of each agent: high, uncleared and due."""
    UNCLEAR = "unclear"
    """Put the given notifications back into the queues; one that is high becomes active now."""
    TAG = "tag"
    """Add tags to each agent."""
    UNTAG = "untag"
    """Take tags from each agent."""


ACTIVE: LiteralString = """EXISTS (
    SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at IS NOT NULL
      AND (n.activated_at <= $ OR n.scheduled_for IS DISTINCT FROM n.activated_at))"""

# The agents for which a stop would have an effect. The phase of an agent that is paused or over its budget
# does not say whether a start is held, nor that of one that has just been notified and is about to hold.
STOPPABLE: LiteralString = """(
    s.run_id IS NOT NULL AND s.phase <> 'stopping'
    OR coalesce(s.queued_at, s.run_requested_at, s.retry_at) IS NOT NULL
    OR s.phase IN ('holding', 'backing_off', 'quarantined', 'held_by_limits')
    OR s.phase IN ('asleep', 'paused', 'over_budget') AND EXISTS (
        SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at <= $
          AND (s.stopped_at IS NULL OR n.activated_at > greatest(s.stopped_at, s.seen_until)))
)"""

CHANGES: dict[AgentAction, LiteralString] = {
    AgentAction.PAUSE: "NOT s.paused",
    AgentAction.RESUME: "s.paused",
    AgentAction.STOP: STOPPABLE,
    AgentAction.ARCHIVE: "s.status <> 'archived'",
    AgentAction.RESTORE: "s.status = 'archived'",
    AgentAction.CLEAR: ACTIVE,
    AgentAction.TAG: "NOT a.tags @> $::text[]",
    AgentAction.UNTAG: "a.tags && $::text[]",
}

# Read a part of each organization along its index, then take the newest of all.
LIST_MATCHING: LiteralString = """
SELECT a.* FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT a.id, a.created_at, /* changes */ AS changes FROM agent a JOIN agent_state s ON s.agent_id = a.id
    WHERE a.organization_id = o.id AND a.deleted_at IS NULL /* and */
    ORDER BY a.created_at DESC, a.id DESC LIMIT $2
) a
ORDER BY a.created_at DESC, a.id DESC LIMIT $2
"""

LIST_GIVEN: LiteralString = """
SELECT a.id, a.created_at, /* changes */ AS changes FROM agent a JOIN agent_state s ON s.agent_id = a.id
WHERE a.id = ANY($3::uuid[]) AND a.organization_id = ANY($1::uuid[]) AND a.deleted_at IS NULL /* and */
ORDER BY a.created_at DESC, a.id DESC LIMIT $2
"""

COUNT_MATCHING: LiteralString = """
SELECT count(*) AS matched, count(*) FILTER (WHERE changes) AS changed FROM (
    SELECT /* changes */ AS changes FROM agent a JOIN agent_state s ON s.agent_id = a.id
    WHERE a.organization_id = ANY($1::uuid[]) AND a.deleted_at IS NULL /* and */
    LIMIT $2
) a
"""

LIST_OWNERS = "SELECT id, organization_id FROM agent WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL"

# Deleted agents, too: the place of one in the list stays known for as long as its row does.
GET_CREATION = "SELECT created_at FROM agent WHERE id = $1 AND organization_id = ANY($2::uuid[])"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent that an action concerns, and whether the action would change it."""

    id: UUID
    created_at: datetime
    changes: bool


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """How many agents an action concerns, and how many of them it would change."""

    matched: int
    changed: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The agents of an action: those with the `ids`, else those that the filters show.

    `tags` are those of the action. `begin`: the place of the first agent, None for the newest.
    """

    filters: AgentFilters
    action: AgentAction
    now: datetime
    ids: tuple[UUID, ...] | None = None
    tags: tuple[str, ...] = ()
    begin: tuple[datetime, UUID] | None = None


class AgentSelections:
    """Reads the agents that actions concern, newest first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_candidates(self, selection: Selection, limit: int) -> list[Candidate]:
        """List the agents of the selection, at most `limit`."""
        conditions = _conditions(selection, limit)
        if selection.begin is not None:
            conditions.add("(a.created_at, a.id) <= ($, $)", *selection.begin)
        statement = LIST_MATCHING if selection.ids is None else LIST_GIVEN
        sql, parameters = _with_changes(statement, conditions, selection)
        return await fetch_all(self._pool, Candidate, sql, *parameters)

    async def count(self, selection: Selection, limit: int) -> ActionCounts:
        """Count the agents that match the filters, up to `limit`, and those that the action would change."""
        sql, parameters = _with_changes(COUNT_MATCHING, _conditions(selection, limit), selection)
        [counts] = await fetch_all(self._pool, ActionCounts, sql, *parameters)
        return counts

    async def list_owners(self, agent_ids: Sequence[UUID]) -> dict[UUID, UUID]:
        """Return the organizations by agent, without agents that do not exist."""
        rows = await self._pool.fetch(LIST_OWNERS, agent_ids)
        return {row["id"]: row["organization_id"] for row in rows}

    async def get_creation(self, agent_id: UUID, organization_ids: Sequence[UUID]) -> datetime | None:
        """Return when an agent of these organizations was created; None if nothing is known of it."""
        created_at: datetime | None = await self._pool.fetchval(GET_CREATION, agent_id, organization_ids)
        return created_at


def _conditions(selection: Selection, limit: int) -> Conditions:
    filters = selection.filters
    if selection.ids is not None:
        return Conditions(filters.organization_ids, limit, selection.ids)
    conditions = Conditions(filters.organization_ids, limit)
    add_filters(conditions, filters)
    return conditions


def _with_changes(
    statement: LiteralString, conditions: Conditions, selection: Selection
) -> tuple[str, list[object]]:
    """Return the statement with its conditions and that of the action, and its parameters."""
    changes, parameters = CHANGES[selection.action], list(conditions.parameters)
    if "$" in changes:
        is_about_tags = selection.action in {AgentAction.TAG, AgentAction.UNTAG}
        parameters.append(selection.tags if is_about_tags else selection.now)
        changes = changes.replace("$", f"${len(parameters)}")
    return fill_in(conditions.into(statement), "/* changes */", changes), parameters


# Locked in id order, so that two callers that change the same agents cannot deadlock. The lock returns the
# newest version of each row. `tags`: those of $2 that were added; none were if they are too many.
ADD_TAGS = """
WITH locked AS MATERIALIZED (
    SELECT id, tags FROM agent WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL
    ORDER BY id FOR NO KEY UPDATE
), extended AS MATERIALIZED (
    SELECT locked.id, locked.tags || missing.tags AS tags, missing.tags AS added
    FROM locked CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT tag FROM unnest($2::text[]) WITH ORDINALITY AS t (tag, position)
                     WHERE tag <> ALL (locked.tags) ORDER BY position) AS tags
    ) missing
    WHERE cardinality(missing.tags) > 0
), updated AS (
    UPDATE agent SET tags = extended.tags FROM extended
    WHERE agent.id = extended.id AND cardinality(extended.tags) <= $3
      AND octet_length(to_json(extended.tags)::text) <= $4
    RETURNING agent.id, agent.organization_id
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, actor, data)
    SELECT $5, 'agent.changed', organization_id, id, $6, '{"fields":["tags"]}' FROM updated ORDER BY id
)
SELECT extended.id, extended.added AS tags, updated.id IS NULL AS is_refused
FROM extended LEFT JOIN updated USING (id)
"""

REMOVE_TAGS = """
WITH locked AS MATERIALIZED (
    SELECT id, tags FROM agent WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL
    ORDER BY id FOR NO KEY UPDATE
), updated AS (
    UPDATE agent SET tags = ARRAY(
        SELECT tag FROM unnest(locked.tags) WITH ORDINALITY AS t (tag, position)
        WHERE tag <> ALL ($2::text[]) ORDER BY position)
    FROM locked WHERE agent.id = locked.id AND locked.tags && $2::text[]
    RETURNING agent.id, agent.organization_id, locked.tags AS tags_before
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, actor, data)
    SELECT $3, 'agent.changed', organization_id, id, $4, '{"fields":["tags"]}' FROM updated ORDER BY id
)
SELECT id, ARRAY(SELECT tag FROM unnest($2::text[]) WITH ORDINALITY AS t (tag, position)
                 WHERE tag = ANY (tags_before) ORDER BY position) AS tags, false AS is_refused
FROM updated
"""

MAX_TAGS_BYTES = 262_144  # of all tags of an agent together, as JSON


@dataclass(frozen=True, slots=True)
class TagChange:
    """The tags that an agent got or lost, or would have got if they were not too many."""

    id: UUID
    tags: tuple[str, ...]
    is_refused: bool
