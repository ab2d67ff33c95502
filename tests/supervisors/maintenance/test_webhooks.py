"""Event webhooks: matching of events, and deliveries by their schedule."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import orjson
import pytest
from aiohttp import web

from hostsvc.execution import approval_link
from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.delivery import webhooks as stored_webhooks
from storage.delivery.outbox import (
    NO_TEMPLATE,
    Attempt,
    DeliveryFilters,
    DeliveryStatus,
    DueDelivery,
    Outbox,
    WebhookDelivery,
)
from storage.delivery.webhooks import Matched, Webhook
from storage.ids import new_id
from storage.model import Template
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.events.feed import EventFeed
from supervisors.maintenance import webhooks
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.webhooks import (
    JITTER,
    MAX_CONCURRENT,
    MAX_PER_ORGANIZATION,
    MAX_PER_RECEIVER,
    MIN_REST_SECONDS,
    SCHEDULE,
    WebhookMatcher,
    WebhookSender,
    attempt_after,
    choose,
)
from supervisors.outbound import AddressRefused, NoAnswer, NotConnected, OutboundAnswer, OutboundError
from tests.patience import PATIENCE_SECONDS
from tests.receiver import Receiver, answering, hang, receiving
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND, agent, stored_organization, template, webhook
from tests.supervisors.held_clock import HeldClock
from web.credentials.formats import ApprovalTokens

ASK = """
INSERT INTO event (at, type, organization_id, resource_id, data)
VALUES ($3, 'approval.requested', $1, $2, json_build_object('expires_at', $4::text))
"""
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
        self.storage.events.written.set()

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
def matching(pool: Pool) -> Matching:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    return Matching(storage)


async def test_new_events_become_deliveries_of_each_webhook(matching: Matching) -> None:
    first, second = await matching.webhook(), await matching.webhook(types=("run.started",))
    async with matching.process():
        for number in (1, 2):
            await matching.events(first)
            await matching.events(second)
            await matching.deliveries(first, number)
    await matching.deliveries(second, 0)


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


async def test_held_webhook_goes_on_when_deliveries_end(
    matching: Matching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_webhooks, "MAX_EVENTS", 2)
    monkeypatch.setattr(stored_webhooks, "MAX_PENDING", 2)
    monkeypatch.setattr(webhooks, "HELD_SECONDS", 0.05)
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
    monkeypatch.setattr(webhooks, "MAX_ORGANIZATIONS", 3)
    busy = new_id()
    store = RecordingStore(busy, [new_id() for _ in range(8)])
    async with matching.process(store), asyncio.timeout(PATIENCE_SECONDS):
        await store.enough.wait()
    first = store.turns[: store.turns.index(busy) + 10]
    assert len(first) - first.count(busy) >= 8
    assert store.turns.count(busy) <= len(store.turns) // 2


SECRET = "whsec_c2VjcmV0IG9mIHRoZSBkZXNr"
TOKENS = ApprovalTokens("s" * 32)
link_to = approval_link("https://agents.example", TOKENS.secret)

MULTIPLY = """
INSERT INTO webhook_delivery (
    id, organization_id, agent_id, template_id, url, payload, created_at, next_attempt_at)
SELECT gen_random_uuid(), organization_id, agent_id, template_id, url, payload, created_at, next_attempt_at
FROM webhook_delivery, generate_series(1, 10000) WHERE id = $1
"""


class Deliveries:
    """An outbox, senders for it, and a held clock; the requests themselves take real time."""

    def __init__(self, storage: Storage, stack: AsyncExitStack) -> None:
        self.storage = storage
        self.clock = HeldClock(SystemClock().now())  # because receivers verify signatures by the real time
        self._stack = stack

    async def sender(self, *, allow_private: bool = True, outbox: Outbox | None = None) -> WebhookSender:
        """Open a sender, as a process does when it starts."""
        settings = OutboundSettings(allow_private=allow_private, timeout_seconds=5)
        outbound = await self._stack.enter_async_context(open_guarded_http(settings, self.clock))
        random = Random(1)  # noqa: S311
        sender = WebhookSender(outbox or self.storage.outbox, outbound, self.clock, random, link_to)
        self._stack.push_async_callback(sender.close)
        return sender

    async def template(self, url: str, organization_id: UUID | None = None, secret: str = SECRET) -> Template:
        owner = organization_id or (await stored_organization(self.storage.pool)).id
        stored = template(owner, agent_created_webhook_url=url, tool_call_secret=secret)
        await self.storage.templates.insert(stored)
        return stored

    async def add(self, of: Template, number: int = 1) -> None:
        """Create agents of the template, each of which adds a delivery to its webhook."""
        for _ in range(number):
            new = agent(of.organization_id, template_id=of.id, created_at=self.clock.now())
            await self.storage.agents.insert(new, None)

    async def log(self, of: Template) -> list[WebhookDelivery]:
        """List the deliveries of the template, newest first."""
        return await self.storage.outbox.list_page(
            DeliveryFilters((of.organization_id,), template_id=of.id), Page()
        )

    async def only(self, of: Template) -> WebhookDelivery:
        [delivery] = await self.log(of)
        return delivery


@pytest.fixture
async def deliveries(pool: Pool) -> AsyncIterator[Deliveries]:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    async with AsyncExitStack() as stack:
        yield Deliveries(storage, stack)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def send_due(sender: WebhookSender) -> None:
    """Send the due deliveries, and wait until they are done."""
    await sender.start_due()
    await sender.finish(PATIENCE_SECONDS)


async def test_failing_receiver_gets_ten_identical_attempts(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    receiver.answer = answering(500)
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    sender = await deliveries.sender()
    for number, pause in enumerate(SCHEDULE, start=1):
        await send_due(sender)
        delivery = await deliveries.only(owner)
        assert (delivery.attempts, delivery.last_error) == (number, "The receiver answered 500.")
        assert delivery.next_attempt_at is not None
        pause_now = delivery.next_attempt_at - deliveries.clock.now()
        assert pause <= pause_now <= pause * (1 + JITTER)
        deliveries.clock.advance(pause_now.total_seconds() - 0.001)
        await send_due(sender)
        assert len(receiver.requests) == number, "the delivery was sent too early"
        deliveries.clock.advance(0.002)
    await send_due(sender)

    delivery = await deliveries.only(owner)
    assert (delivery.status, delivery.attempts) == (DeliveryStatus.FAILED, 10)
    assert len(receiver.requests) == 10
    assert {(request.id, request.body) for request in receiver.requests} == {
        (str(delivery.id), receiver.requests[0].body)
    }
    deliveries.clock.advance(100 * 86_400)
    await send_due(sender)
    assert len(receiver.requests) == 10, "the delivery was sent after it was given up"


async def test_link_to_a_question_is_sent_but_not_stored(deliveries: Deliveries, receiver: Receiver) -> None:
    storage, now, call_id = deliveries.storage, deliveries.clock.now(), new_id()
    owner = (await stored_organization(storage.pool)).id
    hook = webhook(owner, url=receiver.url, types=("approval.*",))
    await storage.webhooks.insert(hook, SECRET)
    expires_at = now + timedelta(days=7)
    await storage.pool.execute(ASK, owner, call_id, now, expires_at.isoformat())
    assert (await storage.webhook_matching.match(owner, 2**62, now)).stored == 1
    sender = await deliveries.sender()
    receiver.answer = answering(500)
    await send_due(sender)
    deliveries.clock.advance(10)
    await send_due(sender)
    first, second = receiver.requests
    assert first.body == second.body
    address, token = orjson.loads(first.body)["data"]["link"].split("#token=")
    assert address == f"https://agents.example/console/approvals/{call_id}"
    assert TOKENS.read(token, expires_at - SECOND) == call_id
    assert TOKENS.read(token, expires_at) is None
    [stored] = await storage.outbox.list_page(DeliveryFilters((owner,)), Page())
    assert "link" not in stored.payload["data"]


async def test_webhook_of_a_deleted_template_is_not_sent(deliveries: Deliveries, receiver: Receiver) -> None:
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    await deliveries.storage.templates.delete_detaching(owner.id, deliveries.clock.now())
    await send_due(await deliveries.sender())
    delivery = await deliveries.only(owner)
    assert (delivery.status, delivery.last_error) == (DeliveryStatus.FAILED, NO_TEMPLATE)
    assert receiver.requests == []


async def test_delivery_in_progress_at_a_crash_is_repeated_unchanged(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    receiver.answer = hang
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    dying_sender = await deliveries.sender()
    await dying_sender.start_due()
    await receiver.wait_for(1)
    await dying_sender.close()

    receiver.answer = None
    await send_due(await deliveries.sender())
    first, second = receiver.requests
    assert (first.id, first.body) == (second.id, second.body)
    assert (await deliveries.only(owner)).status is DeliveryStatus.DELIVERED


async def test_delivery_in_progress_is_not_started_twice(deliveries: Deliveries, receiver: Receiver) -> None:
    receiver.answer = hang
    await deliveries.add(await deliveries.template(receiver.url))
    sender = await deliveries.sender()
    for _ in range(3):
        await sender.start_due()
    await receiver.wait_for(1)
    await sender.close()
    assert len(receiver.requests) == 1


async def test_redelivery_requested_during_a_delivery_is_sent(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    refuses = asyncio.Event()

    async def refuse_later(_: web.Request) -> web.Response:
        await refuses.wait()
        return web.Response(status=410)

    receiver.answer = refuse_later
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    sender = await deliveries.sender()
    await sender.start_due()
    [first] = await receiver.wait_for(1)
    deliveries.clock.advance(1)
    await deliveries.storage.outbox.redeliver(UUID(first.id), deliveries.clock.now())
    refuses.set()
    await sender.finish(PATIENCE_SECONDS)
    assert (await deliveries.only(owner)).status is DeliveryStatus.PENDING

    receiver.answer = None
    await send_due(sender)
    assert (await deliveries.only(owner)).status is DeliveryStatus.DELIVERED
    assert [request.id for request in receiver.requests] == [first.id] * 2


class SlowOutbox(Outbox):
    """An outbox that can hold back a list until it is out of date."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.has_read = asyncio.Event()

    async def list_due(self, *args: Any, **kwargs: Any) -> list[DueDelivery]:
        due = await super().list_due(*args, **kwargs)
        self.has_read.set()
        await self.may_go_on.wait()
        return due


async def test_delivery_that_ends_during_a_scan_is_not_repeated(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    answers = asyncio.Event()

    async def answer_then(_: web.Request) -> web.Response:
        await answers.wait()
        return web.Response()

    receiver.answer = answer_then
    outbox = SlowOutbox(deliveries.storage.pool)
    sender = await deliveries.sender(outbox=outbox)
    await deliveries.add(await deliveries.template(receiver.url))
    await sender.start_due()
    await receiver.wait_for(1)

    outbox.may_go_on.clear()
    outbox.has_read.clear()
    scan = asyncio.create_task(sender.start_due())
    await outbox.has_read.wait()
    answers.set()
    await sender.finish(PATIENCE_SECONDS)
    outbox.may_go_on.set()
    await scan
    await sender.finish(PATIENCE_SECONDS)
    assert len(receiver.requests) == 1


async def test_hanging_receiver_delays_no_other_receiver(deliveries: Deliveries, receiver: Receiver) -> None:
    async with receiving() as hanging:
        hanging.answer = hang
        crowded = await deliveries.template(hanging.url)
        neighbour = await deliveries.template(f"{receiver.url}/neighbour", crowded.organization_id)
        stranger = await deliveries.template(f"{receiver.url}/stranger")
        await deliveries.add(crowded)
        await deliveries.storage.pool.execute(MULTIPLY, (await deliveries.only(crowded)).id)
        for owner in (neighbour, stranger):
            await deliveries.add(owner)
        sender = await deliveries.sender()
        await sender.start_due()
        await receiver.wait_for(2)
        assert {request.path for request in receiver.requests} == {"/neighbour", "/stranger"}
        await sender.close()


async def test_stored_webhook_is_sent_without_waiting_for_a_scan(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    """The held clock rules out another scan."""
    owner = await deliveries.template(receiver.url)
    sender = await deliveries.sender()
    loop = asyncio.create_task(repeat("webhooks", sender.run_once, 0, deliveries.clock))
    await deliveries.add(owner)
    await receiver.wait_for(1)
    loop.cancel()
    await asyncio.wait({loop})


async def test_first_retry_does_not_wait_for_a_scan(deliveries: Deliveries, receiver: Receiver) -> None:
    receiver.answer = answering(500)
    await deliveries.add(await deliveries.template(receiver.url))
    await send_due(await deliveries.sender())
    new = deliveries.storage.outbox.stored
    new.clear()

    deliveries.clock.advance(SCHEDULE[0].total_seconds() * (1 + JITTER) + MIN_REST_SECONDS)

    assert new.is_set()


def answer(status: int, retry_after: timedelta | None = None) -> OutboundAnswer:
    return OutboundAnswer(status, "text/html", b"<html>", retry_after)


def pause(attempts: int, outcome: OutboundAnswer, stretch: float = 1) -> timedelta:
    next_attempt_at = attempt_after(outcome, attempts, NOW, stretch).next_attempt_at
    assert next_attempt_at is not None, "the delivery was given up"
    return next_attempt_at - NOW


def test_pauses_grow_from_seconds_to_a_day() -> None:
    hours = [2, 5, 10, 14, 20, 24]
    expected = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, *(number * HOUR for number in hours)]
    assert [pause(attempts, answer(500)) for attempts in range(1, 10)] == expected


@pytest.mark.parametrize(
    ("attempts", "outcome", "expected"),
    [
        (10, answer(200), Attempt(delivered_at=NOW, status=200)),
        (10, answer(299), Attempt(delivered_at=NOW, status=299)),
        (10, answer(503), Attempt(failed_at=NOW, status=503, error="The receiver answered 503.")),
        (10, NoAnswer("Too slow."), Attempt(failed_at=NOW, error="Too slow.")),
        (1, answer(410), Attempt(failed_at=NOW, status=410, error="The receiver answered 410.")),
        (1, AddressRefused("It is private."), Attempt(failed_at=NOW, error="It is private.")),
        (1, NotConnected("Refused."), Attempt(next_attempt_at=NOW + 5 * SECOND, error="Refused.")),
    ],
)
def test_answer_decides_the_attempt(
    attempts: int, outcome: OutboundAnswer | OutboundError, expected: Attempt
) -> None:
    assert attempt_after(outcome, attempts, NOW, 1) == expected


def test_retry_after_lengthens_the_pause_up_to_a_day() -> None:
    assert pause(1, answer(429, 2 * MINUTE)) == 2 * MINUTE
    assert pause(2, answer(429, 2 * MINUTE)) == 5 * MINUTE
    assert pause(1, answer(503, 1000 * HOUR)) == 24 * HOUR


def test_stretch_lengthens_the_pause() -> None:
    assert pause(1, answer(500), stretch=1.1) == 5.5 * SECOND


def due(organization_id: UUID, url: str = "https://a.example", seconds: float = 0) -> DueDelivery:
    at = NOW + timedelta(seconds=seconds)
    return DueDelivery(new_id(), organization_id, url, b"{}", 0, at, secrets=("",))


def test_crowded_receiver_leaves_room_for_others() -> None:
    crowded, other = new_id(), new_id()
    waiting = [due(crowded, seconds=number) for number in range(2 * MAX_PER_RECEIVER)]
    waiting += [due(crowded, "https://b.example", 100), due(other, "https://c.example", 200)]
    chosen = choose(waiting, [])
    assert chosen[:3] == [waiting[0], waiting[-1], waiting[-2]]
    assert len(chosen) == MAX_PER_RECEIVER + 2


def test_crowded_organization_leaves_room_for_others() -> None:
    crowded, other = new_id(), new_id()
    waiting = [due(crowded, f"https://{number}.example", number) for number in range(1000)]
    in_progress = waiting[: MAX_PER_ORGANIZATION - 1]
    waiting.append(due(other, seconds=2000))
    assert choose(waiting[len(in_progress) :], in_progress) == [waiting[-1], waiting[len(in_progress)]]


def test_concurrent_deliveries_are_limited() -> None:
    waiting = [due(new_id(), seconds=number) for number in range(2 * MAX_CONCURRENT)]
    assert choose(waiting, []) == waiting[:MAX_CONCURRENT]
    assert choose(waiting[MAX_CONCURRENT:], waiting[: MAX_CONCURRENT - 1]) == [waiting[MAX_CONCURRENT]]
    assert choose(waiting[MAX_CONCURRENT:], waiting[:MAX_CONCURRENT]) == []
