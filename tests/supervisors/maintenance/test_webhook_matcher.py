"""The webhook matcher: deliveries for new events, in turns between organizations, and after restarts."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from storage.delivery import webhook_matching
from storage.delivery.outbox import Attempt, DeliveryFilters, WebhookDelivery
from storage.delivery.webhook_matching import Matched
from storage.delivery.webhooks import Webhook
from storage.ids import new_id
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.events.feed import EventFeed
from supervisors.maintenance import webhook_matcher
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.webhook_matcher import WebhookMatcher
from tests.storage.factories import stored_organization, webhook

PATIENCE_SECONDS = 10.0

INSERT_EVENTS = """
INSERT INTO event (at, type, organization_id) SELECT now(), 'run.ended', $1 FROM generate_series(1, $2)
"""


class Matching:
    """A log with webhooks, and processes that match them."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    async def webhook(self, organization_id: UUID | None = None, **fields: Any) -> Webhook:
        owner = organization_id or (await stored_organization(self.storage.pool)).id
        stored = webhook(owner, **fields)
        await self.storage.webhooks.insert(stored, "whsec_c2VjcmV0")
        return stored

    async def events(self, of: Webhook, number: int = 1) -> None:
        """Write events of the webhook's organization."""
        await self.storage.pool.execute(INSERT_EVENTS, of.organization_id, number)
        self.storage.events.announce()

    async def deliveries(self, of: Webhook, number: int) -> list[WebhookDelivery]:
        """Wait until the webhook has so many deliveries, and return them."""
        outbox = self.storage.outbox
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                outbox.stored.clear()
                found = await outbox.list_page(
                    DeliveryFilters((of.organization_id,), webhook_id=of.id), Page(max_bytes=10**9)
                )
                if len(found) >= number:
                    assert len(found) == number
                    return found
                await outbox.stored.wait()

    @asynccontextmanager
    async def process(self, store: Any = None) -> AsyncIterator[WebhookMatcher]:
        """Run a matcher and its feed, as a process does."""
        clock = SystemClock()
        feed = EventFeed(self.storage.events, clock)
        matcher = WebhookMatcher(store or self.storage.webhook_matching, feed, clock)
        async with AsyncExitStack() as stack:
            for name, run_once in (("feed", feed.run_once), ("matcher", matcher.run_once)):
                task = asyncio.create_task(repeat(name, run_once, 0, clock))
                stack.push_async_callback(asyncio.wait, {task})
                stack.callback(task.cancel)
            yield matcher


@pytest.fixture
async def matching(pool: Pool) -> AsyncIterator[Matching]:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    yield Matching(storage)
    await storage.close()


async def test_new_events_become_deliveries_of_each_webhook(matching: Matching) -> None:
    first, second = await matching.webhook(), await matching.webhook(types=("run.started",))
    async with matching.process():
        for number in (1, 2):
            await matching.events(first)
            await matching.events(second)
            await matching.deliveries(first, number)
    await matching.deliveries(second, 0)


async def test_webhook_created_later_gets_events(matching: Matching) -> None:
    async with matching.process():
        for _ in range(2):
            hook = await matching.webhook()
            await matching.events(hook)
            await matching.deliveries(hook, 1)


async def test_events_before_a_start_are_delivered_once(matching: Matching) -> None:
    hook = await matching.webhook()
    await matching.events(hook, 3)
    async with matching.process():
        await matching.deliveries(hook, 3)
    await matching.events(hook, 2)
    async with matching.process():
        await matching.deliveries(hook, 5)
        await matching.events(hook)
        await matching.deliveries(hook, 6)


async def test_many_events_are_delivered_in_pages(
    matching: Matching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_matching, "MAX_EVENTS", 7)
    monkeypatch.setattr(webhook_matching, "MAX_PENDING", 1000)
    hook = await matching.webhook()
    await matching.events(hook, 50)
    async with matching.process():
        events = [each.payload["data"]["id"] for each in await matching.deliveries(hook, 50)]
    assert len(set(events)) == 50


async def test_held_webhook_goes_on_when_deliveries_end(
    matching: Matching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_matching, "MAX_EVENTS", 2)
    monkeypatch.setattr(webhook_matching, "MAX_PENDING", 2)
    monkeypatch.setattr(webhook_matcher, "HELD_SECONDS", 0.05)
    hook = await matching.webhook()
    await matching.events(hook, 3)
    async with matching.process():
        await matching.deliveries(hook, 2)
        outbox, now = matching.storage.outbox, SystemClock().now()
        for due in await outbox.list_due(now, limit_per_receiver=10, limit=10):
            await outbox.record(due, Attempt(delivered_at=now, status=204), now)
        await matching.deliveries(hook, 3)


class RecordingStore:
    """A store with many organizations, whose first one always has more events."""

    def __init__(self, busy: UUID, others: Collection[UUID]) -> None:
        self.changed = asyncio.Event()
        self.turns: list[UUID] = []
        self.enough = asyncio.Event()
        self._busy = busy
        self._organization_ids = {busy, *others}

    async def list_organizations(self) -> Collection[UUID]:
        return self._organization_ids

    async def match(self, organization_id: UUID, until: int, now: datetime) -> Matched:
        self.turns.append(organization_id)
        if {*self.turns} == self._organization_ids:
            self.enough.set()
        return Matched(stored=0, has_more=organization_id == self._busy, is_held=False)


async def test_busy_organization_gets_one_turn_of_each_round(
    matching: Matching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_matcher, "MAX_ORGANIZATIONS", 3)
    busy = new_id()
    store = RecordingStore(busy, [new_id() for _ in range(8)])
    async with matching.process(store), asyncio.timeout(PATIENCE_SECONDS):
        await store.enough.wait()
    first = store.turns[: store.turns.index(busy) + 10]
    assert len(first) - first.count(busy) >= 8
    assert store.turns.count(busy) <= len(store.turns) // 2
