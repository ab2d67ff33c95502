"""The resources that events are about, read together for several events."""

from collections.abc import Collection
from uuid import UUID

from storage.channels.messages import Message, message_of
from storage.delivery.outbox import WebhookDelivery
from storage.model import Notification, Run
from storage.postgres.pool import Pool
from storage.postgres.statement import fetch_all

LIST_RUNS = """
SELECT r.*, cardinality(r.notifications) + r.notifications_left_out AS notification_count
FROM run r JOIN agent a ON a.id = r.agent_id AND a.deleted_at IS NULL WHERE r.id = ANY($1::uuid[])
"""

LIST_NOTIFICATIONS = """
SELECT n.* FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
WHERE n.id = ANY($1::uuid[])
"""

LIST_MESSAGES = """
SELECT m.* FROM message m JOIN agent a ON a.id = m.agent_id AND a.deleted_at IS NULL
WHERE m.id = ANY($1::uuid[])
"""

LIST_DELIVERIES = "SELECT *, payload ->> 'type' AS type FROM webhook_delivery WHERE id = ANY($1::uuid[])"

LIST_TAGS = "SELECT id, tags FROM agent WHERE id = ANY($1::uuid[])"


class EventResources:
    """Reads resources of one kind by their ids, in any order; those that do not exist are left out.

    The caller bounds the number of ids: each resource may be as long as a request body.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_runs(self, ids: Collection[UUID]) -> list[Run]:
        return await fetch_all(self._pool, Run, LIST_RUNS, ids)

    async def list_notifications(self, ids: Collection[UUID]) -> list[Notification]:
        return await fetch_all(self._pool, Notification, LIST_NOTIFICATIONS, ids)

    async def list_messages(self, ids: Collection[UUID]) -> list[Message]:
        return [message_of(row) for row in await self._pool.fetch(LIST_MESSAGES, ids)]

    async def list_deliveries(self, ids: Collection[UUID]) -> list[WebhookDelivery]:
        return await fetch_all(self._pool, WebhookDelivery, LIST_DELIVERIES, ids)

    async def list_tags(self, agent_ids: Collection[UUID]) -> dict[UUID, frozenset[str]]:
        """Return the tags of the agents by id, also of those that have been deleted."""
        rows = await self._pool.fetch(LIST_TAGS, agent_ids)
        return {row["id"]: frozenset(row["tags"]) for row in rows}
