"""Changes of single tags of an agent, each with its event if it changes anything."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from storage.errors import TooManyTags
from storage.postgres.pool import Pool

# One statement, so that it starts from the tags as the previous change left them: the row is locked first.
# The event is written if that changes them.
ADD_TAGS = """
WITH locked AS (
    SELECT id, tags FROM agent WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE
), extended AS MATERIALIZED (
    SELECT id, tags AS tags_before, ARRAY(
        SELECT tag FROM unnest(tags || $2::text[]) WITH ORDINALITY AS t (tag, position)
        GROUP BY tag ORDER BY min(position)) AS tags
    FROM locked
), updated AS (
    UPDATE agent SET tags = extended.tags FROM extended
    WHERE agent.id = extended.id AND cardinality(extended.tags) <= $3
      AND octet_length(to_json(extended.tags)::text) <= $4
    RETURNING agent.id, agent.organization_id, agent.tags <> extended.tags_before AS is_changed
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, actor, data)
    SELECT $5, 'agent.changed', organization_id, id, $6, '{"fields":["tags"]}' FROM updated WHERE is_changed
)
SELECT cardinality(tags) > $3 OR octet_length(to_json(tags)::text) > $4 FROM extended
"""

REMOVE_TAGS = """
WITH locked AS MATERIALIZED (
    SELECT id, tags FROM agent WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE
), updated AS (
    UPDATE agent SET tags = ARRAY(
        SELECT tag FROM unnest(locked.tags) WITH ORDINALITY AS t (tag, position)
        WHERE tag <> ALL ($2::text[]) ORDER BY position)
    FROM locked WHERE agent.id = locked.id AND locked.tags && $2::text[]
    RETURNING agent.id, agent.organization_id
)
INSERT INTO event (at, type, organization_id, agent_id, actor, data)
SELECT $3, 'agent.changed', organization_id, id, $4, '{"fields":["tags"]}' FROM updated
"""

MAX_TAGS_BYTES = 262_144  # of all tags of an agent together, as JSON


async def add_tags(
    pool: Pool, agent_id: UUID, tags: Sequence[str], max_tags: int, now: datetime, actor: str
) -> None:
    """Add the tags that the agent does not have.

    Raise TooManyTags if it would have more than `max_tags`, or more than MAX_TAGS_BYTES of them.
    """
    if await pool.fetchval(ADD_TAGS, agent_id, tags, max_tags, MAX_TAGS_BYTES, now, actor):
        raise TooManyTags(f"agent {agent_id} may have at most {max_tags} tags")


async def remove_tags(pool: Pool, agent_id: UUID, tags: Sequence[str], now: datetime, actor: str) -> None:
    """Remove the tags from the agent."""
    await pool.execute(REMOVE_TAGS, agent_id, tags, now, actor)
