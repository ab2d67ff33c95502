"""The memory for request bodies that are long or compressed, from their first byte to their values."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from supervisors.counts import decrement
from web.errors import Unavailable

MAX_BYTES = 268_435_456
MAX_SHARE = 4  # one organization may have a quarter
RETRY_SECONDS = 1


class BodyRoom:
    """The bytes that bodies may need, in all and by organization. A body without room is refused unread."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._taken: Counter[UUID] = Counter()

    def __repr__(self) -> str:
        return f"<BodyRoom: {self._taken.total()} of {self._max_bytes} bytes taken>"

    @contextmanager
    def take(self, organization_id: UUID, size: int) -> Iterator[None]:
        """Hold room for `size` bytes while the block runs.

        Raise Unavailable if there is not enough. The only body of an organization may exceed its share.
        """
        taken = self._taken[organization_id]
        is_over_share = taken > 0 and taken + size > self._max_bytes // MAX_SHARE
        if is_over_share or self._taken.total() + size > self._max_bytes:
            raise Unavailable("Too many long request bodies are arriving.", RETRY_SECONDS)
        self._taken[organization_id] += size
        try:
            yield
        finally:
            decrement(self._taken, organization_id, size)
