"""The requested part of a list, and the rows of it that are read at once.

Lists are newest first. With a cursor a deep page costs as much as the first one; rows skipped by an offset
are read and discarded.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar
from uuid import UUID

Item = TypeVar("Item")

Cursor = tuple[datetime, UUID]
"""The (created_at or started_at, id) of the last item seen."""

CHUNK_BYTES = 262_144  # of rows that are read at once; a single row may be longer
ROW_BYTES = 500  # counted for the short columns of a row: about what they take as JSON, with their names


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` items after the cursor, once `offset` of them have been skipped.

    Only as many of them are read as fit `max_bytes`, but at least one. No item follows the one at `until`.
    """

    after: Cursor | None = None
    limit: int = 1000
    offset: int = 0
    max_bytes: int = CHUNK_BYTES
    until: Cursor | None = None

    def with_next(self) -> "Page":
        """Return the page with one more item, which only tells whether the list goes on."""
        return replace(self, limit=self.limit + 1)


class Chunk(list[Item]):
    """The first items of a page, as many as fit its `max_bytes`."""

    __slots__ = ("is_cut",)

    def __init__(self, items: list[Item], *, is_cut: bool) -> None:
        """Set `is_cut` if the page contains more items after these."""
        super().__init__(items)
        self.is_cut = is_cut
