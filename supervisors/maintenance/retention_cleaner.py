"""Removes what is kept no longer, in small batches, so that nobody waits for it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from supervisors.clock import Clock
from supervisors.settings import require_between

BATCH = 1000
CENTURY_DAYS = 36_525
SPENDING_KEPT = timedelta(days=2)  # only the present day is asked for, but a clock may be set back


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """How many days things are kept after their end; 0: for good."""

    traces: int = 90
    notifications: int = 90
    usage: int = 0
    webhooks: int = 30
    deleted_agents: int = 30

    def __post_init__(self) -> None:
        require_between("traces", self.traces, 0, CENTURY_DAYS)
        require_between("notifications", self.notifications, 0, CENTURY_DAYS)
        require_between("usage", self.usage, 0, CENTURY_DAYS)
        require_between("webhooks", self.webhooks, 0, CENTURY_DAYS)
        require_between("deleted_agents", self.deleted_agents, 0, CENTURY_DAYS)


class RetentionStore(Protocol):
    """Where the rows are; `storage.retention.Retention` says more."""

    async def delete_notifications(self, until: datetime, limit: int) -> int: ...

    async def delete_traces(self, until: datetime, limit: int) -> int: ...

    async def delete_usage(self, until: datetime, limit: int) -> int: ...

    async def delete_webhooks(self, until: datetime, limit: int) -> int: ...

    async def delete_spending(self, until: datetime, limit: int) -> int: ...

    async def delete_leftovers(self, now: datetime, limit: int) -> int: ...

    async def delete_agents(self, until: datetime, limit: int) -> int: ...


class RetentionCleaner:
    """Removes rows whose time is up, and what deleted agents leave behind."""

    def __init__(self, expired: RetentionStore, settings: RetentionSettings, clock: Clock) -> None:
        self._expired = expired
        self._settings = settings
        self._clock = clock

    async def run_once(self) -> Mapping[str, int]:
        """Remove all there is; how many rows went, by what they were."""
        expired, settings = self._expired, self._settings
        gone = {"rows left by deleted agents": await self.empty_deleted_agents()}
        for kind, days, delete in (
            ("cleared notifications", settings.notifications, expired.delete_notifications),
            ("traces and spans", settings.traces, expired.delete_traces),
            ("usage records", settings.usage, expired.delete_usage),
            ("webhook deliveries", settings.webhooks, expired.delete_webhooks),
            ("deleted agents, traces and usage included", settings.deleted_agents, expired.delete_agents),
        ):
            if days:
                gone[kind] = await self._all(delete, self._clock.now() - timedelta(days=days))
        await self._all(expired.delete_spending, self._clock.now() - SPENDING_KEPT)
        return gone

    async def empty_deleted_agents(self) -> int:
        """Remove the queues, runs and channels of deleted agents; how many rows went."""
        return await self._all(self._expired.delete_leftovers, self._clock.now())

    async def _all(self, delete: Callable[[datetime, int], Awaitable[int]], moment: datetime) -> int:
        total = 0
        while True:
            began = self._clock.monotonic()
            gone = await delete(moment, BATCH)
            if gone == 0:
                return total
            total += gone
            # As long a pause as the batch took: others have half of the disk, however much there is to do.
            await self._clock.sleep(self._clock.monotonic() - began)
