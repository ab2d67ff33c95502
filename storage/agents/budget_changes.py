"""Agents whose budgets have changed without them: a cap was changed, or others have spent what was left."""

from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Pool

# Agents that wait for the renewal of a budget, or that the event log has as over budget, although their
# budgets are not used up (any more).
LIST_WITHIN_BUDGET = """
SELECT s.agent_id FROM agent_state s
JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN spending of_agent
    ON of_agent.owner_id = a.id AND of_agent.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
LEFT JOIN spending of_organization
    ON of_organization.owner_id = o.id AND of_organization.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
WHERE s.agent_id > $3
  AND (s.phase = 'over_budget'
       OR s.next_due_at = $2
          AND (least(s.sleep_until, s.retry_at, s.run_requested_at) < $2
               OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at < $2)))
  AND coalesce(of_agent.cost_usd, 0)
      < coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day, 'infinity')
  AND coalesce(of_organization.cost_usd, 0) < coalesce(o.max_cost_usd_per_day, 'infinity')
ORDER BY s.agent_id LIMIT $4
"""

# Resting agents of organizations over their budgets that the event log does not have as over budget.
LIST_NEWLY_OVER_BUDGET = """
SELECT s.agent_id FROM organization o
LEFT JOIN spending ON spending.owner_id = o.id AND spending.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
JOIN agent a ON a.organization_id = o.id AND a.deleted_at IS NULL
JOIN agent_state s ON s.agent_id = a.id
WHERE coalesce(spending.cost_usd, 0) >= o.max_cost_usd_per_day
  AND s.agent_id > $2 AND s.status = 'sleeping' AND s.phase NOT IN ('over_budget', 'quarantined')
ORDER BY s.agent_id LIMIT $3
"""


async def list_within_budget(
    pool: Pool, now: datetime, renewed_at: datetime, after: UUID, limit: int
) -> list[UUID]:
    """List agents that wait for the renewal, at `renewed_at`, within their budgets, by id."""
    rows = await pool.fetch(LIST_WITHIN_BUDGET, now, renewed_at, after, limit)
    return [row["agent_id"] for row in rows]


async def list_newly_over_budget(pool: Pool, now: datetime, after: UUID, limit: int) -> list[UUID]:
    """List resting agents whose organization's budget was spent without them, by id."""
    rows = await pool.fetch(LIST_NEWLY_OVER_BUDGET, now, after, limit)
    return [row["agent_id"] for row in rows]
