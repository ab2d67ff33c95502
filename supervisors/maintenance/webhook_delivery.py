"""Sends what the outbox holds: at once, then by a schedule until it is received or given up.

At least once: what is under way when the process dies is still due in the database. Every attempt sends the
same id and the same bytes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

import structlog

from storage.delivery.outbox import FIRST_RECEIVER, Attempt, DueDelivery, Receiver
from storage.errors import StorageError
from supervisors.clock import Clock, comes_within
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
JITTER = 0.1  # of the pause: so much longer it may be
MAX_PAUSE = timedelta(hours=24)  # that a receiver may ask for
GONE = 410

AT_ONCE = 128
OF_ONE_ORGANIZATION = 16
TO_ONE_RECEIVER = 8
MAX_LISTED = 1000  # by one scan

SCAN_SECONDS = 1.0
REST_SECONDS = 0.02  # between two scans
REST_SHARE = 4  # and so many times as long as a scan took: others have most of the database
RECORD_RETRY_SECONDS = 1.0
DEFECT_PAUSE_SECONDS = 60.0
CLOSE_SECONDS = 2.0

NO_TEMPLATE = "The template was deleted, and with it the secret that would sign this."


class DueStore(Protocol):
    """Where the deliveries are; `storage.delivery.outbox.Outbox` says more."""

    @property
    def stored(self) -> asyncio.Event: ...

    async def list_due(
        self, now: datetime, after: Receiver, *, most_of_each: int, most: int
    ) -> list[DueDelivery]: ...

    async def record(self, delivery: DueDelivery, attempt: Attempt) -> None: ...


class WebhookSender:
    """Each delivery is a task of its own, so that none waits for another's receiver."""

    def __init__(self, outbox: DueStore, outbound: Outbound, clock: Clock, random: Random) -> None:
        self._outbox = outbox
        self._outbound = outbound
        self._clock = clock
        self._random = random
        self._under_way: dict[asyncio.Task[None], DueDelivery] = {}
        self._listed_until = FIRST_RECEIVER

    async def run_once(self) -> None:
        """Wait until there may be something to send, which it is at least once a second, and start it."""
        await comes_within(self._outbox.stored, SCAN_SECONDS, self._clock)
        self._outbox.stored.clear()
        began = self._clock.monotonic()
        await self.start_due()
        took = self._clock.monotonic() - began
        await self._clock.sleep(max(REST_SECONDS, took * REST_SHARE))

    async def start_due(self) -> None:
        """Start sending what is due, as far as there is room."""
        if len(self._under_way) >= AT_ONCE:
            return
        # They are still due, of each receiver at most half of what is listed; one that ends while the list is
        # read must not begin again.
        begun = {delivery.id for delivery in self._under_way.values()}
        due = await self._outbox.list_due(
            self._clock.now(), self._listed_until, most_of_each=2 * TO_ONE_RECEIVER, most=MAX_LISTED
        )
        is_all = len(due) < MAX_LISTED
        self._listed_until = FIRST_RECEIVER if is_all else max(each.receiver for each in due)
        if not is_all:
            self._outbox.stored.set()  # go on with the others
        for delivery in choose([each for each in due if each.id not in begun], self._under_way.values()):
            task = asyncio.create_task(self._deliver(delivery), name=f"webhook {delivery.id}")
            self._under_way[task] = delivery
            task.add_done_callback(self._end)

    async def settle(self, seconds: float) -> None:
        """Return when nothing is under way, or after so long."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=seconds)

    async def close(self) -> None:
        """Give up what is under way; it is still due."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._outbox.stored.set()  # there is room for another

    async def _deliver(self, delivery: DueDelivery) -> None:
        try:
            await self._record(delivery, await self._attempt(delivery))
        except Exception:  # the outermost edge of a task
            log.exception("a webhook could not be sent", delivery=str(delivery.id))
            await self._clock.sleep(DEFECT_PAUSE_SECONDS)  # as long as it is under way it is not tried again

    async def _attempt(self, delivery: DueDelivery) -> Attempt:
        if delivery.secret is None:
            return Attempt(failed_at=self._clock.now(), error=NO_TEMPLATE)
        call = OutboundCall(
            str(delivery.id), delivery.organization_id, delivery.url, delivery.body, delivery.secret
        )
        answer: OutboundAnswer | OutboundError
        try:
            answer = await self._outbound.post(call)
        except OutboundError as error:
            answer = error
        stretch = 1 + self._random.uniform(0, JITTER)
        return judge(answer, delivery.attempts + 1, self._clock.now(), stretch)

    async def _record(self, delivery: DueDelivery, attempt: Attempt) -> None:
        """Until it is stored: what is not would be sent again."""
        while True:
            try:
                return await self._outbox.record(delivery, attempt)
            except StorageError as error:
                log.warning("the end of a webhook is not stored", delivery=str(delivery.id), error=str(error))
            await self._clock.sleep(RECORD_RETRY_SECONDS)


@asynccontextmanager
async def open_webhook_sender(
    outbox: DueStore, outbound: Outbound, clock: Clock, random: Random
) -> AsyncIterator[WebhookSender]:
    """The duty; on leaving, what is under way has a moment to end."""
    webhooks = WebhookSender(outbox, outbound, clock, random)
    try:
        yield webhooks
    finally:
        await webhooks.settle(CLOSE_SECONDS)
        await webhooks.close()


def judge(answer: OutboundAnswer | OutboundError, attempts: int, now: datetime, stretch: float) -> Attempt:
    """What an answer, or the lack of one, means for a delivery; `attempts` counts this one.

    `stretch`, 1 or somewhat more, makes the pause longer: what failed together does not return together.
    """
    if isinstance(answer, OutboundAnswer) and 200 <= answer.status < 300:
        return Attempt(delivered_at=now, status=answer.status)
    asked = timedelta()
    if isinstance(answer, OutboundAnswer):
        status, error, is_final = answer.status, _complaint(answer.status), answer.status == GONE
        asked = min(answer.retry_after or asked, MAX_PAUSE)
    else:
        status, error, is_final = None, str(answer), isinstance(answer, AddressRefused)
    if is_final or attempts > len(SCHEDULE):
        return Attempt(failed_at=now, status=status, error=error)
    pause = max(SCHEDULE[attempts - 1] * stretch, asked)
    return Attempt(next_attempt_at=now + pause, status=status, error=error)


def _complaint(status: int) -> str:
    if 300 <= status < 400:
        return f"The receiver answered {status}; redirects are not followed."
    return f"The receiver answered {status}."


def choose(due: Iterable[DueDelivery], under_way: Collection[DueDelivery]) -> list[DueDelivery]:
    """What to start, first that of organizations, and there of receivers, with the fewest under way.

    So a receiver that hangs, or an organization with thousands of them, keeps no one else waiting.
    """
    waiting = sorted(due, key=lambda each: each.next_attempt_at)
    turns = _in_turns(waiting, under_way, lambda each: each.receiver, TO_ONE_RECEIVER)
    turns = _in_turns(turns, under_way, lambda each: each.organization_id, OF_ONE_ORGANIZATION)
    return turns[: AT_ONCE - len(under_way)]


def _in_turns(
    waiting: Sequence[DueDelivery],
    under_way: Iterable[DueDelivery],
    whose: Callable[[DueDelivery], Hashable],
    most: int,
) -> list[DueDelivery]:
    """The first of each, then the second of each, and so on, up to so many with those under way."""
    taken = Counter(whose(each) for each in under_way)
    placed = []
    for each in waiting:
        placed.append((taken[whose(each)], each))
        taken[whose(each)] += 1
    placed.sort(key=lambda turn: turn[0])
    return [each for place, each in placed if place < most]
