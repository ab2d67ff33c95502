"""The requested part of a list.

Lists are newest first. With a cursor a deep page costs as much as the first one; rows skipped by an offset
are read and discarded.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

Cursor = tuple[datetime, UUID]
"""The (created_at or started_at, id) of the last item seen."""


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` items after the cursor, once `offset` of them have been skipped."""

    after: Cursor | None = None
    limit: int = 1000
    offset: int = 0
