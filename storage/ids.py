"""New ids: UUIDs of version 7 (RFC 9562), which sort by the time they were made."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from uuid_utils import compat

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REST_OF_MILLISECOND = timedelta(microseconds=999)


def new_id() -> UUID:
    """A fresh id; later ones sort after earlier ones, so indexes stay local."""
    return compat.uuid7()


def id_of(owner_id: UUID, what: str) -> UUID:
    """The same id (of version 5) each time, for something of which its owner has only one."""
    return uuid5(owner_id, what)


def made_until(made_id: UUID) -> datetime | None:
    """The last moment at which the id can have been made; None where its form or its time says nothing."""
    if made_id.version != 7:
        return None
    try:
        return EPOCH + timedelta(milliseconds=made_id.int >> 80) + REST_OF_MILLISECOND
    except OverflowError:
        return None
