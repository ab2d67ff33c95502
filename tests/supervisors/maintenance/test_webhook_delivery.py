"""Webhooks from the outbox to real receivers, in held time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from hostsvc.outbound.guarded_http import OutboundSettings, open_guarded_http
from storage.delivery.outbox import DeliveryFilters, DeliveryStatus, DueDelivery, Outbox, WebhookDelivery
from storage.model import Template
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage, build_storage
from supervisors.clock import SystemClock
from supervisors.maintenance.loop import repeat
from supervisors.maintenance.webhook_delivery import JITTER, NO_TEMPLATE, SCHEDULE, WebhookSender
from tests.receiver import Receiver, answering, hang, receiving
from tests.storage.factories import MINUTE, agent, stored_organization, template
from tests.supervisors.held_clock import HeldClock

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBkZXNr"
PATIENCE_SECONDS = 10.0

MULTIPLY = """
INSERT INTO webhook_delivery (
    id, organization_id, agent_id, template_id, url, payload, created_at, next_attempt_at)
SELECT gen_random_uuid(), organization_id, agent_id, template_id, url, payload, created_at, next_attempt_at
FROM webhook_delivery, generate_series(1, 10000) WHERE id = $1
"""


class Post:
    """An outbox, who delivers it, and a clock that stands still; what is under way takes real time."""

    def __init__(self, storage: Storage, stack: AsyncExitStack) -> None:
        self.storage = storage
        self.clock = HeldClock(SystemClock().now())  # as signatures are verified by the real one
        self._stack = stack

    async def office(self, *, allow_private: bool = True, outbox: Outbox | None = None) -> WebhookSender:
        """The duty, as a process has it that has just started."""
        settings = OutboundSettings(allow_private=allow_private, timeout_seconds=5)
        outbound = await self._stack.enter_async_context(open_guarded_http(settings, self.clock))
        webhooks = WebhookSender(outbox or self.storage.outbox, outbound, self.clock, Random(1))  # noqa: S311
        self._stack.push_async_callback(webhooks.close)
        return webhooks

    async def template(self, url: str, organization_id: UUID | None = None, secret: str = SECRET) -> Template:
        owner = organization_id or (await stored_organization(self.storage.pool)).id
        stored = template(owner, agent_created_webhook_url=url, tool_call_secret=secret)
        await self.storage.templates.insert(stored)
        return stored

    async def tell(self, of: Template, number: int = 1) -> None:
        """Make so many agents, each of which the template's webhook is to be told of."""
        for _ in range(number):
            new = agent(of.organization_id, template_id=of.id, created_at=self.clock.now())
            await self.storage.agents.insert(new, None)

    async def log(self, of: Template) -> list[WebhookDelivery]:
        """The deliveries of the template, newest first."""
        return await self.storage.outbox.page(
            DeliveryFilters((of.organization_id,), template_id=of.id), Page()
        )

    async def only(self, of: Template) -> WebhookDelivery:
        [delivery] = await self.log(of)
        return delivery


@pytest.fixture
async def post(pool: Pool) -> AsyncIterator[Post]:
    storage = build_storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    async with AsyncExitStack() as stack:
        yield Post(storage, stack)
    await storage.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def once(webhooks: WebhookSender) -> None:
    """Send what is due, to the end."""
    await webhooks.start_due()
    await webhooks.settle(PATIENCE_SECONDS)


async def test_what_is_received_is_signed_and_says_what_the_log_says(post: Post, receiver: Receiver) -> None:
    desk = await post.template(f"{receiver.url}/hook")
    await post.tell(desk)
    await once(await post.office())

    [received] = receiver.got
    delivery = await post.only(desk)
    assert received.path == "/hook"
    assert received.id == str(delivery.id)
    assert received.verified_by(SECRET) == delivery.payload
    assert delivery.status is DeliveryStatus.DELIVERED
    assert (delivery.attempts, delivery.delivered_at) == (1, post.clock.now())
    assert (delivery.last_status, delivery.last_error) == (204, "")


async def test_a_receiver_that_fails_is_tried_ten_times_over_days_with_the_same_id_and_bytes(
    post: Post, receiver: Receiver
) -> None:
    receiver.answer = answering(500)
    desk = await post.template(receiver.url)
    await post.tell(desk)
    office = await post.office()
    for number, pause in enumerate(SCHEDULE, start=1):
        await once(office)
        delivery = await post.only(desk)
        assert (delivery.attempts, delivery.last_error) == (number, "The receiver answered 500.")
        assert delivery.next_attempt_at is not None
        waits = delivery.next_attempt_at - post.clock.now()
        assert pause <= waits <= pause * (1 + JITTER)
        post.clock.advance(waits.total_seconds() - 0.001)
        await once(office)
        assert len(receiver.got) == number, "it was sent before its time"
        post.clock.advance(0.002)
    await once(office)

    delivery = await post.only(desk)
    assert (delivery.status, delivery.attempts) == (DeliveryStatus.FAILED, 10)
    assert len(receiver.got) == 10
    assert {(each.id, each.body) for each in receiver.got} == {(str(delivery.id), receiver.got[0].body)}
    post.clock.advance(100 * 86_400)
    await once(office)
    assert len(receiver.got) == 10, "it was sent after it was given up"


async def test_a_receiver_that_recovers_gets_what_it_missed(post: Post, receiver: Receiver) -> None:
    receiver.answer = answering(503)
    desk = await post.template(receiver.url)
    await post.tell(desk)
    office = await post.office()
    await once(office)
    receiver.answer = None
    post.clock.advance(6)
    await once(office)
    delivery = await post.only(desk)
    assert (delivery.status, delivery.attempts, delivery.last_status) == (DeliveryStatus.DELIVERED, 2, 204)


async def test_a_receiver_may_ask_to_be_left_alone_for_longer(post: Post, receiver: Receiver) -> None:
    receiver.answer = answering(429, Retry_After="600")
    desk = await post.template(receiver.url)
    await post.tell(desk)
    await once(await post.office())
    assert (await post.only(desk)).next_attempt_at == post.clock.now() + 10 * MINUTE


async def test_a_receiver_that_is_gone_is_not_tried_again(post: Post, receiver: Receiver) -> None:
    receiver.answer = answering(410)
    desk = await post.template(receiver.url)
    await post.tell(desk)
    await once(await post.office())
    delivery = await post.only(desk)
    assert (delivery.status, delivery.last_status) == (DeliveryStatus.FAILED, 410)


async def test_a_redirect_is_not_followed_and_tried_again(post: Post, receiver: Receiver) -> None:
    receiver.answer = answering(302, Location="/elsewhere")
    desk = await post.template(receiver.url)
    await post.tell(desk)
    await once(await post.office())
    delivery = await post.only(desk)
    assert len(receiver.got) == 1
    assert delivery.status is DeliveryStatus.PENDING
    assert delivery.last_error == "The receiver answered 302; redirects are not followed."


async def test_an_endless_answer_is_not_read_and_tried_again(post: Post, receiver: Receiver) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"a" * 65_536)

    receiver.answer = flood
    desk = await post.template(receiver.url)
    await post.tell(desk)
    await once(await post.office())
    delivery = await post.only(desk)
    assert delivery.status is DeliveryStatus.PENDING
    assert delivery.last_error == "The answer is longer than 1,048,576 bytes; the rest was not read."


async def test_an_address_inside_is_given_up_and_one_that_is_away_is_tried_again(post: Post) -> None:
    inside, away = await post.template("http://10.0.0.1/"), await post.template("http://no.invalid/")
    for each in (inside, away):
        await post.tell(each)
    await once(await post.office(allow_private=False))
    refused, unknown = await post.only(inside), await post.only(away)
    assert refused.status is DeliveryStatus.FAILED
    assert refused.last_error.startswith("The address 10.0.0.1 is private; outbound calls go to public")
    assert unknown.status is DeliveryStatus.PENDING
    assert unknown.last_error.startswith("No connection to no.invalid was made: its address was not found")


async def test_it_is_signed_with_the_secret_that_the_template_has_at_the_attempt(
    post: Post, receiver: Receiver
) -> None:
    desk = await post.template(receiver.url)
    await post.tell(desk)
    await post.storage.templates.update(desk.id, {"tool_call_secret": "whsec_YW5vdGhlcg=="})
    await once(await post.office())
    [received] = receiver.got
    received.verified_by("whsec_YW5vdGhlcg==")


async def test_without_its_template_nothing_is_sent_as_nothing_could_vouch_for_it(
    post: Post, receiver: Receiver
) -> None:
    desk = await post.template(receiver.url)
    await post.tell(desk)
    await post.storage.templates.delete_detaching(desk.id)
    await once(await post.office())
    delivery = await post.only(desk)
    assert (delivery.status, delivery.last_error) == (DeliveryStatus.FAILED, NO_TEMPLATE)
    assert receiver.got == []


async def test_what_was_under_way_when_the_process_died_is_sent_again_under_its_id(
    post: Post, receiver: Receiver
) -> None:
    receiver.answer = hang
    desk = await post.template(receiver.url)
    await post.tell(desk)
    dying = await post.office()
    await dying.start_due()
    await receiver.wait_for(1)
    await dying.close()

    receiver.answer = None
    await once(await post.office())
    first, second = receiver.got
    assert (first.id, first.body) == (second.id, second.body)
    assert (await post.only(desk)).status is DeliveryStatus.DELIVERED


async def test_what_is_under_way_is_not_started_twice(post: Post, receiver: Receiver) -> None:
    receiver.answer = hang
    await post.tell(await post.template(receiver.url))
    office = await post.office()
    for _ in range(3):
        await office.start_due()
    await receiver.wait_for(1)
    await office.close()
    assert len(receiver.got) == 1


async def test_what_is_asked_for_once_more_while_it_is_under_way_is_sent_once_more(
    post: Post, receiver: Receiver
) -> None:
    refuses = asyncio.Event()

    async def refuse_later(_: web.Request) -> web.Response:
        await refuses.wait()
        return web.Response(status=410)

    receiver.answer = refuse_later
    desk = await post.template(receiver.url)
    await post.tell(desk)
    office = await post.office()
    await office.start_due()
    [first] = await receiver.wait_for(1)
    post.clock.advance(1)
    await post.storage.outbox.redeliver(UUID(first.id), post.clock.now())
    refuses.set()
    await office.settle(PATIENCE_SECONDS)
    assert (await post.only(desk)).status is DeliveryStatus.PENDING

    receiver.answer = None
    await once(office)
    assert (await post.only(desk)).status is DeliveryStatus.DELIVERED
    assert [each.id for each in receiver.got] == [first.id] * 2


class SlowOutbox(Outbox):
    """Hands out a list only when it is let go on, by when it may be out of date."""

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


async def test_what_ends_while_the_list_is_read_is_not_started_again(post: Post, receiver: Receiver) -> None:
    answers = asyncio.Event()

    async def answer_then(_: web.Request) -> web.Response:
        await answers.wait()
        return web.Response()

    receiver.answer = answer_then
    outbox = SlowOutbox(post.storage.pool)
    office = await post.office(outbox=outbox)
    await post.tell(await post.template(receiver.url))
    await office.start_due()
    await receiver.wait_for(1)

    outbox.may_go_on.clear()
    outbox.has_read.clear()
    scan = asyncio.create_task(office.start_due())
    await outbox.has_read.wait()
    answers.set()
    await office.settle(PATIENCE_SECONDS)
    outbox.may_go_on.set()
    await scan
    await office.settle(PATIENCE_SECONDS)
    assert len(receiver.got) == 1


async def test_thousands_for_a_receiver_that_hangs_delay_neither_neighbours_nor_others(
    post: Post, receiver: Receiver
) -> None:
    async with receiving() as hanging:
        hanging.answer = hang
        crowded = await post.template(hanging.url)
        neighbour = await post.template(f"{receiver.url}/neighbour", crowded.organization_id)
        stranger = await post.template(f"{receiver.url}/stranger")
        await post.tell(crowded)
        await post.storage.pool.execute(MULTIPLY, (await post.only(crowded)).id)
        for each in (neighbour, stranger):
            await post.tell(each)
        office = await post.office()
        await office.start_due()
        await receiver.wait_for(2)
        assert {each.path for each in receiver.got} == {"/neighbour", "/stranger"}
        await office.close()


async def test_it_is_sent_when_it_is_stored_and_does_not_wait_for_the_next_scan(
    post: Post, receiver: Receiver
) -> None:
    """The clock stands still, so no scan can come."""
    desk = await post.template(receiver.url)
    office = await post.office()
    duty = asyncio.create_task(repeat("webhooks", office.run_once, 0, post.clock))
    await post.tell(desk)
    await receiver.wait_for(1)
    duty.cancel()
    await asyncio.wait({duty})
