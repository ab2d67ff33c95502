"""Tags of agents, those of many changed by one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Connection
from storage.postgres.rows import fetch_all

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


async def add_tags(
    connection: Connection,
    agent_ids: Sequence[UUID],
    tags: Sequence[str],
    max_tags: int,
    now: datetime,
    actor: str,
) -> list[TagChange]:
    """Add to each agent the tags that it does not have. Return the agents that did not have all of them."""
    different = list(dict.fromkeys(tags))
    return await fetch_all(
        connection, TagChange, ADD_TAGS, agent_ids, different, max_tags, MAX_TAGS_BYTES, now, actor
    )


async def remove_tags(
    connection: Connection, agent_ids: Sequence[UUID], tags: Sequence[str], now: datetime, actor: str
) -> list[TagChange]:
    """Take from each agent the tags that it has. Return the agents that had one of them."""
    return await fetch_all(connection, TagChange, REMOVE_TAGS, agent_ids, tags, now, actor)
