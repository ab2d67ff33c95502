"""New ids: UUIDs of version 7 (RFC 9562), which sort by the time they were made."""

from uuid import UUID

from uuid_utils import compat


def new_id() -> UUID:
    """A fresh id; later ones sort after earlier ones, so indexes stay local."""
    return compat.uuid7()
