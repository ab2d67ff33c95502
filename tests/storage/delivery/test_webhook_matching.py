"""The matching of events with webhooks: which events become deliveries, and that each does once."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from storage.delivery import webhooks
from storage.delivery.outbox import Attempt, DeliveryFilters, DeliveryStatus, Outbox, WebhookDelivery
from storage.delivery.webhooks import Matched, Webhook, WebhookMatching, Webhooks
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.events.recorded import forget_events
from tests.storage.factories import NOW, SECOND, stored_agent, stored_organization, template, webhook

INSERT_EVENT = """
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id
"""


@dataclass
class Log:
    """An organization with an agent, its event log, and the matching of both with webhooks."""

    pool: Pool
    agent: Agent
    outbox: Outbox
    webhooks: Webhooks
    matching: WebhookMatching
    last: int = 0

    @property
    def owner(self) -> UUID:
        return self.agent.organization_id

    async def webhook(self, *types: str, **fields: Any) -> Webhook:
        stored = webhook(self.owner, types=types or ("*",), **fields)
        await self.webhooks.insert(stored, "whsec_c2VjcmV0")
        return stored

    async def event(self, type_: str, agent_id: UUID | None = None, **fields: Any) -> int:
        """Add an event of the organization, by default about its agent."""
        row: dict[str, Any] = {
            "at": NOW,
            "type": type_,
            "organization_id": self.owner,
            "agent_id": None
            if type_.startswith(("organization.", "webhook."))
            else agent_id or self.agent.id,
            "run_id": None,
            "resource_id": None,
            "actor": "",
            "data": {},
        }
        self.last = await self.pool.fetchval(INSERT_EVENT, *(row | fields).values())
        return self.last

    async def match(self) -> Matched:
        """Match all events of the organization that are settled."""
        return await self.matching.match(self.owner, self.last, NOW)

    async def deliveries(self, of: Webhook) -> list[WebhookDelivery]:
        return await self.outbox.list_page(DeliveryFilters((self.owner,), webhook_id=of.id), Page())

    async def types(self, of: Webhook) -> list[str]:
        return sorted(delivery.type for delivery in await self.deliveries(of))


@pytest.fixture
async def log(pool: Pool) -> Log:
    outbox = Outbox(pool)
    scout = await stored_agent(pool, tags=["vip"])
    webhooks = Webhooks(pool)
    matching = WebhookMatching(pool, stored=outbox.stored, changed=webhooks.changed)
    return Log(pool, scout, outbox, webhooks, matching)


async def test_audit_entries_are_delivered_to_nobody(log: Log) -> None:
    hook = await log.webhook()  # of all types
    for type_ in ("audit", "run.ended"):
        await log.event(type_)
    assert (await log.match()).stored == 1
    assert await log.types(hook) == ["run.ended"]


async def test_delivery_contains_the_event(log: Log) -> None:
    hook = await log.webhook(url="https://a.example/")
    run_id, resource_id = new_id(), new_id()
    event_id = await log.event(
        "run.ended", run_id=run_id, resource_id=resource_id, actor=f"run:{run_id}", data={"turns": 3}
    )
    assert await log.match() == Matched(stored=1, has_more=False, is_held=False)
    assert log.outbox.stored.is_set()

    [delivery] = await log.deliveries(hook)
    assert (delivery.agent_id, delivery.template_id, delivery.url) == (log.agent.id, None, hook.url)
    assert (delivery.status, delivery.created_at) == (DeliveryStatus.PENDING, NOW)
    assert delivery.payload == {
        "type": "run.ended",
        "timestamp": "2126-11-21T09:00:00.000000Z",
        "data": {
            "id": event_id,
            "type": "run.ended",
            "at": "2126-11-21T09:00:00.000000Z",
            "organization": str(log.owner),
            "agent": str(log.agent.id),
            "run": str(run_id),
            "resource_id": str(resource_id),
            "by": {"type": "run", "id": str(run_id)},
            "data": {"turns": 3},
        },
    }


@pytest.mark.parametrize(
    ("actor", "shown"),
    [
        ("", {"type": "service", "id": None}),
        ("operator", {"type": "operator", "id": None}),
        ("key:42", {"type": "key", "id": "42"}),
    ],
)
async def test_delivery_names_who_made_the_change(log: Log, actor: str, shown: dict[str, Any]) -> None:
    hook = await log.webhook()
    await log.event("agent.changed", actor=actor)
    await log.match()
    [delivery] = await log.deliveries(hook)
    assert delivery.payload["data"]["by"] == shown


async def test_webhook_gets_the_types_that_it_names(log: Log) -> None:
    exact, kind, both = (
        await log.webhook("run.ended"),
        await log.webhook("run.*"),
        await log.webhook("run.*", "run.ended"),
    )
    for type_ in ("run.started", "run.ended", "agent.asleep"):
        await log.event(type_)
    await log.match()
    assert await log.types(exact) == ["run.ended"]
    assert await log.types(kind) == ["run.ended", "run.started"]
    assert await log.types(both) == ["run.ended", "run.started"]


async def test_webhook_is_narrowed_by_agent_template_and_tag(log: Log) -> None:
    desk = template(log.owner)
    await log.pool.execute(
        "INSERT INTO template (id, organization_id, name, created_at) VALUES ($1, $2, 'Desk', $3)",
        desk.id,
        log.owner,
        NOW,
    )
    clerk = await stored_agent(log.pool, log.owner, template_id=desk.id, tags=["vip", "new"])
    of_agent = await log.webhook(agent_id=log.agent.id)
    of_template = await log.webhook(template_id=desk.id)
    of_tag = await log.webhook(tag="vip")
    of_both = await log.webhook(agent_id=log.agent.id, tag="new")
    await log.event("run.started")
    await log.event("run.ended", clerk.id)
    await log.match()
    assert await log.types(of_agent) == ["run.started"]
    assert await log.types(of_template) == ["run.ended"]
    assert await log.types(of_tag) == ["run.ended", "run.started"]
    assert await log.types(of_both) == []


async def test_narrowed_webhook_gets_pauses_of_its_organization(log: Log) -> None:
    hook = await log.webhook(agent_id=log.agent.id)
    for type_ in ("organization.paused", "webhook.disabled"):
        await log.event(type_)
    await log.match()
    assert await log.types(hook) == ["organization.paused"]


async def test_webhook_gets_no_event_of_others_or_from_before(log: Log) -> None:
    await log.event("run.started")
    hook = await log.webhook()
    await log.event("run.ended", organization_id=(await stored_organization(log.pool)).id)
    await log.match()
    assert await log.types(hook) == []


async def test_each_event_is_delivered_once_across_pages(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_EVENTS", 2)
    hook = await log.webhook("run.*")
    await forget_events(log.pool)
    for type_ in ("run.started", "agent.asleep", "agent.asleep", "agent.asleep", "run.ended"):
        await log.event(type_)
    results = [await log.match() for _ in range(4)]
    assert [(result.stored, result.has_more) for result in results] == [
        (1, True),
        (0, True),
        (1, False),
        (0, False),
    ]
    assert await log.types(hook) == ["run.ended", "run.started"]


async def test_events_behind_the_settled_id_wait(log: Log) -> None:
    hook = await log.webhook()
    settled = await log.event("run.started")
    await log.event("run.ended")
    await log.matching.match(log.owner, settled, NOW)
    assert await log.types(hook) == ["run.started"]
    await log.match()
    assert await log.types(hook) == ["run.ended", "run.started"]


async def test_webhook_with_many_pending_deliveries_waits(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_PENDING", 2)
    slow, other = await log.webhook(url="https://slow.example/"), await log.webhook("run.started")
    for _ in range(2):
        await log.event("run.ended")
    await log.match()
    await log.event("run.started")
    assert await log.match() == Matched(stored=1, has_more=False, is_held=True)
    assert await log.types(slow) == ["run.ended", "run.ended"]
    assert await log.types(other) == ["run.started"]

    for due in await log.outbox.list_due(NOW, limit_per_receiver=10, limit=10):
        await log.outbox.record(due, Attempt(delivered_at=NOW, status=204), NOW)
    assert await log.match() == Matched(stored=1, has_more=False, is_held=False)
    assert await log.types(slow) == ["run.ended", "run.ended", "run.started"]


async def test_webhook_misses_the_events_while_it_is_off(log: Log) -> None:
    hook = await log.webhook()
    await log.webhooks.update(hook.id, {"is_active": False}, NOW)
    await log.event("run.started")
    await log.match()
    await log.webhooks.update(hook.id, {"is_active": True}, NOW)
    await log.event("run.ended")
    await log.match()
    assert await log.types(hook) == ["run.ended"]


async def test_given_up_delivery_about_webhooks_is_no_event_for_webhooks(log: Log) -> None:
    hook = await log.webhook("webhook.*")
    for type_ in ("run.ended", "webhook.given_up", "webhook.disabled"):
        await log.event("webhook.given_up", data={"url": "https://a.example/", "type": type_})
    await log.match()
    [delivery] = await log.deliveries(hook)
    assert delivery.payload["data"]["data"]["type"] == "run.ended"


async def test_event_later_than_the_clock_is_due_at_once(log: Log) -> None:
    await log.webhook()
    await log.event("run.ended", at=NOW + SECOND)
    await log.match()
    assert len(await log.outbox.list_due(NOW, limit_per_receiver=10, limit=10)) == 1


async def test_only_organizations_with_active_webhooks_are_listed(log: Log) -> None:
    assert await log.matching.list_organizations() == set()
    hook = await log.webhook()
    assert await log.matching.list_organizations() == {log.owner}
    await log.webhooks.update(hook.id, {"is_active": False}, NOW)
    assert await log.matching.list_organizations() == set()
