"""Slow schemas: those that exceeded the limits are not checked again for a while."""

from uuid import UUID

from supervisors.clock import Clock

REFUSED_SECONDS = 60.0
MAX_SCHEMAS = 1000

SchemaKey = tuple[UUID, bytes]
"""The organization that a schema was checked for, and a hash of the schema and the kind of the check.

The values may be what makes a schema slow, so what one organization checks must not refuse it to others.
"""


class SlowSchemas:
    """Remembers schemas for REFUSED_SECONDS, the latest MAX_SCHEMAS of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused_until: dict[SchemaKey, float] = {}  # the oldest first
        self._latest: dict[UUID, SchemaKey] = {}  # of each organization

    def add(self, key: SchemaKey) -> None:
        self._refused_until.pop(key, None)
        if len(self._refused_until) >= MAX_SCHEMAS:
            self._forget(next(iter(self._refused_until)))
        self._refused_until[key] = self._clock.monotonic() + REFUSED_SECONDS
        self._latest[key[0]] = key

    def has_any(self, organization_id: UUID) -> bool:
        """Return whether a schema of this organization is refused at present."""
        latest = self._latest.get(organization_id)
        return latest is not None and self.seconds_left(latest) > 0

    def seconds_left(self, key: SchemaKey) -> float:
        """Return how long this schema is still refused, at most 0 if it is not."""
        left = self._refused_until.get(key, 0.0) - self._clock.monotonic()
        if left <= 0:
            self._forget(key)
        return max(left, 0.0)

    def _forget(self, key: SchemaKey) -> None:
        self._refused_until.pop(key, None)
        if self._latest.get(key[0]) == key:
            del self._latest[key[0]]
