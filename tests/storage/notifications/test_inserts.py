"""Inserting notifications: the effect on the agent, refusals, locks, and many callers at once."""

import asyncio
from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from asyncpg import Record

from storage.errors import Forbidden, NotUnique, ReferenceMissing, RowLocked
from storage.ids import new_id
from storage.model import Agent, Priority
from storage.notifications import notifications as module
from storage.notifications.changes import activation
from storage.notifications.notifications import InsertItem, NewNotification, Notifications, insert_together
from storage.postgres.pool import Connection, Pool
from tests.patience import PATIENCE_SECONDS
from tests.storage.factories import (
    HOUR,
    NOW,
    SECOND,
    new_notification,
    pairs,
    stored_agent,
    stored_organization,
)
from tests.storage.notifications.queues import (
    ReportedAgents,
    stored_notification,
    titles,
    wake_seq,
)

UPDATE_STATE = "UPDATE agent_state SET retries = retries + 1 WHERE agent_id = $1"

COUNT_BLOCKED = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""

LIST_DUE = "SELECT agent_id, next_due_at FROM agent_state WHERE next_due_at IS NOT NULL"

LIST_FIRST_REMINDERS = """
SELECT agent_id, min(activated_at) FROM notification
WHERE activated_at = scheduled_for AND activated_at > created_at GROUP BY agent_id
"""

MARK_DELETED = "UPDATE agent SET deleted_at = now() WHERE id = $1"

DELETE_STATE = "DELETE FROM agent_state WHERE agent_id = $1"

COUNT_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


async def test_low_notification_does_not_wait_for_locked_agent(
    queue: Notifications, scout: Agent, other_program: Any
) -> None:
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state FOR UPDATE")

        assert await stored_notification(queue, scout, priority=Priority.LOW)


async def test_each_insert_of_a_batch_gets_its_own_result(
    queue: Notifications, pool: Pool, reported: ReportedAgents
) -> None:
    ours, theirs = await stored_agent(pool), await stored_agent(pool)
    allowed = {ours.organization_id, new_id()}
    notifications = [new_notification(agent_id) for agent_id in (ours.id, theirs.id, new_id(), ours.id)]

    first, forbidden, missing, second = await asyncio.gather(
        *(queue.insert(new, allowed) for new in notifications), return_exceptions=True
    )

    assert isinstance(forbidden, Forbidden)
    assert isinstance(missing, ReferenceMissing)
    assert (first, second) == (None, None)
    assert await titles(queue, ours) == [notifications[3].title, notifications[0].title]
    assert await wake_seq(pool, ours) == 2
    assert await wake_seq(pool, theirs) == 0
    assert reported.take() == [ours.id]


async def test_insert_is_reported_although_its_caller_was_cancelled(
    queue: Notifications, scout: Agent, reported: ReportedAgents
) -> None:
    caller = asyncio.create_task(stored_notification(queue, scout))
    await asyncio.sleep(0)
    caller.cancel()

    await asyncio.wait_for(reported.is_reported.wait(), PATIENCE_SECONDS)

    assert reported.take() == [scout.id]
    assert await titles(queue, scout) == ["Look here"]


async def test_insert_for_locked_agent_waits_without_delaying_others(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    free = await stored_agent(pool)
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", scout.id)
        waiting = asyncio.create_task(stored_notification(queue, scout))
        inserted = await asyncio.gather(*(stored_notification(queue, free) for _ in range(5)))
        assert len(inserted) == 5
        assert not waiting.done()
        await other_program.execute("UPDATE agent_state SET wake_seq = 40 WHERE agent_id = $1", scout.id)

    assert (await waiting).agent_id == scout.id
    assert await wake_seq(pool, scout) == 41
    assert await wake_seq(pool, free) == 5


async def test_inserts_for_an_awaited_agent_join_without_an_attempt(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, attempts = pool.change, 0

    async def count_attempts(sql: str, *args: Any) -> list[Record]:
        nonlocal attempts
        attempts += 1
        return await insert(sql, *args)

    monkeypatch.setattr(pool, "change", count_attempts)
    monkeypatch.setattr(module, "BRIEF_WAIT", "30s")
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", scout.id)
        inserts = [asyncio.create_task(stored_notification(queue, scout))]
        while not await pool.fetchval(COUNT_WAITING):
            pass
        inserts += [asyncio.create_task(stored_notification(queue, scout)) for _ in range(20)]
    await asyncio.gather(*inserts)
    assert attempts == 1
    assert await wake_seq(pool, scout) == 21


async def test_inserts_for_busy_agents_wait_for_their_states_together(
    queue: Notifications, pool: Pool, other_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = [await stored_agent(pool) for _ in range(20)]
    monkeypatch.setattr(pool, "write", None)  # which would wait for one agent after the other
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state FOR UPDATE")
        inserts = [asyncio.create_task(stored_notification(queue, agent)) for agent in agents]
        while not await pool.fetchval(COUNT_WAITING):
            pass
    await asyncio.gather(*inserts)
    assert [await wake_seq(pool, agent) for agent in agents] == [1] * 20


async def test_agent_whose_state_is_held_delays_no_agent_of_its_group(
    queue: Notifications, pool: Pool, other_program: Any
) -> None:
    agents = [await stored_agent(pool) for _ in range(5)]
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", agents[0].id)
        async with pool.transaction() as connection:
            await connection.execute("SELECT 1 FROM agent_state FOR UPDATE SKIP LOCKED")
            inserts = [
                asyncio.create_task(stored_notification(queue, agent)) for agent in agents for _ in range(2)
            ]
            while not await pool.fetchval(COUNT_WAITING):
                pass
        await asyncio.gather(*inserts[2:])
        assert not any(insert.done() for insert in inserts[:2])
    await asyncio.gather(*inserts)
    assert [await wake_seq(pool, agent) for agent in agents] == [2] * 5


async def test_agent_whose_state_is_held_is_awaited_once_with_others(
    queue: Notifications, pool: Pool, other_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, awaited = module.lock_states, list[int]()

    async def note(connection: Connection, agent_ids: Collection[UUID]) -> None:
        awaited.append(len(agent_ids))
        await wait(connection, agent_ids)

    monkeypatch.setattr(module, "lock_states", note)
    agents = [await stored_agent(pool) for _ in range(9)]
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", agents[0].id)
        async with pool.transaction() as connection:
            await connection.execute("SELECT 1 FROM agent_state FOR UPDATE SKIP LOCKED")
            inserts = [asyncio.create_task(stored_notification(queue, agent)) for agent in agents]
            while not await pool.fetchval(COUNT_WAITING):
                pass
        await asyncio.gather(*inserts[1:])
    await asyncio.gather(*inserts)
    assert [count for count in awaited if count > 1] == [9]


async def test_insert_for_agent_locked_too_long_stores_nothing(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", scout.id)
        results = await asyncio.gather(
            *(stored_notification(queue, scout) for _ in range(3)), return_exceptions=True
        )

    assert [type(result) for result in results] == [RowLocked] * 3
    assert await titles(queue, scout) == []
    assert await stored_notification(queue, scout)
    assert await wake_seq(pool, scout) == 1


async def test_insert_that_waits_while_agent_is_deleted_raises(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    async with other_program.transaction():
        await other_program.execute(MARK_DELETED, scout.id)
        await other_program.execute(DELETE_STATE, scout.id)
        waiting = asyncio.create_task(stored_notification(queue, scout))
        while not await pool.fetchval(COUNT_WAITING):
            pass

    with pytest.raises(ReferenceMissing, match="agent"):
        await waiting
    assert await titles(queue, scout) == []


async def test_thousands_of_concurrent_inserts_update_each_state_exactly(
    queue: Notifications, pool: Pool, reported: ReportedAgents, other_program: Any
) -> None:
    owner = (await stored_organization(pool)).id
    agents = [await stored_agent(pool, owner) for _ in range(50)]
    notifications = [
        new_notification(
            agents[n * 7 % 50].id,
            title=str(n),
            priority=Priority.HIGH if n % 3 else Priority.LOW,
            created_at=NOW + n * SECOND,
            scheduled_for=NOW + 3 * n * SECOND if n % 5 == 0 else None,
        )
        for n in range(2_000)
    ]
    done = asyncio.Event()

    async def insert_all(mine: list[NewNotification]) -> None:
        for new in mine:
            await queue.insert(new, {owner})

    async def write_states() -> None:
        while not done.is_set():
            async with other_program.transaction():
                for agent in agents[::7]:
                    await other_program.execute(UPDATE_STATE, agent.id)

    writer = asyncio.create_task(write_states())
    await asyncio.gather(*(insert_all(notifications[caller::100]) for caller in range(100)))
    done.set()
    await writer

    high = Counter(new.agent_id for new in notifications if new.priority is Priority.HIGH)
    assert await pairs(pool, "SELECT agent_id, wake_seq FROM agent_state WHERE wake_seq > 0") == high
    assert set(reported.take()) == set(high)
    for agent in agents:
        sent = [new.title for new in notifications if new.agent_id == agent.id]
        assert await titles(queue, agent, agent_id=agent.id) == sent[::-1]
    assert await pairs(pool, LIST_DUE) == await pairs(pool, LIST_FIRST_REMINDERS)


@pytest.mark.parametrize(
    ("scheduled_for", "expected"), [(None, NOW), (NOW - HOUR, NOW), (NOW + HOUR, NOW + HOUR)]
)
def test_high_notification_is_active_now_or_when_scheduled(
    scheduled_for: datetime | None, expected: datetime
) -> None:
    assert activation(Priority.HIGH, scheduled_for, NOW) == expected


@pytest.mark.parametrize(("priority", "is_cleared"), [(Priority.LOW, False), (Priority.HIGH, True)])
def test_low_or_cleared_notification_is_never_active(priority: Priority, is_cleared: bool) -> None:
    assert activation(priority, NOW, NOW, cleared=is_cleared, since=NOW) is None


def test_active_notification_keeps_its_activation() -> None:
    assert activation(Priority.HIGH, None, NOW, since=NOW - HOUR) == NOW - HOUR


async def test_payload_that_two_nodes_insert_at_once_is_stored_once(
    pool: Pool, queue: Notifications, scout: Agent
) -> None:
    new, owners = new_notification(scout.id, priority=Priority.LOW), {scout.organization_id}
    async with pool.transaction() as connection:
        await insert_together(connection.fetch, [InsertItem(new, owners, payload="1")])
        second = asyncio.create_task(queue.insert(new, owners, payload="2"))
        while not await pool.fetchval(COUNT_BLOCKED):  # noqa: ASYNC110 -- only PostgreSQL knows
            await asyncio.sleep(0.01)
    with pytest.raises(NotUnique):
        await second
    with pytest.raises(NotUnique):
        await queue.insert(new, owners, payload="3")
    assert await pool.fetchval("SELECT content FROM notification_payload") == "1"


async def test_payload_twice_in_a_group_leaves_the_others_alone(pool: Pool, scout: Agent) -> None:
    new, owners = new_notification(scout.id), {scout.organization_id}
    items = [InsertItem(each, owners, payload="1") for each in (new, new, new_notification(scout.id))]
    refusals = await insert_together(pool.change, items)
    assert [type(refusal) for refusal in refusals] == [type(None), NotUnique, type(None)]


async def test_payload_twice_for_a_locked_agent_is_accepted_once(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    new, owners = new_notification(scout.id), {scout.organization_id}
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", scout.id)
        inserts = [asyncio.create_task(queue.insert(new, owners, payload="1")) for _ in range(3)]
        while not await pool.fetchval(COUNT_WAITING):
            pass
    results = await asyncio.gather(*inserts, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "NotUnique", "NotUnique"]
    assert await wake_seq(pool, scout) == 1
