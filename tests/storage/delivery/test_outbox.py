"""The outbox of webhooks: due deliveries, attempts, and redelivery."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest

from storage.agents.agents import Agents
from storage.agents.templates import Templates
from storage.delivery.outbox import (
    FIRST_RECEIVER,
    Attempt,
    DeliveryFilters,
    DeliveryStatus,
    DueDelivery,
    Outbox,
    OutboxSize,
)
from storage.encryption import KEY_BYTES, SecretCipher
from storage.model import Agent, Template
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.storage import Storage
from supervisors.clock import SystemClock
from tests.storage.events.recorded import list_events
from tests.storage.factories import HOUR, NOW, SECOND, agent, stored_agent, stored_organization, template

SECRET = "whsec_c2VjcmV0"
URL = "https://a.example/"

COPY_SECRET = """
UPDATE template SET tool_call_secret = (SELECT tool_call_secret FROM template WHERE id = $1) WHERE id = $2
"""


@pytest.fixture
def outbox(pool: Pool) -> Outbox:
    return Outbox(pool)


async def stored_template(pool: Pool, url: str = URL, owner: UUID | None = None) -> Template:
    organization_id = owner or (await stored_organization(pool)).id
    stored = template(organization_id, agent_created_webhook_url=url, tool_call_secret=SECRET)
    await Templates(pool).insert(stored)
    return stored


async def stored_agent_of(pool: Pool, of: Template, **fields: object) -> Agent:
    """Store an agent, whose creation the template's webhook gets."""
    return await stored_agent(pool, of.organization_id, template_id=of.id, **fields)


async def due_at(outbox: Outbox, now: datetime) -> list[DueDelivery]:
    return await outbox.list_due(now, limit_per_receiver=10, limit=10)


async def only_due(outbox: Outbox) -> DueDelivery:
    [due] = await due_at(outbox, NOW)
    return due


async def test_new_delivery_is_due_at_once_with_templates_secret(pool: Pool, outbox: Outbox) -> None:
    desk = await stored_template(pool)
    await stored_agent_of(pool, desk)
    due = await only_due(outbox)
    assert (due.organization_id, due.url, due.attempts, due.secrets) == (
        desk.organization_id,
        URL,
        0,
        (SECRET,),
    )
    assert SECRET not in repr(due)

    await Templates(pool).update(desk.id, {"tool_call_secret": "another"}, NOW)
    assert await only_due(outbox) == replace(due, secrets=("another",))


async def test_unreadable_secret_does_not_keep_others_back(pool: Pool) -> None:
    cipher = SecretCipher([b"k" * KEY_BYTES])
    outbox, templates = Outbox(pool, cipher), Templates(pool, cipher)
    desks = [await stored_template(pool, f"https://{name}.example/") for name in ("a", "b")]
    for desk in desks:
        await templates.update(desk.id, {"tool_call_secret": SECRET}, NOW)
        await stored_agent_of(pool, desk)
    await pool.execute(COPY_SECRET, desks[0].id, desks[1].id)

    first, second = sorted(await due_at(outbox, NOW), key=lambda due: due.url)
    assert (first.secrets, first.refusal) == ((SECRET,), "")
    assert second.secrets == ()
    assert second.refusal.startswith(f"the stored secret template.tool_call_secret of {desks[1].id} can")


async def test_receiver_with_many_due_does_not_hide_others(pool: Pool, outbox: Outbox) -> None:
    busy = await stored_template(pool)
    quiet = await stored_template(pool, "https://b.example/", busy.organization_id)
    elsewhere = await stored_template(pool)
    agents = [await stored_agent_of(pool, busy, created_at=NOW - number * SECOND) for number in range(5)]
    for other in (quiet, elsewhere):
        await stored_agent_of(pool, other)
    due = await outbox.list_due(NOW, limit_per_receiver=2, limit=10)
    receivers = [delivery.receiver for delivery in due]
    assert sorted(receivers) == sorted(
        [(busy.organization_id, URL)] * 2
        + [(quiet.organization_id, "https://b.example/"), (elsewhere.organization_id, URL)]
    )
    first = [delivery.next_attempt_at for delivery in due if delivery.receiver == (busy.organization_id, URL)]
    assert first == [agents[4].created_at, agents[3].created_at]


async def test_due_deliveries_are_listed_in_pages_of_receivers(pool: Pool, outbox: Outbox) -> None:
    receivers = []
    for _ in range(3):
        desk = await stored_template(pool)
        await stored_agent_of(pool, desk)
        receivers.append((desk.organization_id, URL))
    listed, last = [], FIRST_RECEIVER
    while due := await outbox.list_due(NOW, last, limit_per_receiver=10, limit=1):
        last = due[-1].receiver
        listed.append(last)
    assert listed == sorted(receivers)


async def test_attempt_is_recorded_only_once(pool: Pool, outbox: Outbox) -> None:
    await stored_agent_of(pool, await stored_template(pool))
    due = await only_due(outbox)
    await outbox.record(due, Attempt(next_attempt_at=NOW + HOUR, status=500), NOW)
    await outbox.record(due, Attempt(delivered_at=NOW, status=200), NOW)
    delivery = await outbox.get(due.id)
    assert delivery is not None
    assert (delivery.status, delivery.attempts, delivery.last_status) == (DeliveryStatus.PENDING, 1, 500)


@pytest.mark.parametrize(
    ("attempt", "status"),
    [
        (Attempt(delivered_at=NOW, status=200), DeliveryStatus.DELIVERED),
        (Attempt(failed_at=NOW, status=410, error="The receiver answered 410."), DeliveryStatus.FAILED),
        (Attempt(next_attempt_at=NOW + HOUR, error="No connection."), DeliveryStatus.PENDING),
    ],
)
async def test_delivery_can_be_redelivered_after_any_outcome(
    pool: Pool, outbox: Outbox, attempt: Attempt, status: DeliveryStatus
) -> None:
    await stored_agent_of(pool, await stored_template(pool))
    due = await only_due(outbox)
    await outbox.record(due, attempt, NOW)
    before = await outbox.get(due.id)
    assert before is not None
    assert before.status is status
    assert (before.last_status, before.last_error) == (attempt.status, attempt.error)

    for _ in range(2):
        assert await outbox.redeliver(due.id, NOW) == replace(
            before, attempts=0, next_attempt_at=NOW, delivered_at=None, failed_at=None
        )
    assert await only_due(outbox) == due
    assert outbox.stored.is_set()


async def test_stored_event_is_set_only_for_stored_webhook(pool: Pool) -> None:
    storage = Storage(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    without_webhook, with_webhook = await stored_template(pool, ""), await stored_template(pool)
    for desk, is_set in ((without_webhook, False), (with_webhook, True)):
        await storage.agents.insert(agent(desk.organization_id, template_id=desk.id), None)
        assert storage.outbox.stored.is_set() is is_set


async def test_page_filters_deliveries_newest_first(pool: Pool, outbox: Outbox) -> None:
    desk = await stored_template(pool)
    other = await stored_template(pool, owner=desk.organization_id)
    foreign = await stored_template(pool)
    agents = [
        await stored_agent_of(pool, of, created_at=NOW - number * SECOND)
        for number, of in enumerate((desk, desk, other, foreign))
    ]
    ends = (
        Attempt(next_attempt_at=NOW + HOUR),
        Attempt(delivered_at=NOW, status=204),
        Attempt(failed_at=NOW, status=410),
    )
    deliveries = await outbox.list_page(DeliveryFilters((desk.organization_id,)), Page())
    assert [delivery.agent_id for delivery in deliveries] == [one.id for one in agents[:3]]
    due = {delivery.id: delivery for delivery in await due_at(outbox, NOW)}
    for delivery, end in zip(deliveries, ends, strict=True):
        await outbox.record(due[delivery.id], end, NOW)

    async def listed(**filters: object) -> list[UUID]:
        page = await outbox.list_page(DeliveryFilters((desk.organization_id,), **filters), Page())  # type: ignore[arg-type]
        return [delivery.id for delivery in page]

    first, second, third = (delivery.id for delivery in deliveries)
    assert await listed(status=DeliveryStatus.PENDING) == [first]
    assert await listed(status=DeliveryStatus.DELIVERED) == [second]
    assert await listed(status=DeliveryStatus.FAILED) == [third]
    assert await listed(template_id=desk.id) == [first, second]
    assert await listed(agent_id=agents[2].id) == [third]
    older = await outbox.list_page(
        DeliveryFilters((desk.organization_id,)), Page(after=(NOW, deliveries[0].id), limit=1)
    )
    assert [delivery.id for delivery in older] == [second]
    await outbox.refresh_size()
    assert outbox.last_size == OutboxSize(pending=2, failed=1)


async def test_delivery_of_deleted_agent_stays_due(pool: Pool, outbox: Outbox) -> None:
    deleted = await stored_agent_of(pool, await stored_template(pool))
    await Agents(pool).delete(deleted.id, NOW)
    assert (await only_due(outbox)).url == URL


async def test_given_up_delivery_is_recorded_once(pool: Pool, outbox: Outbox) -> None:
    stored = await stored_agent_of(pool, await stored_template(pool))
    due = await only_due(outbox)
    await outbox.record(due, Attempt(failed_at=NOW, error="x" * 300), NOW)
    await outbox.record(due, Attempt(failed_at=NOW, error="again"), NOW)

    [event] = await list_events(pool, "webhook")
    assert (event["type"], event["at"], event["resource_id"]) == ("webhook.given_up", NOW, due.id)
    assert (event["organization_id"], event["agent_id"]) == (stored.organization_id, stored.id)
    assert event["data"] == {"type": "agent.created", "url": URL, "error": "x" * 200}
