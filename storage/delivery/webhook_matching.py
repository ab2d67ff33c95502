"""The matching of events with webhooks: it stores a delivery for each event that a webhook asks for."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Pool

MAX_EVENTS = 200  # that one statement compares with each webhook
MAX_PENDING = 1000  # deliveries of one webhook; its further events wait in the log

LIST_ORGANIZATIONS = "SELECT DISTINCT organization_id FROM webhook WHERE is_active"

# Store the deliveries together with the position of their webhook, so that no crash loses or repeats one.
# Write the position only if that saves reading many events again. Compare an event about an agent with the
# tags and the template that the agent has now. Leave out a given-up delivery that was itself about webhooks:
# two receivers that are gone would otherwise create deliveries for each other without end.
MATCH = """
WITH subscription AS (
    SELECT * FROM webhook WHERE organization_id = $1 AND is_active AND position < $2
    ORDER BY id FOR NO KEY UPDATE
), measured AS (
    SELECT s.*, $4 > (
        SELECT count(*) FROM (
            SELECT FROM webhook_delivery d
            WHERE d.webhook_id = s.id AND d.next_attempt_at IS NOT NULL LIMIT $4
        ) pending) AS has_room
    FROM subscription s
), page AS (
    SELECT m.id AS webhook_id, m.url, m.types, m.agent_id AS only_agent, m.template_id AS only_template,
           m.tag, e.id, e.at, e.type, e.organization_id, e.agent_id, e.run_id, e.resource_id, e.actor, e.data
    FROM measured m
    CROSS JOIN LATERAL (
        SELECT * FROM event e WHERE e.organization_id = m.organization_id AND e.id > m.position AND e.id <= $2
        ORDER BY e.id LIMIT $3
    ) e
    WHERE m.has_room
), matched AS (
    SELECT p.* FROM page p LEFT JOIN agent a ON a.id = p.agent_id
    WHERE p.types && ARRAY[p.type, split_part(p.type, '.', 1) || '.*', '*']
        AND (p.type LIKE 'organization.%' OR (
            (p.only_agent IS NULL OR p.only_agent = p.agent_id)
            AND (p.only_template IS NULL OR p.only_template = a.template_id)
            AND (p.tag = '' OR p.tag = ANY (a.tags))))
        AND (p.type <> 'webhook.given_up' OR coalesce(p.data ->> 'type', '') NOT LIKE 'webhook.%')
), inserted AS (
    INSERT INTO webhook_delivery (
        id, organization_id, agent_id, webhook_id, url, payload, created_at, next_attempt_at)
    SELECT gen_random_uuid(), m.organization_id, m.agent_id, m.webhook_id, m.url,
           json_build_object('type', m.type, 'timestamp', at.text, 'data', json_build_object(
               'id', m.id, 'type', m.type, 'at', at.text, 'organization', m.organization_id,
               'agent', m.agent_id, 'run', m.run_id, 'resource_id', m.resource_id,
               'by', json_build_object(
                   'type', coalesce(nullif(split_part(m.actor, ':', 1), ''), 'service'),
                   'id', nullif(split_part(m.actor, ':', 2), '')),
               'data', m.data)),
           m.at, least(m.at, $5::timestamptz)
    FROM matched m
    CROSS JOIN LATERAL (
        SELECT to_char(m.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS text) AS at
    RETURNING webhook_id
), compared AS (
    SELECT webhook_id, count(*) = $3 AS has_more, max(id) AS last FROM page GROUP BY webhook_id
), moved AS (
    UPDATE webhook w SET position = CASE WHEN c.has_more THEN c.last ELSE $2 END
    FROM compared c
    WHERE w.id = c.webhook_id AND (c.has_more OR w.id IN (SELECT webhook_id FROM inserted))
)
SELECT (SELECT count(*) FROM inserted) AS stored,
       (SELECT coalesce(bool_or(has_more), false) FROM compared) AS has_more,
       (SELECT coalesce(bool_or(NOT has_room), false) FROM measured) AS is_held
"""


@dataclass(frozen=True, slots=True)
class Matched:
    """The result of one statement: the number of new deliveries, and what is left to do.

    `has_more`: further events can be matched at once. `is_held`: a webhook has too many pending deliveries.
    """

    stored: int
    has_more: bool
    is_held: bool


class WebhookMatching:
    """Matches events with webhooks; sets `stored` when there are new deliveries.

    `changed` is set by those who change webhooks.
    """

    def __init__(self, pool: Pool, *, stored: asyncio.Event, changed: asyncio.Event) -> None:
        self.changed = changed
        self._pool = pool
        self._stored = stored

    async def list_organizations(self) -> Collection[UUID]:
        """Return the organizations that have an active webhook."""
        rows = await self._pool.fetch(LIST_ORGANIZATIONS)
        return {row["organization_id"] for row in rows}

    async def match(self, organization_id: UUID, until: int, now: datetime) -> Matched:
        """Store deliveries for the organization's next events up to the id `until`, each exactly once."""
        [row] = await self._pool.fetch(MATCH, organization_id, until, MAX_EVENTS, MAX_PENDING, now)
        matched = Matched(**dict(row))
        if matched.stored:
            self._stored.set()
        return matched
