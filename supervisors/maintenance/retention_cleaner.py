"""The cleaners: they delete expired rows in small batches, so that no other writer has to wait."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from storage.delivery.receipts import Receipts
from storage.identity.throttle import ThrottleBuckets
from storage.retention import Retention
from supervisors.clock import Clock
from supervisors.settings import Bounded, between

CENTURY_DAYS = 36_525
SPENDING_KEPT = timedelta(days=2)  # only today's sums are read, but the clock may be set back
LIFETIME = timedelta(hours=24)
BATCH = 1000


@dataclass(frozen=True, slots=True)
class RetentionSettings(Bounded):
    """The number of days that rows are kept after their end; 0 means for ever."""

    traces: int = between(90, 0, CENTURY_DAYS)
    tracing_content_days: int = between(30, 0, CENTURY_DAYS)
    notifications: int = between(90, 0, CENTURY_DAYS)
    usage: int = between(0, 0, CENTURY_DAYS)
    webhooks: int = between(30, 0, CENTURY_DAYS)
    events: int = between(30, 0, CENTURY_DAYS)
    audit: int = between(400, 0, CENTURY_DAYS)
    deleted_agents: int = between(30, 0, CENTURY_DAYS)
    deleted_documents: int = between(30, 0, CENTURY_DAYS)


@dataclass(frozen=True, slots=True)
class RetentionCleaner:
    """Deletes expired rows, and the rows that deleted agents have left."""

    store: Retention
    settings: RetentionSettings
    clock: Clock

    async def run_once(self) -> Mapping[str, int]:
        """Delete everything that has expired; return the number of deleted rows by kind."""
        store, settings = self.store, self.settings
        deleted = {"rows left by deleted agents": await self.empty_deleted_agents()}
        for kind, days, delete in (
            ("cleared notifications", settings.notifications, store.delete_notifications),
            ("traces and spans", settings.traces, store.delete_traces),
            ("parked calls that have ended", settings.traces, store.delete_parked_calls),
            ("turns no longer carried", settings.tracing_content_days or settings.traces, store.delete_turns),
            ("usage records", settings.usage, store.delete_usage),
            ("webhook deliveries", settings.webhooks, store.delete_webhooks),
            ("events", settings.events, store.delete_events),
            ("entries of the audit log", settings.audit, store.delete_audit_entries),
            ("deleted documents", settings.deleted_documents, store.delete_documents),
            ("deleted agents, with their traces and usage", settings.deleted_agents, store.delete_agents),
        ):
            if days:
                deleted[kind] = await self._delete_all(delete, self.clock.now() - timedelta(days=days))
        deleted["contents of spans"] = await self._delete_content()
        await self._delete_all(store.delete_spending, self.clock.now() - SPENDING_KEPT)
        return deleted

    async def _delete_content(self) -> int:
        """Delete content whose retention is over, and then the system prompts and tools it referred to."""
        store, settings, now = self.store, self.settings, self.clock.now()
        days = settings.tracing_content_days
        deleted = await self._delete_all(partial(store.delete_content, days=days), now)
        days_of_traces = settings.traces or CENTURY_DAYS
        delete_shared = partial(
            store.delete_shared_content, days=days or days_of_traces, days_of_traces=days_of_traces
        )
        return deleted + await self._delete_all(delete_shared, now)

    async def empty_deleted_agents(self) -> int:
        """Delete the notifications, runs and channels of deleted agents; return the number of rows."""
        return await self._delete_all(self.store.delete_leftovers, self.clock.now())

    async def _delete_all(self, delete: Callable[[datetime, int], Awaitable[int]], until: datetime) -> int:
        total = 0
        while True:
            began_at = self.clock.monotonic()
            deleted = await delete(until, BATCH)
            if deleted == 0:
                return total
            total += deleted
            # Pause for as long as the batch took, so that half of the disk's time is left to others.
            await self.clock.sleep(self.clock.monotonic() - began_at)


@dataclass(frozen=True, slots=True)
class ReceiptCleaner:
    """Deletes receipts older than `LIFETIME`, and failed attempts that no longer count."""

    receipts: Receipts
    throttle: ThrottleBuckets
    clock: Clock

    async def run_once(self) -> int:
        """Delete what has expired in small batches; return how many rows."""
        now, total = self.clock.now(), 0
        while (deleted := await self.receipts.delete_expired(now - LIFETIME, BATCH)) > 0:
            total += deleted
        while (deleted := await self.throttle.delete_full(now, BATCH)) > 0:
            total += deleted
        return total
