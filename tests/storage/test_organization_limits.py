"""Limits of organizations: the bound in memory, when rows are counted again, and what the counts see."""

import asyncio
from uuid import UUID, uuid4

import pytest

from storage import organization_limits
from storage.agents.secrets import Secret
from storage.channels.documents import Document
from storage.errors import DatabaseUnavailable, LimitReached, NoAnswer
from storage.ids import new_id
from storage.model import Priority
from storage.organization_limits import OrganizationLimit, OrganizationLimits, StorageLimits, document_bytes
from storage.postgres.pool import Pool
from storage.storage import Storage
from tests.storage.factories import (
    NOW,
    new_notification,
    notice,
    stored_agent,
    stored_organization,
    webhook,
)
from tests.storage.factories import agent as new_agent

ACME, OTHER = uuid4(), uuid4()


class Rows:
    """A table of which only the number of rows is known, and a clock."""

    def __init__(self, limit: int) -> None:
        self.stored = 0
        self.counts = 0
        self.seconds = 0.0
        self.seconds_per_count = 0.0
        self.is_away = False
        self.may_count = asyncio.Event()
        self.may_count.set()
        self.nodes = 1
        self.limit = self.new_node(limit)

    def new_node(self, limit: int) -> OrganizationLimit:
        return OrganizationLimit("rows", limit, self._count, lambda: self.seconds, lambda: self.nodes)

    async def insert(
        self, amount: int = 1, organization_id: UUID = ACME, node: OrganizationLimit | None = None
    ) -> bool:
        """Insert rows; return whether the limit allowed it."""
        try:
            async with (node or self.limit).reserved(organization_id, amount):
                self.stored += amount
        except LimitReached:
            return False
        return True

    async def _count(self, organization_id: UUID) -> int:
        self.counts += 1
        if self.is_away:
            await asyncio.sleep(0)
            raise DatabaseUnavailable("away")
        self.seconds += self.seconds_per_count
        counted = self.stored
        await self.may_count.wait()
        return counted


async def test_rows_are_counted_once_until_bound_reaches_limit() -> None:
    rows = Rows(limit=1000)
    assert all([await rows.insert() for _ in range(1000)])
    assert rows.counts == 1
    assert not await rows.insert()
    assert rows.limit.refused == 1


async def test_deletions_are_seen_by_next_count() -> None:
    rows = Rows(limit=10)
    assert all([await rows.insert() for _ in range(10)])
    rows.stored = 4
    rows.seconds = 1.0
    assert all([await rows.insert() for _ in range(6)])
    assert (rows.stored, rows.counts) == (10, 2)
    assert not await rows.insert()


async def test_full_organization_is_counted_once_a_second() -> None:
    rows = Rows(limit=1)
    await rows.insert()
    for tenth in range(30):
        rows.seconds = tenth / 10
        assert not await rows.insert()
    assert rows.counts == 3  # at 0, 1 and 2 seconds


async def test_slow_count_is_repeated_more_seldom() -> None:
    rows = Rows(limit=1)
    rows.stored, rows.seconds_per_count = 1, 0.5
    for _ in range(200):
        rows.seconds += 0.1
        assert not await rows.insert()
    assert rows.counts == 2  # in 20 seconds; each takes half a second


async def test_concurrent_inserts_do_not_exceed_limit() -> None:
    rows = Rows(limit=10)
    rows.may_count.clear()
    inserts = [asyncio.create_task(rows.insert()) for _ in range(30)]
    await asyncio.sleep(0)
    rows.may_count.set()
    results = await asyncio.gather(*inserts)
    assert (sum(results), rows.stored, rows.counts) == (10, 10, 1)


async def test_insert_in_flight_during_count_is_not_missed() -> None:
    rows = Rows(limit=2)
    await rows.insert()
    async with rows.limit.reserved(ACME):  # not stored yet: the count below does not see it
        rows.seconds = 5.0
        assert not await rows.insert()
    rows.stored += 1
    rows.seconds = 10.0
    assert not await rows.insert()


@pytest.mark.parametrize("error", [asyncio.CancelledError, NoAnswer])
async def test_write_whose_caller_has_gone_keeps_its_reservation(error: type[BaseException]) -> None:
    rows = Rows(limit=2)
    await rows.insert()
    with pytest.raises(error):
        async with rows.limit.reserved(ACME):
            raise error
    rows.seconds = 5.0
    assert not await rows.insert()  # counted before the write is stored

    rows.seconds = 70.0
    assert await rows.insert()  # it was not stored


async def test_amount_beyond_the_rest_is_refused_whole() -> None:
    rows = Rows(limit=100)
    assert [await rows.insert(60), await rows.insert(60), await rows.insert(40)] == [True, False, True]


async def test_failed_count_is_not_taken_for_a_full_organization() -> None:
    rows = Rows(limit=2)
    rows.is_away = True
    with pytest.raises(DatabaseUnavailable):
        await rows.insert()
    with pytest.raises(DatabaseUnavailable):
        await rows.limit.in_use(ACME)
    assert (rows.counts, rows.limit.refused) == (2, 0)
    rows.is_away = False
    assert await rows.insert()
    assert await rows.limit.in_use(ACME) == 1


async def test_failed_count_fails_for_all_who_waited_for_it() -> None:
    rows = Rows(limit=2)
    rows.is_away = True
    answers = await asyncio.gather(*(rows.insert() for _ in range(9)), return_exceptions=True)
    assert all(isinstance(answer, DatabaseUnavailable) for answer in answers)
    assert rows.counts == 1


async def test_limit_of_zero_is_none() -> None:
    rows = Rows(limit=0)
    assert all([await rows.insert() for _ in range(5)])
    assert rows.counts == 0
    assert await rows.limit.in_use(ACME) == 5


async def test_shown_use_is_counted_every_few_seconds() -> None:
    rows = Rows(limit=10)
    rows.stored = 7
    for tenth in range(60):
        rows.seconds = tenth / 10
        assert await rows.limit.in_use(ACME) == 7
    assert rows.counts == 2


async def test_organizations_have_bounds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organization_limits, "MAX_ORGANIZATIONS", 2)
    rows = Rows(limit=1)
    assert await rows.insert()
    rows.stored = 0
    assert await rows.insert(organization_id=OTHER)
    await rows.insert(organization_id=uuid4())
    assert repr(rows.limit) == "<OrganizationLimit rows: 1, 2 organizations>"


async def test_nodes_share_out_the_room_that_is_left() -> None:
    rows = Rows(limit=1000)
    rows.nodes = 2
    other = rows.new_node(1000)
    assert all([await rows.insert(node=node) for _ in range(500) for node in (rows.limit, other)])
    assert (rows.stored, rows.counts) == (1000, 2)
    assert [await rows.insert(node=node) for node in (rows.limit, other)] == [False, False]
    assert await rows.limit.in_use(ACME) == 1000


async def test_node_alone_fills_an_organization_by_few_counts() -> None:
    rows = Rows(limit=1000)
    rows.nodes = 4
    assert all([await rows.insert() for _ in range(1000)])
    assert rows.counts < 30
    assert not await rows.insert()


async def test_node_counts_again_what_others_may_have_inserted_since() -> None:
    rows = Rows(limit=1000)
    assert await rows.insert()
    rows.nodes, rows.stored = 2, 1000
    assert await rows.insert()
    rows.seconds = 60.0
    assert not await rows.insert()
    assert rows.counts == 2


async def test_counts_see_what_organization_has(pool: Pool) -> None:
    acme, other = await stored_organization(pool), await stored_organization(pool)
    ann, bob, gone = [await stored_agent(pool, acme.id) for _ in range(3)]
    foreign = await stored_agent(pool, other.id)
    storage = Storage(pool, lambda _: None, sleep=asyncio.sleep)
    for agent in (ann, ann, bob, gone, foreign):
        await storage.notifications.insert(new_notification(agent.id), {agent.organization_id})
    cleared = new_notification(ann.id)
    await storage.notifications.insert(cleared, {acme.id})
    await storage.notifications.clear(ann.id, cleared.id, NOW)
    await storage.agents.delete(gone.id, NOW)
    text = ("\u00e4", "x" * 5000)
    await storage.documents.insert(Document(new_id(), acme.id, None, None, *text, "text/plain", NOW, NOW))
    await storage.secrets.insert(Secret(new_id(), acme.id, None, "MODEL_KEY", NOW, NOW), "value")
    await storage.webhooks.insert(webhook(acme.id), "signing")
    used = {limit.name: await limit.in_use(acme.id) for limit in storage.limits.all()}
    assert used == {
        "agents": 2,
        "waiting_notifications": 3,
        "document_bytes": document_bytes(*text),
        "secrets": 1,
        "webhooks": 1,
    }


async def test_full_queue_refuses_before_any_effect(pool: Pool) -> None:
    agent = await stored_agent(pool)
    limits = OrganizationLimits(pool, StorageLimits(waiting_notifications=3))
    storage = Storage(pool, lambda _: None, sleep=asyncio.sleep, limits=limits)

    async def insert(allowed: set[UUID]) -> bool:
        try:
            await storage.notifications.insert(new_notification(agent.id, priority=Priority.HIGH), allowed)
        except LimitReached:
            return False
        return True

    own, several = {agent.organization_id}, {agent.organization_id, uuid4()}
    results = await asyncio.gather(*[insert(own if number % 2 else several) for number in range(12)])
    assert sum(results) == 3
    assert await pool.fetchval("SELECT count(*) FROM notification") == 3
    assert await pool.fetchval("SELECT wake_seq FROM agent_state") == 3


async def test_notice_about_child_counts_as_waiting_notification(pool: Pool) -> None:
    parent = await stored_agent(pool)
    limits = OrganizationLimits(pool, StorageLimits(waiting_notifications=2))
    storage = Storage(pool, lambda _: None, sleep=asyncio.sleep, limits=limits)
    for _ in range(2):  # a child that is deleted leaves its notice behind
        child = new_agent(parent.organization_id, parent_id=parent.id)
        await storage.agents.insert(child, notice(parent))
        await storage.agents.delete(child.id, NOW)
    with pytest.raises(LimitReached, match="waiting_notifications"):
        await storage.agents.insert(new_agent(parent.organization_id, parent_id=parent.id), notice(parent))
    await storage.agents.insert(new_agent(parent.organization_id), None)
    assert await pool.fetchval("SELECT count(*) FROM notification") == 2


async def test_changed_limit_counts_what_is_stored(pool: Pool) -> None:
    agent = await stored_agent(pool)
    limits = OrganizationLimits(pool)
    storage = Storage(pool, lambda _: None, sleep=asyncio.sleep, limits=limits)
    owner = {agent.organization_id}
    for _ in range(3):
        await storage.notifications.insert(new_notification(agent.id), owner)
    limits.adopt(StorageLimits(waiting_notifications=2))
    with pytest.raises(LimitReached, match="waiting_notifications"):
        await storage.notifications.insert(new_notification(agent.id), owner)
    limits.adopt(StorageLimits(waiting_notifications=4))
    await storage.notifications.insert(new_notification(agent.id), owner)
    with pytest.raises(LimitReached, match="waiting_notifications"):
        await storage.notifications.insert(new_notification(agent.id), owner)
