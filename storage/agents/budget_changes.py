"""Agents whose budgets have changed without them: a cap was changed, or others have spent what was left."""

from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Pool

# Agents that wait for the renewal of a budget, or that the event log has as over budget, although their
# budgets are not used up (any more).
LIST_WITHIN_BUDGET = """
SELECT a.id AS agent_id FROM (
    SELECT agent_id FROM agent_state WHERE phase = 'over_budget'
    UNION
    SELECT s.agent_id FROM agent_state s
    WHERE s.next_due_at = $2
      AND (least(s.sleep_until, s.retry_at, s.run_requested_at) < $2
           OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at < $2))
) s
JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN spending of_agent
    ON of_agent.owner_id = a.id AND of_agent.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
LEFT JOIN spending of_organization
    ON of_organization.owner_id = o.id AND of_organization.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
WHERE a.id > $3
  AND coalesce(of_agent.cost_usd, 0)
      < coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day, 'infinity')
  AND coalesce(of_organization.cost_usd, 0) < coalesce(o.max_cost_usd_per_day, 'infinity')
ORDER BY a.id LIMIT $4
"""

# Resting agents over a budget that the event log does not have as over budget: their own, their template's or
# their organization's. A cap of 0 is reached by agents that have spent nothing. OFFSET 0 makes the planner
# begin with the organizations and templates, which are few, and read the states of these agents only.
LIST_NEWLY_OVER_BUDGET = """
SELECT s.agent_id FROM (
    SELECT a.id FROM organization o
    LEFT JOIN spending
        ON spending.owner_id = o.id AND spending.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
    CROSS JOIN LATERAL (
        SELECT id FROM agent WHERE organization_id = o.id AND id > $2 AND deleted_at IS NULL OFFSET 0
    ) a
    WHERE coalesce(spending.cost_usd, 0) >= o.max_cost_usd_per_day
    UNION
    SELECT a.id FROM spending
    JOIN agent a ON a.id = spending.owner_id
    LEFT JOIN template t ON t.id = a.template_id
    WHERE spending.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
      AND spending.cost_usd >= coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day)
      AND a.id > $2 AND a.deleted_at IS NULL
    UNION
    SELECT id FROM agent WHERE max_cost_usd_per_day = 0 AND id > $2 AND deleted_at IS NULL
    UNION
    SELECT a.id FROM template t
    CROSS JOIN LATERAL (
        SELECT id FROM agent
        WHERE template_id = t.id AND max_cost_usd_per_day IS NULL AND id > $2 AND deleted_at IS NULL
        OFFSET 0
    ) a
    WHERE t.max_cost_usd_per_day = 0
) a
CROSS JOIN LATERAL (SELECT * FROM agent_state WHERE agent_id = a.id OFFSET 0) s
WHERE s.status = 'sleeping' AND NOT s.paused
  AND s.phase NOT IN ('over_budget', 'quarantined')
ORDER BY s.agent_id LIMIT $3
"""


async def list_within_budget(
    pool: Pool, now: datetime, renewed_at: datetime, after: UUID, limit: int
) -> list[UUID]:
    """List agents that wait for the renewal, at `renewed_at`, within their budgets, by id."""
    rows = await pool.fetch(LIST_WITHIN_BUDGET, now, renewed_at, after, limit)
    return [row["agent_id"] for row in rows]


async def list_newly_over_budget(pool: Pool, now: datetime, after: UUID, limit: int) -> list[UUID]:
    """List resting agents that are over a budget, but not so in the event log, by id."""
    rows = await pool.fetch(LIST_NEWLY_OVER_BUDGET, now, after, limit)
    return [row["agent_id"] for row in rows]
