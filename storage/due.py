"""When the chores have something to do: one statement for all kinds, most of which have no rows."""

from datetime import datetime

from storage.postgres.pool import Pool

MAX_BEHIND = 1_000  # events that are not audited, before the position of the audit log passes them

# For audited events the moment is the epoch: they are due since they were written. Where nothing is audited,
# the position follows from time to time, so that this looks at few events.
GET_NEXT_DUE = """
SELECT CASE WHEN paused_at IS NULL THEN (
           SELECT min(due_at) FROM schedule WHERE due_at IS NOT NULL AND watch IS NULL
       ) END AS schedules,
       CASE WHEN paused_at IS NULL THEN (
           SELECT min(due_at) FROM schedule WHERE due_at IS NOT NULL AND watch IS NOT NULL
       ) END AS checks,
       CASE WHEN paused_at IS NULL THEN (
           SELECT min(due_at) FROM parked_call WHERE due_at IS NOT NULL
       ) END AS parked_calls,
       (SELECT min(refresh_at) FROM mcp_server) AS mcp_servers,
       CASE WHEN (SELECT max(id) FROM event) > chained_event_id + $1
              OR EXISTS (SELECT FROM event WHERE id > chained_event_id AND is_audited(type))
            THEN to_timestamp(0) END AS audit
FROM instance
"""


class DueMoments:
    """When the first row of each kind is due."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get_next(self) -> dict[str, datetime | None]:
        """Return the moment of each kind; None if nothing is armed, or the instance is paused."""
        [row] = await self._pool.fetch(GET_NEXT_DUE, MAX_BEHIND)
        return dict(row)
