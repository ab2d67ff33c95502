"""The receipt cleaner deletes receipts after a day."""

from datetime import datetime

from supervisors.maintenance.receipt_cleaner import BATCH, ReceiptCleaner
from tests.storage.factories import HOUR, NOW
from tests.supervisors.held_clock import HeldClock


class ExpiredReceipts:
    """A store with this number of expired receipts."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0

    async def delete_expired(self, until: datetime, limit: int) -> int:
        assert until == NOW - 24 * HOUR
        deleted = min(self.number, limit)
        self.number -= deleted
        self.calls += 1
        return deleted


async def test_receipt_cleaner_deletes_all_expired_receipts_in_batches() -> None:
    receipts = ExpiredReceipts(2 * BATCH + 1)

    assert await ReceiptCleaner(receipts, HeldClock()).run_once() == 2 * BATCH + 1

    assert (receipts.number, receipts.calls) == (0, 4)
