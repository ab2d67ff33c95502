"""Webhooks on their way: stored in the transaction of what they tell of, so that none can be lost."""

from dataclasses import dataclass
from uuid import UUID

from storage.ids import new_id
from storage.pool import Connection, Pool

# If the agent's template names a webhook. No secret and no prompt is in it.
ENQUEUE_CREATED = """
INSERT INTO webhook_delivery (id, organization_id, agent_id, template_id, url, payload, created_at)
SELECT $1, a.organization_id, a.id, t.id, t.agent_created_webhook_url,
       json_build_object('type', 'agent.created', 'timestamp', at.text, 'data', json_build_object(
           'agent', a.id, 'template', t.id, 'organization', a.organization_id, 'name', a.name,
           'tags', a.tags, 'purpose', a.purpose, 'created_at', at.text)),
       a.created_at
FROM agent a
JOIN template t ON t.id = a.template_id
CROSS JOIN LATERAL (
    SELECT to_char(a.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text) AS at
WHERE a.id = $2 AND t.agent_created_webhook_url <> ''
"""

COUNT = """
SELECT count(*) FILTER (WHERE failed_at IS NULL) AS pending, count(failed_at) AS failed
FROM webhook_delivery WHERE delivered_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class OutboxSize:
    """How many webhooks are yet to be delivered, and how many were given up."""

    pending: int
    failed: int


class Outbox:
    """The table `webhook_delivery`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.last_size = OutboxSize(0, 0)

    async def measure(self) -> None:
        """See how much is in it: for a duty, as what is shown must not wait for the database."""
        [row] = await self._pool.fetch(COUNT)
        self.last_size = OutboxSize(**dict(row))


async def enqueue_created(connection: Connection, agent_id: UUID) -> None:
    """Tell of a new agent, in the transaction that makes it."""
    await connection.execute(ENQUEUE_CREATED, new_id(), agent_id)
