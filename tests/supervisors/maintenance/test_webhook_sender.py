"""The webhook sender: deliveries from the outbox to real receivers, with a held clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.delivery.outbox import (
    NO_TEMPLATE,
    DeliveryFilters,
    DeliveryStatus,
    DueDelivery,
    Outbox,
    WebhookDelivery,
)
from storage.model import Template
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.webhook_sender import JITTER, SCHEDULE, WebhookSender
from tests.receiver import Receiver, answering, hang, receiving
from tests.storage.factories import MINUTE, agent, stored_organization, template, webhook
from tests.supervisors.held_clock import HeldClock

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBkZXNr"
PATIENCE_SECONDS = 10.0

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
        sender = WebhookSender(outbox or self.storage.outbox, outbound, self.clock, Random(1))  # noqa: S311
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
    await storage.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def send_due(sender: WebhookSender) -> None:
    """Send the due deliveries, and wait until they are done."""
    await sender.start_due()
    await sender.finish(PATIENCE_SECONDS)


async def test_received_webhook_is_signed_and_matches_the_log(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    owner = await deliveries.template(f"{receiver.url}/hook")
    await deliveries.add(owner)
    await send_due(await deliveries.sender())

    [received] = receiver.requests
    delivery = await deliveries.only(owner)
    assert received.path == "/hook"
    assert received.id == str(delivery.id)
    assert received.verified_by(SECRET) == delivery.payload
    assert delivery.status is DeliveryStatus.DELIVERED
    assert (delivery.attempts, delivery.delivered_at) == (1, deliveries.clock.now())
    assert (delivery.last_status, delivery.last_error) == (204, "")


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


async def test_recovered_receiver_gets_the_missed_webhook(deliveries: Deliveries, receiver: Receiver) -> None:
    receiver.answer = answering(503)
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    sender = await deliveries.sender()
    await send_due(sender)
    receiver.answer = None
    deliveries.clock.advance(6)
    await send_due(sender)
    delivery = await deliveries.only(owner)
    assert (delivery.status, delivery.attempts, delivery.last_status) == (DeliveryStatus.DELIVERED, 2, 204)


async def test_retry_after_header_delays_the_next_attempt(deliveries: Deliveries, receiver: Receiver) -> None:
    receiver.answer = answering(429, Retry_After="600")
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    await send_due(await deliveries.sender())
    assert (await deliveries.only(owner)).next_attempt_at == deliveries.clock.now() + 10 * MINUTE


async def test_gone_receiver_is_not_tried_again(deliveries: Deliveries, receiver: Receiver) -> None:
    receiver.answer = answering(410)
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    await send_due(await deliveries.sender())
    delivery = await deliveries.only(owner)
    assert (delivery.status, delivery.last_status) == (DeliveryStatus.FAILED, 410)


async def test_redirect_is_not_followed_but_tried_again(deliveries: Deliveries, receiver: Receiver) -> None:
    receiver.answer = answering(302, Location="/elsewhere")
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    await send_due(await deliveries.sender())
    delivery = await deliveries.only(owner)
    assert len(receiver.requests) == 1
    assert delivery.status is DeliveryStatus.PENDING
    assert delivery.last_error == "The receiver answered 302; redirects are not followed."


async def test_endless_answer_is_cut_and_tried_again(deliveries: Deliveries, receiver: Receiver) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"a" * 65_536)

    receiver.answer = flood
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    await send_due(await deliveries.sender())
    delivery = await deliveries.only(owner)
    assert delivery.status is DeliveryStatus.PENDING
    assert delivery.last_error == "The answer is longer than 1,048,576 bytes; the rest was not read."


async def test_private_address_is_given_up_and_unknown_host_retried(deliveries: Deliveries) -> None:
    inside, away = (
        await deliveries.template("http://10.0.0.1/"),
        await deliveries.template("http://no.invalid/"),
    )
    for owner in (inside, away):
        await deliveries.add(owner)
    await send_due(await deliveries.sender(allow_private=False))
    refused, unknown = await deliveries.only(inside), await deliveries.only(away)
    assert refused.status is DeliveryStatus.FAILED
    assert refused.last_error.startswith("The address 10.0.0.1 is private; outbound calls go to public")
    assert unknown.status is DeliveryStatus.PENDING
    assert unknown.last_error.startswith("No connection to no.invalid was made: its address was not found")


async def test_webhook_is_signed_with_the_current_secret(deliveries: Deliveries, receiver: Receiver) -> None:
    owner = await deliveries.template(receiver.url)
    await deliveries.add(owner)
    await deliveries.storage.templates.update(owner.id, {"tool_call_secret": "whsec_YW5vdGhlcg=="})
    await send_due(await deliveries.sender())
    [received] = receiver.requests
    received.verified_by("whsec_YW5vdGhlcg==")


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


async def test_event_webhook_is_signed_with_both_secrets_after_rotation(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    storage, now = deliveries.storage, deliveries.clock.now()
    hook = webhook((await stored_organization(storage.pool)).id, url=receiver.url)
    await storage.webhooks.insert(hook, SECRET)
    await storage.webhooks.rotate_secret(hook.id, "whsec_YW5vdGhlcg==", now)
    await storage.outbox.insert_test(hook.id, now)
    await send_due(await deliveries.sender())
    [received] = receiver.requests
    assert len(received.headers["webhook-signature"].split()) == 2
    for secret in (SECRET, "whsec_YW5vdGhlcg=="):
        assert received.verified_by(secret)["type"] == "webhook.test"


async def test_receiver_that_fails_for_five_days_gets_no_more(
    deliveries: Deliveries, receiver: Receiver
) -> None:
    receiver.answer = answering(500)
    storage, clock = deliveries.storage, deliveries.clock
    hook = webhook((await stored_organization(storage.pool)).id, url=receiver.url)
    await storage.webhooks.insert(hook, SECRET)
    sender = await deliveries.sender()
    with capture_logs() as lines:
        for day in range(6):
            await storage.outbox.insert_test(hook.id, clock.now())
            await send_due(sender)
            stored = await storage.webhooks.get(hook.id)
            assert stored is not None
            assert stored.is_active is (day < 5)
            clock.advance(86_400)
    [reason] = [line["reason"] for line in lines if line["event"] == "webhook switched off"]
    assert reason.endswith("The last error: The receiver answered 500.")
    requests = len(receiver.requests)
    await send_due(sender)
    assert len(receiver.requests) == requests, "a webhook that is switched off was called"
