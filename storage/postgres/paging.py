"""Which part of a list is wanted.

Lists are newest first. By cursor a deep page costs what the first does; an offset is read and thrown away.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

Cursor = tuple[datetime, UUID]
"""The (created_at or started_at, id) of the last item seen."""


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` items after the cursor, `offset` of them skipped."""

    after: Cursor | None = None
    limit: int = 1000
    offset: int = 0
