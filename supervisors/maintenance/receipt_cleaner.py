"""Forgets the answers to requests that may no longer be sent again, in small batches."""

from datetime import datetime, timedelta
from typing import Protocol

from supervisors.clock import Clock

LIFETIME = timedelta(hours=24)
BATCH = 1000


class Receipts(Protocol):
    """Where the answers are; `storage.delivery.receipts.Receipts` says more."""

    async def purge(self, until: datetime, most: int) -> int: ...


class ReceiptCleaner:
    """Removes receipts whose time is up."""

    def __init__(self, receipts: Receipts, clock: Clock) -> None:
        self._receipts = receipts
        self._clock = clock

    async def run_once(self) -> int:
        """Remove all there are, a batch at a time; how many went."""
        until, total = self._clock.now() - LIFETIME, 0
        while (gone := await self._receipts.purge(until, BATCH)) > 0:
            total += gone
        return total
