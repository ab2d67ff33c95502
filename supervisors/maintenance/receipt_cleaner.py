"""The receipt cleaner: it deletes stored answers after the time in which a request may be repeated."""

from datetime import datetime, timedelta
from typing import Protocol

from supervisors.clock import Clock

LIFETIME = timedelta(hours=24)
BATCH = 1000


class Receipts(Protocol):
    """The store of answers; see `storage.delivery.receipts.Receipts`."""

    async def delete_expired(self, until: datetime, limit: int, /) -> int: ...


class ReceiptCleaner:
    """Deletes receipts older than `LIFETIME`."""

    def __init__(self, receipts: Receipts, clock: Clock) -> None:
        self._receipts = receipts
        self._clock = clock

    async def run_once(self) -> int:
        """Delete the expired receipts in small batches; return how many."""
        until, total = self._clock.now() - LIFETIME, 0
        while (deleted := await self._receipts.delete_expired(until, BATCH)) > 0:
            total += deleted
        return total
