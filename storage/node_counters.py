"""Counters of all nodes that there have been, for sums that never fall."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Pool

PUBLISH = "UPDATE node SET counters = $3 WHERE id = $1 AND life = $2"

SUM = """
SELECT series, sum(value::numeric) AS total
FROM node CROSS JOIN json_each_text(counters) AS counter (series, value) GROUP BY series
"""

# The locks keep two nodes from doing it at once. Ended nodes change nothing any more.
MERGE_ENDED = """
WITH ended AS (
    SELECT id, counters FROM node WHERE state = 'dead' AND ended_at < $1 AND counters::text <> '{}'
    ORDER BY id FOR UPDATE
), merged AS (
    SELECT json_object_agg(series, total) AS counters FROM (
        SELECT series, sum(value::numeric) AS total
        FROM ended CROSS JOIN json_each_text(counters) AS counter (series, value) GROUP BY series
    ) sums
)
UPDATE node SET counters = CASE WHEN node.id = (SELECT min(id) FROM ended) THEN merged.counters ELSE '{}' END
FROM merged WHERE node.id IN (SELECT id FROM ended) AND (SELECT count(*) FROM ended) > 1
"""


class NodeCounters:
    """The column `counters` of the table `node`: whole millionths by series.

    Whole numbers, because sums of fractions depend on their order, and may fall by the last digit.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def publish(self, node_id: int, life: UUID, counters: Mapping[str, int]) -> None:
        """Store what a node has counted so far."""
        await self._pool.execute(PUBLISH, node_id, life, counters)

    async def sum(self) -> dict[str, int]:
        """Return the sums over all nodes, those that have ended included."""
        return {row["series"]: int(row["total"]) for row in await self._pool.fetch(SUM)}

    async def merge_ended(self, before: datetime) -> None:
        """Keep the counters of nodes that have ended before this moment in one row, that of the oldest."""
        await self._pool.execute(MERGE_ENDED, before)
