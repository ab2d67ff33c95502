"""What every request asks of the database, kept for a second instead of being read each time."""

from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Generic, TypeVar

REMEMBERED = timedelta(seconds=1)
MAX_ENTRIES = 10_000

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TtlCache(Generic[Key, Value]):
    """Values by key, each read within the last second; what there is none of is read each time.

    What this instance changes is forgotten at once, so the very next `get` knows of it. What another program
    changes may be answered as it was for that second, by the wall clock; so may a write that failed here for
    want of the connection, and was made all the same.
    """

    def __init__(self, read: Callable[[Key], Awaitable[Value | None]]) -> None:
        self._read = read
        self._values: dict[Key, tuple[datetime, Value]] = {}
        self._changes = 0

    def __repr__(self) -> str:
        return f"<Remembered {len(self._values)}>"

    async def get(self, key: Key, now: datetime) -> Value | None:
        """The value as of a second ago at most; None if there is none."""
        if known := self._values.get(key):
            read_at, value = known
            if read_at <= now < read_at + REMEMBERED:
                return value
        changes = self._changes
        fresh = await self._read(key)
        if fresh is not None and changes == self._changes:  # else it may have been read before the change
            if len(self._values) >= MAX_ENTRIES and key not in self._values:
                self._values.clear()
            self._values[key] = (now, fresh)
        return fresh

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Around a write that the values may depend on: it is answered, or fails, and all are forgotten."""
        try:
            yield
        finally:
            self._changes += 1
            self._values.clear()
