"""The deletion of an agent. Its row stays for as long as other rows refer to it."""

from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Connection

MARK_DELETED = """
WITH deleted AS (
    UPDATE agent SET deleted_at = $2, email_alias = NULL, parent_id = NULL
    WHERE id = $1 AND deleted_at IS NULL RETURNING id, organization_id
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, actor)
    SELECT $2, 'agent.deleted', organization_id, id, $3 FROM deleted
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


async def delete_agent(connection: Connection, agent_id: UUID, now: datetime, actor: str) -> bool:
    """Delete the agent and end its run, in this transaction; return False if there is no such agent."""
    if await connection.fetchval(MARK_DELETED, agent_id, now, actor) is None:
        return False
    await connection.execute(DETACH_CHILDREN, agent_id, now, actor)
    # This waits for a start that is being committed, and prevents later ones: END_RUN sees every run.
    await connection.execute(DELETE_STATE, agent_id)
    await connection.execute(END_RUN, agent_id, now)
    await connection.execute(END_TRACE, agent_id, now)
    return True
