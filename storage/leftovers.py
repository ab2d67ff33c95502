"""What deleted agents leave behind, and how it goes: in batches, so that nobody waits for it."""

from storage.pool import Pool

PURGE_NOTIFICATIONS = """
WITH gone AS (
    DELETE FROM notification WHERE id IN (
        SELECT r.id FROM agent a JOIN notification r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

PURGE_RUNS = """
WITH gone AS (
    DELETE FROM run WHERE id IN (
        SELECT r.id FROM agent a JOIN run r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

PURGE_MESSAGES = """
WITH gone AS (
    DELETE FROM message WHERE id IN (
        SELECT r.id FROM agent a JOIN message r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

PURGE_CONTACTS = """
WITH gone AS (
    DELETE FROM contact WHERE id IN (
        SELECT r.id FROM agent a JOIN contact r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

PURGE_DOCUMENTS = """
WITH gone AS (
    DELETE FROM document WHERE id IN (
        SELECT r.id FROM agent a JOIN document r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

PURGE_PROJECTS = """
WITH gone AS (
    DELETE FROM project WHERE id IN (
        SELECT r.id FROM agent a JOIN project r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

PURGES = (
    PURGE_NOTIFICATIONS,
    PURGE_RUNS,
    PURGE_MESSAGES,
    PURGE_CONTACTS,
    PURGE_DOCUMENTS,
    PURGE_PROJECTS,
)


async def purge_deleted(pool: Pool, most: int) -> int:
    """Delete up to `most` rows that belong to deleted agents; how many went."""
    gone = 0
    for purge in PURGES:
        if gone < most:
            gone += await pool.fetchval(purge, most - gone)
    return gone
