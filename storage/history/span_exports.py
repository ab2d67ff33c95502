"""How far the export of spans has come."""

from collections import Counter

from storage.postgres.pool import Pool

GET_POSITION = "SELECT position FROM span_export"

# A node that no longer does the chores may still be at it.
SET_POSITION = """
INSERT INTO span_export AS export (position) VALUES ($1)
ON CONFLICT (is_only) DO UPDATE SET position = greatest(export.position, excluded.position)
"""


class SpanExports:
    """The table `span_export`; `counts` has spans sent and refused, runs skipped, and attempts failed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.counts = Counter[str](sent=0, refused=0, skipped=0, failed=0)  # of this process

    async def get_position(self) -> int | None:
        """Return the id of the last event that is done with; None before the first export."""
        position: int | None = await self._pool.fetchval(GET_POSITION)
        return position

    async def set_position(self, position: int) -> None:
        await self._pool.execute(SET_POSITION, position)
