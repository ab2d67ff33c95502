"""The webhook matcher: it compares new events with event webhooks, which get a delivery for each that fits.

The feed only says which organizations have new events. The positions of webhooks are stored together with
their deliveries, so a restart goes on where they are. While there is no active webhook, nothing is read.
"""

import asyncio
from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import islice
from typing import Protocol
from uuid import UUID

from storage.delivery.webhook_matching import Matched
from storage.events.model import EVERYTHING
from supervisors.clock import Clock, first_of, wait_for_event
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import FeedError, Subscription

RELOAD_SECONDS = 5.0  # until webhooks that another program has written are found
HELD_SECONDS = 1.0  # until a webhook that had too many pending deliveries is looked at again
MAX_ORGANIZATIONS = 20  # of one round; the others take their turn in the next ones
MIN_REST_SECONDS = 0.02  # between two rounds
REST_SHARE = 1  # a rest is as long as the round took: matching uses one connection for half of the time


class MatchingStore(Protocol):
    """The store of webhooks; see `storage.delivery.webhook_matching.WebhookMatching`."""

    @property
    def changed(self) -> asyncio.Event: ...

    async def list_organizations(self) -> Collection[UUID]: ...

    async def match(self, organization_id: UUID, until: int, now: datetime) -> Matched: ...


class WebhookMatcher:
    """Matches events of the organizations that have webhooks; each takes its turn with a page of events."""

    def __init__(self, store: MatchingStore, feed: EventFeed, clock: Clock) -> None:
        self._store = store
        self._feed = feed
        self._clock = clock
        self._organization_ids: frozenset[UUID] = frozenset()  # that have an active webhook
        self._waiting: dict[UUID, None] = {}  # those with events to match, in the order of their turns
        self._held: set[UUID] = set()  # those with a webhook that has too many pending deliveries
        self._reload_at = 0.0
        self._retry_at = 0.0

    async def run_once(self) -> None:
        """Match events until there is no active webhook; if there is none, wait for one."""
        await self._reload()
        if not self._organization_ids:
            await wait_for_event(self._store.changed, RELOAD_SECONDS, self._clock)
            return
        try:
            async with self._feed.subscribe(EVERYTHING) as subscription:
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
            matched = await self._store.match(organization_id, self._feed.settled, self._clock.now())
            del self._waiting[organization_id]
            if matched.has_more:
                self._waiting[organization_id] = None
            if matched.is_held:
                self._held.add(organization_id)

    async def _match_round(self) -> None:
        """Match, and rest in proportion."""
        began_at = self._clock.monotonic()
        await self.match_waiting()
        round_seconds = self._clock.monotonic() - began_at
        await self._clock.sleep(max(MIN_REST_SECONDS, round_seconds * REST_SHARE))

    async def _take_organizations(self, subscription: Subscription) -> set[UUID]:
        """Return the organizations with new events; wait for them unless there is something else to do."""
        news = asyncio.ensure_future(subscription.get())
        if self._waiting:
            await self._clock.sleep(0)
        else:
            seconds = HELD_SECONDS if self._held else RELOAD_SECONDS
            await first_of(asyncio.wait({news}), self._store.changed.wait(), self._clock.sleep(seconds))
        news.cancel()
        await asyncio.wait({news})
        return set() if news.cancelled() else {event.organization_id for event in news.result()}

    async def _refresh(self) -> None:
        """Look again at webhooks that had too many pending deliveries, and at which ones there are."""
        now = self._clock.monotonic()
        if now >= self._retry_at:
            self._add(self._held)
            self._held.clear()
            self._retry_at = now + HELD_SECONDS
        if self._store.changed.is_set() or now >= self._reload_at:
            await self._reload()

    async def _reload(self) -> None:
        """Read which organizations have an active webhook. Those that are new may have events to match."""
        self._store.changed.clear()
        known = self._organization_ids
        self._organization_ids = frozenset(await self._store.list_organizations())
        self._add(self._organization_ids - known)
        self._reload_at = self._clock.monotonic() + RELOAD_SECONDS

    def _add(self, organization_ids: Iterable[UUID]) -> None:
        for organization_id in organization_ids:
            if organization_id in self._organization_ids:
                self._waiting.setdefault(organization_id)
