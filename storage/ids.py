"""New ids: UUIDs of version 7 (RFC 9562), which sort by the time of their creation."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from uuid_utils import compat

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REST_OF_MILLISECOND = timedelta(microseconds=999)


new_id: Callable[[], UUID] = compat.uuid7
"""Return a new id; later ones sort after earlier ones, so inserts stay close together in an index."""


def derive_id(owner_id: UUID, name: str) -> UUID:
    """Return the same id (version 5) for the same name each time, for things an owner has only once."""
    return uuid5(owner_id, name)


def latest_creation(id_: UUID) -> datetime | None:
    """Return the latest instant at which the id can have been created; None if the id does not tell."""
    if id_.version != 7:
        return None
    try:
        return EPOCH + timedelta(milliseconds=id_.int >> 80) + REST_OF_MILLISECOND
    except OverflowError:
        return None
