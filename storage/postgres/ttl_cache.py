"""A cache for values that every request needs: each is read from the database at most once a second."""

from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Generic, TypeVar

LIFETIME = timedelta(seconds=1)
MAX_ENTRIES = 10_000

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TtlCache(Generic[Key, Value]):
    """Values by key, each read within the last second. Missing values are not cached.

    A change by this instance empties the cache at once, so the next `get` sees it. A change by another
    program may stay unseen for that second, measured by the wall clock. So may a write of this instance that
    was committed although it failed, because the connection was lost.
    """

    def __init__(self, read: Callable[[Key], Awaitable[Value | None]]) -> None:
        self._read = read
        self._values: dict[Key, tuple[datetime, Value]] = {}
        self._changes = 0

    def __repr__(self) -> str:
        return f"<TtlCache with {len(self._values)} values>"

    async def get(self, key: Key, now: datetime) -> Value | None:
        """Return the value, at most a second old; None if there is none."""
        if cached := self._values.get(key):
            read_at, value = cached
            if read_at <= now < read_at + LIFETIME:
                return value
        changes = self._changes
        fresh = await self._read(key)
        # A change during the read may have been too late for it, so the value is not cached.
        if fresh is not None and changes == self._changes:
            if len(self._values) >= MAX_ENTRIES and key not in self._values:
                self._values.clear()
            self._values[key] = (now, fresh)
        return fresh

    @contextmanager
    def invalidating(self) -> Iterator[None]:
        """Empty the cache after a write that the values may depend on, whether it succeeds or fails."""
        try:
            yield
        finally:
            self._changes += 1
            self._values.clear()
