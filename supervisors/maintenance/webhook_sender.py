"""The webhook sender: it sends each delivery of the outbox at once, then by a schedule until it is received.

Delivery is at least once: a delivery in progress when the process dies is still due in the database. Every
attempt sends the same id and the same bytes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

import structlog

from storage.delivery.outbox import FIRST_RECEIVER, Attempt, DisabledWebhook, DueDelivery, Receiver
from storage.errors import StorageError
from supervisors.clock import Clock, wait_for_event
from supervisors.failure_log import log_failure
from supervisors.outbound import AddressRefused, Outbound, OutboundAnswer, OutboundCall, OutboundError

log = structlog.get_logger(__name__)

SCHEDULE = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
JITTER = 0.1  # the share of a pause that may be added to it
MAX_PAUSE = timedelta(hours=24)  # that a receiver may ask for
GONE = 410

MAX_CONCURRENT = 128
MAX_PER_ORGANIZATION = 16
MAX_PER_RECEIVER = 8
MAX_LISTED = 1000  # by one scan

SCAN_SECONDS = 1.0
MIN_REST_SECONDS = 0.02  # between two scans
REST_SHARE = 4  # a rest is four times as long as the scan took, so that others have most of the database
RECORD_RETRY_SECONDS = 1.0
CRASH_PAUSE_SECONDS = 60.0
CLOSE_SECONDS = 2.0


class DueStore(Protocol):
    """The store of deliveries; see `storage.delivery.outbox.Outbox`."""

    @property
    def stored(self) -> asyncio.Event: ...

    async def list_due(
        self, now: datetime, after: Receiver, *, limit_per_receiver: int, limit: int
    ) -> list[DueDelivery]: ...

    async def record(
        self, delivery: DueDelivery, attempt: Attempt, now: datetime
    ) -> DisabledWebhook | None: ...


class WebhookSender:
    """Sends due deliveries, each in its own task, so that none waits for another's receiver."""

    def __init__(self, outbox: DueStore, outbound: Outbound, clock: Clock, random: Random) -> None:
        self._outbox = outbox
        self._outbound = outbound
        self._clock = clock
        self._random = random
        self._in_progress: dict[asyncio.Task[None], DueDelivery] = {}
        self._listed_until = FIRST_RECEIVER

    async def run_once(self) -> None:
        """Wait for a new delivery, at most a second, and start the due deliveries."""
        await wait_for_event(self._outbox.stored, SCAN_SECONDS, self._clock)
        self._outbox.stored.clear()
        began_at = self._clock.monotonic()
        await self.start_due()
        scan_seconds = self._clock.monotonic() - began_at
        await self._clock.sleep(max(MIN_REST_SECONDS, scan_seconds * REST_SHARE))

    async def start_due(self) -> None:
        """Start as many due deliveries as there is room for."""
        if len(self._in_progress) >= MAX_CONCURRENT:
            return
        # Deliveries in progress are still due, but fill at most half of what is listed of each receiver. Note
        # them before the read: a delivery that ends during it must not start again.
        started_ids = {delivery.id for delivery in self._in_progress.values()}
        due = await self._outbox.list_due(
            self._clock.now(), self._listed_until, limit_per_receiver=2 * MAX_PER_RECEIVER, limit=MAX_LISTED
        )
        is_complete = len(due) < MAX_LISTED
        self._listed_until = FIRST_RECEIVER if is_complete else max(delivery.receiver for delivery in due)
        if not is_complete:
            self._outbox.stored.set()  # the next scan lists the other receivers
        waiting = [delivery for delivery in due if delivery.id not in started_ids]
        for delivery in choose(waiting, self._in_progress.values()):
            task = asyncio.create_task(self._deliver(delivery), name=f"webhook {delivery.id}")
            self._in_progress[task] = delivery
            task.add_done_callback(self._on_done)

    async def finish(self, timeout_seconds: float) -> None:
        """Wait until no delivery is in progress, at most this many seconds."""
        if self._in_progress:
            await asyncio.wait(self._in_progress, timeout=timeout_seconds)

    async def close(self) -> None:
        """Cancel the deliveries in progress; they stay due."""
        tasks = list(self._in_progress)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        del self._in_progress[task]
        self._outbox.stored.set()  # there is room for another

    async def _deliver(self, delivery: DueDelivery) -> None:
        try:
            await self._record(delivery, await self._attempt(delivery))
        except Exception:  # the outermost edge of a task
            log.exception("webhook delivery crashed", delivery=str(delivery.id))
            await self._clock.sleep(CRASH_PAUSE_SECONDS)  # until the task ends, the delivery is not repeated

    async def _attempt(self, delivery: DueDelivery) -> Attempt:
        if delivery.refusal:
            return Attempt(failed_at=self._clock.now(), error=delivery.refusal)
        secret, *old_secrets = delivery.secrets
        call = OutboundCall(
            str(delivery.id),
            delivery.organization_id,
            delivery.url,
            delivery.body,
            secret,
            old_secrets=tuple(old_secrets),
        )
        answer: OutboundAnswer | OutboundError
        try:
            answer = await self._outbound.post(call)
        except OutboundError as error:
            answer = error
        stretch = 1 + self._random.uniform(0, JITTER)
        return attempt_after(answer, delivery.attempts + 1, self._clock.now(), stretch)

    async def _record(self, delivery: DueDelivery, attempt: Attempt) -> None:
        """Store the attempt, and retry until that succeeds: otherwise the delivery would be sent again."""
        ended_at = self._clock.now()
        while True:
            try:
                disabled = await self._outbox.record(delivery, attempt, ended_at)
                if disabled is not None:
                    _log_disabled(disabled)
                return
            except StorageError as error:
                log_failure(log, "webhook attempt not stored yet", error, delivery=str(delivery.id))
            await self._clock.sleep(RECORD_RETRY_SECONDS)


@asynccontextmanager
async def open_webhook_sender(
    outbox: DueStore, outbound: Outbound, clock: Clock, random: Random
) -> AsyncIterator[WebhookSender]:
    """Open a webhook sender; on leaving, the deliveries in progress get a moment to end."""
    sender = WebhookSender(outbox, outbound, clock, random)
    try:
        yield sender
    finally:
        await sender.finish(CLOSE_SECONDS)
        await sender.close()


def _log_disabled(webhook: DisabledWebhook) -> None:
    log.warning(
        "webhook switched off",
        webhook=str(webhook.id),
        organization=str(webhook.organization_id),
        reason=webhook.reason,
    )


def attempt_after(
    answer: OutboundAnswer | OutboundError, attempts: int, now: datetime, stretch: float
) -> Attempt:
    """Return the attempt to store: delivered, to be repeated, or given up. `attempts` counts this one.

    `stretch`, 1 or slightly more, lengthens the pause, so that deliveries do not all return at once.
    """
    if isinstance(answer, OutboundAnswer) and 200 <= answer.status < 300:
        return Attempt(delivered_at=now, status=answer.status)
    requested_pause = timedelta()
    if isinstance(answer, OutboundAnswer):
        status, error, is_final = answer.status, _error_of(answer.status), answer.status == GONE
        requested_pause = min(answer.retry_after or requested_pause, MAX_PAUSE)
    else:
        status, error, is_final = None, str(answer), isinstance(answer, AddressRefused)
    if is_final or attempts > len(SCHEDULE):
        return Attempt(failed_at=now, status=status, error=error)
    pause = max(SCHEDULE[attempts - 1] * stretch, requested_pause)
    return Attempt(next_attempt_at=now + pause, status=status, error=error)


def _error_of(status: int) -> str:
    redirect = "; redirects are not followed" if 300 <= status < 400 else ""
    return f"The receiver answered {status}{redirect}."


def choose(due: Iterable[DueDelivery], in_progress: Collection[DueDelivery]) -> list[DueDelivery]:
    """Choose the deliveries to start: the organization, then the receiver, with the fewest in progress first.

    So neither a receiver that hangs nor an organization with thousands of them delays the others.
    """
    waiting = sorted(due, key=lambda delivery: delivery.next_attempt_at)
    turns = _in_turns(waiting, in_progress, lambda delivery: delivery.receiver, MAX_PER_RECEIVER)
    turns = _in_turns(turns, in_progress, lambda delivery: delivery.organization_id, MAX_PER_ORGANIZATION)
    return turns[: MAX_CONCURRENT - len(in_progress)]


def _in_turns(
    waiting: Sequence[DueDelivery],
    in_progress: Iterable[DueDelivery],
    key: Callable[[DueDelivery], Hashable],
    limit: int,
) -> list[DueDelivery]:
    """Take the first of each key, then the second, and so on; with those in progress at most `limit` each."""
    taken = Counter(key(delivery) for delivery in in_progress)
    places = []
    for delivery in waiting:
        places.append((taken[key(delivery)], delivery))
        taken[key(delivery)] += 1
    places.sort(key=lambda turn: turn[0])
    return [delivery for place, delivery in places if place < limit]
