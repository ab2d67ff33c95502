"""Event webhooks: new events become deliveries, and each of these is sent until it is received.

The feed only says which organizations have new events. The positions of webhooks are stored together with
their deliveries, so a restart goes on where they are. While there is no active webhook, nothing is read.

A delivery is sent at once, then by a schedule, at least once: one in progress when the process dies is still
due in the database. Every attempt sends the same id and the same bytes. An event that asks a person has a
link, which is not stored: whoever has it may decide.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from uuid import UUID

import orjson
import structlog

from storage.delivery.outbox import FIRST_RECEIVER, Attempt, DisabledWebhook, DueDelivery, Outbox
from storage.delivery.webhooks import WebhookMatching
from storage.errors import StorageError
from storage.events.model import EVERYTHING
from supervisors.clock import Clock, first_of, wait_for_event
from supervisors.errors import log_failure
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import FeedError, Subscription
from supervisors.outbound import AddressRefused, Outbound, OutboundAnswer, OutboundCall, OutboundError

log = structlog.get_logger(__name__)

RELOAD_SECONDS = 5.0  # until webhooks that another program has written are found
HELD_SECONDS = 1.0  # until a webhook that had too many pending deliveries is looked at again
MAX_ORGANIZATIONS = 20  # of one round; the others take their turn in the next ones
MIN_REST_SECONDS = 0.02  # between two rounds of matching, and between two scans of the outbox
REST_SHARE_OF_MATCHING = 1  # a rest is as long as the round took: one connection is used half of the time

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
SCAN_SECONDS = 5.0
SHORT_PAUSE = timedelta(minutes=1)  # the end of a shorter one does not wait for the next scan
REST_SHARE_OF_SENDING = 4  # a rest is four times as long as the scan took: others have most of the database
RECORD_RETRY_SECONDS = 1.0
CRASH_PAUSE_SECONDS = 60.0
CLOSE_SECONDS = 2.0
ASKS_A_PERSON = re.compile(rb'\{"type"\s*:\s*"approval\.(requested|reminded)"')

ApprovalLink = Callable[[UUID, datetime, datetime | None], str]
"""Returns the link to the approval with this id, of an event at this time, until it expires."""


@dataclass(slots=True, eq=False)
class WebhookMatcher:
    """Matches events of the organizations that have webhooks; each takes its turn with a page of events."""

    store: WebhookMatching
    feed: EventFeed
    clock: Clock
    _organization_ids: frozenset[UUID] = frozenset()  # that have an active webhook
    _waiting: dict[UUID, None] = field(default_factory=dict)  # with events to match, in their turns
    _held: set[UUID] = field(default_factory=set)  # with a webhook that has too many pending deliveries
    _reload_at: float = 0.0
    _retry_at: float = 0.0

    async def run_once(self) -> None:
        """Match events until there is no active webhook; if there is none, wait for one."""
        await self._reload()
        if not self._organization_ids:
            await wait_for_event(self.store.changed, RELOAD_SECONDS, self.clock)
            return
        try:
            async with self.feed.subscribe(EVERYTHING) as subscription:
                self._add(self._organization_ids)  # they may have events from before
                while self._organization_ids:
                    await self._match_round()
                    self._add(await self._take_organizations(subscription))
                    await self._refresh()
        except FeedError:
            pass  # closed, or too many events at once: the next call looks at all organizations

    async def match_waiting(self) -> None:
        """Match a page of events for each of the first organizations that wait."""
        for organization_id in list(islice(self._waiting, MAX_ORGANIZATIONS)):
            matched = await self.store.match(organization_id, self.feed.settled, self.clock.now())
            del self._waiting[organization_id]
            if matched.has_more:
                self._waiting[organization_id] = None
            if matched.is_held:
                self._held.add(organization_id)

    async def _match_round(self) -> None:
        """Match, and rest in proportion."""
        began_at = self.clock.monotonic()
        await self.match_waiting()
        round_seconds = self.clock.monotonic() - began_at
        await self.clock.sleep(max(MIN_REST_SECONDS, round_seconds * REST_SHARE_OF_MATCHING))

    async def _take_organizations(self, subscription: Subscription) -> set[UUID]:
        """Return the organizations with new events; wait for them unless there is something else to do."""
        news = asyncio.ensure_future(subscription.get())
        if self._waiting:
            await self.clock.sleep(0)
        else:
            seconds = HELD_SECONDS if self._held else RELOAD_SECONDS
            await first_of(asyncio.wait({news}), self.store.changed.wait(), self.clock.sleep(seconds))
        news.cancel()
        await asyncio.wait({news})
        return set() if news.cancelled() else {event.organization_id for event in news.result()}

    async def _refresh(self) -> None:
        """Look again at webhooks that had too many pending deliveries, and at which ones there are."""
        now = self.clock.monotonic()
        if now >= self._retry_at:
            self._add(self._held)
            self._held.clear()
            self._retry_at = now + HELD_SECONDS
        if self.store.changed.is_set() or now >= self._reload_at:
            known = self._organization_ids
            await self._reload()
            self._add(self._organization_ids - known)  # they may have events to match

    async def _reload(self) -> None:
        """Read which organizations have an active webhook."""
        self.store.changed.clear()
        self._organization_ids = frozenset(await self.store.list_organizations())
        self._reload_at = self.clock.monotonic() + RELOAD_SECONDS

    def _add(self, organization_ids: Iterable[UUID]) -> None:
        for organization_id in organization_ids:
            if organization_id in self._organization_ids:
                self._waiting.setdefault(organization_id)


@dataclass(slots=True, eq=False)
class WebhookSender:
    """Sends due deliveries, each in its own task, so that none waits for another's receiver."""

    outbox: Outbox
    outbound: Outbound
    clock: Clock
    random: Random
    link: ApprovalLink
    _in_progress: dict[asyncio.Task[None], DueDelivery] = field(default_factory=dict)
    _listed_until: tuple[UUID, str] = FIRST_RECEIVER

    async def run_once(self) -> None:
        """Wait for a new delivery, at most until the next scan, and start the due deliveries."""
        await wait_for_event(self.outbox.stored, SCAN_SECONDS, self.clock)
        self.outbox.stored.clear()
        began_at = self.clock.monotonic()
        await self.start_due()
        scan_seconds = self.clock.monotonic() - began_at
        await self.clock.sleep(max(MIN_REST_SECONDS, scan_seconds * REST_SHARE_OF_SENDING))

    async def start_due(self) -> None:
        """Start as many due deliveries as there is room for."""
        if len(self._in_progress) >= MAX_CONCURRENT:
            return
        # Deliveries in progress are still due, but fill at most half of what is listed of each receiver. Note
        # them before the read: a delivery that ends during it must not start again.
        started_ids = {delivery.id for delivery in self._in_progress.values()}
        due = await self.outbox.list_due(
            self.clock.now(), self._listed_until, limit_per_receiver=2 * MAX_PER_RECEIVER, limit=MAX_LISTED
        )
        is_complete = len(due) < MAX_LISTED
        self._listed_until = FIRST_RECEIVER if is_complete else max(delivery.receiver for delivery in due)
        if not is_complete:
            self.outbox.stored.set()  # the next scan lists the other receivers
        waiting = [delivery for delivery in due if delivery.id not in started_ids]
        for delivery in choose(waiting, self._in_progress.values()) if waiting else ():
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
        self.outbox.stored.set()  # there is room for another

    async def _deliver(self, delivery: DueDelivery) -> None:
        try:
            await self._record(delivery, await self._attempt(delivery))
        except Exception:  # the outermost edge of a task
            log.exception("webhook delivery crashed", delivery=str(delivery.id))
            await self.clock.sleep(CRASH_PAUSE_SECONDS)  # until the task ends, the delivery is not repeated

    async def _attempt(self, delivery: DueDelivery) -> Attempt:
        if delivery.refusal:
            return Attempt(failed_at=self.clock.now(), error=delivery.refusal)
        secret, *old_secrets = delivery.secrets
        call = OutboundCall(
            str(delivery.id),
            delivery.organization_id,
            delivery.url,
            with_link(delivery.body, self.link),
            secret,
            old_secrets=tuple(old_secrets),
        )
        answer: OutboundAnswer | OutboundError
        try:
            answer = await self.outbound.post(call)
        except OutboundError as error:
            answer = error
        stretch = 1 + self.random.uniform(0, JITTER)
        return attempt_after(answer, delivery.attempts + 1, self.clock.now(), stretch)

    async def _record(self, delivery: DueDelivery, attempt: Attempt) -> None:
        """Store the attempt, and retry until that succeeds: otherwise the delivery would be sent again."""
        ended_at = self.clock.now()
        while True:
            try:
                disabled = await self.outbox.record(delivery, attempt, ended_at)
                if disabled is not None:
                    _log_disabled(disabled)
                self._scan_after(attempt)
                return
            except StorageError as error:
                log_failure(log, "webhook attempt not stored yet", error, delivery=str(delivery.id))
            await self.clock.sleep(RECORD_RETRY_SECONDS)

    def _scan_after(self, attempt: Attempt) -> None:
        """Scan again when the next attempt is due, if it is due soon."""
        pause = attempt.next_attempt_at - self.clock.now() if attempt.next_attempt_at else SHORT_PAUSE
        if pause < SHORT_PAUSE:
            moment = self.clock.monotonic() + pause.total_seconds()
            self.clock.call_at(moment + MIN_REST_SECONDS, self.outbox.stored.set)


@asynccontextmanager
async def open_webhook_sender(
    outbox: Outbox, outbound: Outbound, clock: Clock, random: Random, link: ApprovalLink
) -> AsyncIterator[WebhookSender]:
    """Open a webhook sender; on leaving, the deliveries in progress get a moment to end."""
    sender = WebhookSender(outbox, outbound, clock, random, link)
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


def with_link(body: bytes, link: ApprovalLink) -> bytes:
    """Return the body, with the link to what it asks a person for, if it does."""
    if not ASKS_A_PERSON.match(body):
        return body
    payload = orjson.loads(body)
    event = payload["data"]
    at, expires_at = (
        text and datetime.fromisoformat(text) for text in (event["at"], event["data"]["expires_at"])
    )
    event["link"] = link(UUID(event["resource_id"]), at, expires_at)
    return orjson.dumps(payload)


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
