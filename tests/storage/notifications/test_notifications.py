"""The queue: what an arrival does to its agent, what a change makes of it, and what many at once do."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from storage.agents.agents import Agents
from storage.errors import Forbidden, ReferenceMissing, RowLocked
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Notification, Priority, Source
from storage.notifications.inserts import NewNotification
from storage.notifications.notifications import NotificationFilters, NotificationOwner, Notifications
from storage.notifications.since import RecentNotifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    new_notification,
    pairs,
    stored_agent,
    stored_organization,
)

LATER = NOW + MINUTE

TOUCH_STATE = "UPDATE agent_state SET retries = retries + 1 WHERE agent_id = $1"

LIST_DUE = "SELECT agent_id, next_due_at FROM agent_state WHERE next_due_at IS NOT NULL"

LIST_FIRST_REMINDERS = """
SELECT agent_id, min(activated_at) FROM notification WHERE activated_at > created_at GROUP BY agent_id
"""


BURY = "UPDATE agent SET deleted_at = now() WHERE id = $1"
DELETE_STATE = "DELETE FROM agent_state WHERE agent_id = $1"
COUNT_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"

SENT = [field.name for field in fields(NewNotification)]


class Told:
    """What the registry would have heard."""

    def __init__(self) -> None:
        self.agent_ids: list[UUID] = []
        self.heard = asyncio.Event()

    def __call__(self, agent_ids: Sequence[UUID]) -> None:
        self.agent_ids.extend(agent_ids)
        self.heard.set()

    def taken(self) -> list[UUID]:
        """What was heard since the last time."""
        taken, self.agent_ids = self.agent_ids, []
        return taken


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def queue(pool: Pool, told: Told) -> AsyncIterator[Notifications]:
    notifications = Notifications(pool, told, sleep=asyncio.sleep)
    yield notifications
    await notifications.close()


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    return await stored_agent(pool)


@pytest.fixture
async def other_program(database_url: str) -> AsyncIterator[Any]:
    """A connection that is not the service's."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def arrived(queue: Notifications, at: Agent, **fields: Any) -> Notification:
    new = new_notification(at.id, **fields)
    await queue.insert(new, {at.organization_id})
    stored = await queue.get(new.id)
    assert stored is not None
    return stored


async def updated(queue: Notifications, before: Notification, now: datetime, **changes: Any) -> Notification:
    after = await queue.update(before.id, changes, now)
    assert after is not None
    assert after == await queue.get(before.id)
    return after


async def wake_seq(pool: Pool, of: Agent) -> int:
    seq: int = await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", of.id)
    return seq


async def next_due_at(pool: Pool, of: Agent) -> datetime | None:
    due: datetime | None = await pool.fetchval(
        "SELECT next_due_at FROM agent_state WHERE agent_id = $1", of.id
    )
    return due


async def titles(queue: Notifications, of: Agent, page: Page | None = None, **filters: Any) -> list[str]:
    found = await queue.page(
        NotificationFilters(organization_ids=(of.organization_id,), **filters), page or Page()
    )
    return [one.title for one in found]


async def test_a_notification_is_read_as_it_was_sent(queue: Notifications, scout: Agent) -> None:
    sent = new_notification(
        scout.id,
        source=Source.SMS,
        source_id="contact-7",
        title="Grüße",
        body="line\nline",
        scheduled_for=NOW - HOUR,
    )
    await queue.insert(sent, {scout.organization_id})

    read = await queue.get(sent.id)

    assert read is not None
    assert read.organization_id == scout.organization_id
    assert {name: getattr(read, name) for name in SENT} == {name: getattr(sent, name) for name in SENT}
    assert await queue.get(new_id()) is None


async def test_a_high_notification_is_active_at_once_and_moves_its_agent(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    answered = await arrived(queue, scout)

    assert answered.activated_at == NOW
    assert await wake_seq(pool, scout) == 1
    assert await next_due_at(pool, scout) is None
    assert told.taken() == [scout.id]


async def test_a_low_notification_leaves_its_agent_alone(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    answered = await arrived(queue, scout, priority=Priority.LOW, scheduled_for=LATER)

    assert answered.activated_at is None
    assert await wake_seq(pool, scout) == 0
    assert await next_due_at(pool, scout) is None
    assert told.taken() == []


async def test_a_low_notification_is_not_kept_waiting_by_a_locked_agent(
    queue: Notifications, scout: Agent, other_program: Any
) -> None:
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state FOR UPDATE")

        assert await arrived(queue, scout, priority=Priority.LOW)


async def test_a_reminder_makes_its_agent_due_when_it_falls_due(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    answered = await arrived(queue, scout, scheduled_for=LATER)
    await arrived(queue, scout, scheduled_for=LATER + HOUR)

    assert answered.activated_at == LATER
    assert await next_due_at(pool, scout) == LATER
    assert await wake_seq(pool, scout) == 2
    assert told.taken() == [scout.id, scout.id]


async def test_a_reminder_after_the_end_of_a_sleep_leaves_that_as_it_is(
    queue: Notifications, pool: Pool
) -> None:
    sleeper = await stored_agent(pool, sleep_until=NOW + SECOND)

    await arrived(queue, sleeper, scheduled_for=LATER)

    assert await next_due_at(pool, sleeper) == NOW + SECOND


@pytest.mark.parametrize(
    "state", ["status = 'archived'", "status = 'running'", "queued_at = '2126-11-21T09:00:00Z'"]
)
async def test_an_agent_that_waits_for_nothing_gets_no_due_time_from_a_reminder(
    queue: Notifications, scout: Agent, pool: Pool, state: str
) -> None:
    await pool.execute(f"UPDATE agent_state SET {state}")  # noqa: S608

    reminder = await arrived(queue, scout, scheduled_for=LATER)
    await updated(queue, reminder, NOW, scheduled_for=LATER + HOUR)

    assert await next_due_at(pool, scout) is None
    assert await wake_seq(pool, scout) == 2


async def test_a_time_that_is_not_ahead_is_kept_and_means_now(
    queue: Notifications, scout: Agent, pool: Pool
) -> None:
    answered = await arrived(queue, scout, scheduled_for=NOW - HOUR)

    assert (answered.scheduled_for, answered.activated_at) == (NOW - HOUR, NOW)
    assert await next_due_at(pool, scout) is None


async def test_an_agent_that_does_not_exist_or_was_deleted_is_missing(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    await Agents(pool).delete(scout.id, NOW)

    for agent_id in (scout.id, new_id()):
        with pytest.raises(ReferenceMissing) as refusal:
            await queue.insert(new_notification(agent_id), {scout.organization_id})
        assert refusal.value.field == "agent"

    assert told.taken() == []


async def test_an_agent_of_another_organization_is_forbidden_and_untouched(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    for allowed in ({new_id(), new_id()}, set[UUID]()):
        with pytest.raises(Forbidden):
            await queue.insert(new_notification(scout.id), allowed)

    assert await titles(queue, scout) == []
    assert await wake_seq(pool, scout) == 0
    assert told.taken() == []


async def test_each_of_a_batch_gets_its_own_answer(queue: Notifications, pool: Pool, told: Told) -> None:
    ours, theirs = await stored_agent(pool), await stored_agent(pool)
    allowed = {ours.organization_id, new_id()}
    arrivals = [new_notification(agent_id) for agent_id in (ours.id, theirs.id, new_id(), ours.id)]

    first, forbidden, missing, second = await asyncio.gather(
        *(queue.insert(one, allowed) for one in arrivals), return_exceptions=True
    )

    assert isinstance(forbidden, Forbidden)
    assert isinstance(missing, ReferenceMissing)
    assert (first, second) == (None, None)
    assert await titles(queue, ours) == [arrivals[3].title, arrivals[0].title]
    assert await wake_seq(pool, ours) == 2
    assert await wake_seq(pool, theirs) == 0
    assert told.taken() == [ours.id]


async def test_the_registry_is_told_though_the_caller_has_gone(
    queue: Notifications, scout: Agent, told: Told
) -> None:
    caller = asyncio.create_task(arrived(queue, scout))
    await asyncio.sleep(0)
    caller.cancel()

    await asyncio.wait_for(told.heard.wait(), 5)

    assert told.taken() == [scout.id]
    assert await titles(queue, scout) == ["Look here"]


async def test_an_arrival_for_a_locked_agent_waits_and_delays_nobody_else(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    free = await stored_agent(pool)
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", scout.id)
        waiting = asyncio.create_task(arrived(queue, scout))
        passing = await asyncio.gather(*(arrived(queue, free) for _ in range(5)))
        assert len(passing) == 5
        assert not waiting.done()
        await other_program.execute("UPDATE agent_state SET wake_seq = 40 WHERE agent_id = $1", scout.id)

    assert (await waiting).agent_id == scout.id
    assert await wake_seq(pool, scout) == 41
    assert await wake_seq(pool, free) == 5


async def test_whoever_waits_for_a_notification_that_is_held_keeps_nobody_from_the_database(
    queue: Notifications, scout: Agent, other_program: Any
) -> None:
    free, held = await arrived(queue, scout), await arrived(queue, scout)
    async with other_program.transaction():
        await other_program.execute("UPDATE notification SET title = 'Held' WHERE id = $1", held.id)
        waiting = [
            asyncio.create_task(wait)
            for _ in range(15)
            for wait in (
                queue.update(held.id, {"title": "Free"}, NOW),
                queue.delete(held.id),
                queue.clear(scout.id, held.id, NOW),
                queue.clear_many(scout.id, [held.id], NOW),
            )
        ]
        async with asyncio.timeout(3):
            assert await queue.update(free.id, {"title": "Changed"}, NOW)
            assert await queue.delete(free.id)
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_arrival_gives_up_on_an_agent_that_stays_locked_and_leaves_nothing(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    async with other_program.transaction():
        await other_program.execute("SELECT 1 FROM agent_state WHERE agent_id = $1 FOR UPDATE", scout.id)
        answers = await asyncio.gather(*(arrived(queue, scout) for _ in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [RowLocked] * 3
    assert await titles(queue, scout) == []
    assert await arrived(queue, scout)
    assert await wake_seq(pool, scout) == 1


async def test_an_arrival_that_waits_for_an_agent_while_it_is_deleted_finds_none(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    async with other_program.transaction():
        await other_program.execute(BURY, scout.id)
        await other_program.execute(DELETE_STATE, scout.id)
        waiting = asyncio.create_task(arrived(queue, scout))
        while not await pool.fetchval(COUNT_WAITING):
            pass

    with pytest.raises(ReferenceMissing, match="agent"):
        await waiting
    assert await titles(queue, scout) == []


async def test_thousands_at_once_move_each_agent_once_for_each_high_one(
    queue: Notifications, pool: Pool, told: Told, other_program: Any
) -> None:
    owner = (await stored_organization(pool)).id
    agents = [await stored_agent(pool, owner) for _ in range(50)]
    arrivals = [
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

    async def call(mine: list[NewNotification]) -> None:
        for one in mine:
            await queue.insert(one, {owner})

    async def write_states() -> None:
        while not done.is_set():
            async with other_program.transaction():
                for one in agents[::7]:
                    await other_program.execute(TOUCH_STATE, one.id)

    writer = asyncio.create_task(write_states())
    await asyncio.gather(*(call(arrivals[caller::100]) for caller in range(100)))
    done.set()
    await writer

    high = Counter(one.agent_id for one in arrivals if one.priority is Priority.HIGH)
    assert await pairs(pool, "SELECT agent_id, wake_seq FROM agent_state WHERE wake_seq > 0") == high
    assert set(told.taken()) == set(high)
    for one in agents:
        sent = [arrival.title for arrival in arrivals if arrival.agent_id == one.id]
        assert await titles(queue, one, agent_id=one.id) == sent[::-1]
    assert await pairs(pool, LIST_DUE) == await pairs(pool, LIST_FIRST_REMINDERS)


async def test_inserts_and_changes_by_us_and_by_others_never_wait_in_a_circle(
    queue: Notifications, pool: Pool, other_program: Any
) -> None:
    owner = (await stored_organization(pool)).id
    agents = [await stored_agent(pool, owner) for _ in range(4)]
    there = [await arrived(queue, one, priority=Priority.LOW) for one in agents * 5]

    async def raise_ours() -> None:
        for one in there:
            await queue.update(one.id, {"priority": Priority.HIGH}, LATER)

    async def reschedule_theirs() -> None:
        for minutes in range(1, 20):
            await other_program.execute(
                "UPDATE notification SET scheduled_for = $1", LATER + minutes * MINUTE
            )

    async def insert_ours(at: Agent) -> None:
        for _ in range(50):
            await arrived(queue, at, body="late")

    await asyncio.gather(raise_ours(), reschedule_theirs(), *map(insert_ours, agents))

    late = await pool.fetchval("SELECT count(*) FROM notification WHERE body = 'late'")
    active = await pool.fetchval("SELECT count(*) FROM notification WHERE activated_at IS NOT NULL")
    assert (late, active) == (200, 220)


async def test_pages_by_cursor_show_each_once_though_all_are_of_one_instant(
    queue: Notifications, scout: Agent
) -> None:
    stored = await asyncio.gather(*(arrived(queue, scout) for _ in range(7)))
    filters = NotificationFilters(organization_ids=(scout.organization_id,))

    seen: list[Notification] = []
    after = None
    while found := await queue.page(filters, Page(after=after, limit=3)):
        seen += found
        after = (found[-1].created_at, found[-1].id)

    assert [one.id for one in seen] == sorted((one.id for one in stored), reverse=True)
    assert await queue.page(filters, Page(limit=3, offset=5)) == seen[5:]


async def test_filters_narrow_a_list(queue: Notifications, scout: Agent, pool: Pool) -> None:
    other = await stored_agent(pool, scout.organization_id)
    stranger = await stored_agent(pool)
    sms = await arrived(queue, scout, title="sms", source=Source.SMS)
    await arrived(queue, scout, title="low", priority=Priority.LOW, created_at=NOW + SECOND)
    await arrived(queue, other, title="later", scheduled_for=NOW + HOUR, created_at=NOW + 2 * SECOND)
    await arrived(queue, stranger, title="strange", created_at=NOW + 3 * SECOND)
    await queue.clear(scout.id, sms.id, LATER)

    assert await titles(queue, scout) == ["later", "low", "sms"]
    assert await titles(queue, scout, agent_id=scout.id) == ["low", "sms"]
    assert await titles(queue, scout, cleared=True) == ["sms"]
    assert await titles(queue, scout, cleared=False) == ["later", "low"]
    assert await titles(queue, scout, priority=Priority.LOW) == ["low"]
    assert await titles(queue, scout, source=Source.SMS, cleared=True, agent_id=scout.id) == ["sms"]
    assert await titles(queue, scout, agent_id=stranger.id) == []
    both = NotificationFilters(organization_ids=(scout.organization_id, stranger.organization_id))
    assert [one.title for one in await queue.page(both, Page(limit=2))] == ["strange", "later"]


async def test_the_agent_sees_high_before_low_then_oldest_first_and_nothing_of_later(
    queue: Notifications, scout: Agent, pool: Pool
) -> None:
    await arrived(queue, scout, title="low", priority=Priority.LOW)
    await arrived(queue, scout, title="second", created_at=NOW + SECOND)
    await arrived(queue, scout, title="first")
    await arrived(queue, scout, title="due", scheduled_for=LATER, created_at=NOW + 2 * SECOND)
    await arrived(queue, scout, title="later", scheduled_for=LATER + SECOND)
    await arrived(queue, await stored_agent(pool), title="strange")
    done = await arrived(queue, scout, title="done")
    await queue.clear(scout.id, done.id, LATER)

    async def seen(include_cleared: bool, limit: int) -> list[str]:
        found = await queue.list_for_agent(scout.id, include_cleared=include_cleared, limit=limit, now=LATER)
        return [one.title for one in found]

    assert await seen(False, 100) == ["first", "second", "due", "low"]
    assert await seen(True, 100) == ["first", "done", "second", "due", "low"]
    assert await seen(False, 2) == ["first", "second"]


async def test_clearing_happens_once_and_only_in_ones_own_queue(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    answered = await arrived(queue, scout)
    stranger = await stored_agent(pool)
    told.taken()

    assert not await queue.clear(stranger.id, answered.id, LATER)
    assert not await queue.clear(scout.id, new_id(), LATER)
    assert told.taken() == []
    assert await queue.clear(scout.id, answered.id, LATER)
    assert told.taken() == [scout.id]
    assert await queue.clear(scout.id, answered.id, LATER + HOUR)

    cleared = await queue.get(answered.id)
    assert cleared is not None
    assert (cleared.cleared, cleared.cleared_at, cleared.activated_at) == (True, LATER, None)


async def test_what_somebody_else_holds_is_cleared_when_it_is_free_and_keeps_nobody_waiting(
    queue: Notifications, scout: Agent, told: Told, other_program: Any
) -> None:
    held, free = await arrived(queue, scout), await arrived(queue, scout)
    told.taken()
    async with other_program.transaction():
        await other_program.execute("UPDATE notification SET title = 'held' WHERE id = $1", held.id)
        waiting = asyncio.create_task(queue.clear(scout.id, held.id, LATER))
        assert await queue.clear(scout.id, free.id, LATER)
        assert not waiting.done()
        assert told.taken() == [scout.id]

    assert await waiting
    assert told.taken() == [scout.id]
    cleared = await queue.get(held.id)
    assert cleared is not None
    assert (cleared.title, cleared.cleared_at) == ("held", LATER)


async def test_agents_that_look_at_once_see_each_its_own_queue(
    queue: Notifications, pool: Pool, scout: Agent
) -> None:
    other = await stored_agent(pool)
    mine = [await arrived(queue, scout, created_at=NOW + n * SECOND) for n in range(3)]
    theirs = await arrived(queue, other)
    await queue.clear(scout.id, mine[0].id, NOW)

    two, one, everything, none = await asyncio.gather(
        queue.list_for_agent(scout.id, include_cleared=False, limit=50, now=LATER),
        queue.list_for_agent(other.id, include_cleared=False, limit=50, now=LATER),
        queue.list_for_agent(scout.id, include_cleared=True, limit=2, now=LATER),
        queue.list_for_agent(new_id(), include_cleared=False, limit=50, now=LATER),
    )

    assert [each.id for each in two] == [mine[1].id, mine[2].id]
    assert [each.id for each in one] == [theirs.id]
    assert [each.id for each in everything] == [mine[0].id, mine[1].id]
    assert none == []


async def test_clearing_a_low_one_tells_nobody(queue: Notifications, scout: Agent, told: Told) -> None:
    answered = await arrived(queue, scout, priority=Priority.LOW)

    assert await queue.clear(scout.id, answered.id, LATER)

    assert told.taken() == []


async def test_an_update_of_its_text_changes_nothing_else(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    before = await arrived(queue, scout)
    told.taken()

    after = await updated(queue, before, LATER, title="Look there", body="Up")

    assert (after.title, after.body, after.activated_at) == ("Look there", "Up", NOW)
    assert await wake_seq(pool, scout) == 1
    assert told.taken() == []


async def test_an_update_that_clears_keeps_the_first_time(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    before = await arrived(queue, scout)
    told.taken()

    once = await updated(queue, before, LATER, cleared=True)
    twice = await updated(queue, before, LATER + HOUR, cleared=True)

    assert (once.cleared_at, once.activated_at) == (LATER, None)
    assert twice == once
    assert await wake_seq(pool, scout) == 1
    assert told.taken() == [scout.id]


async def test_unclearing_makes_active_anew(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    before = await arrived(queue, scout)
    await queue.clear(scout.id, before.id, NOW)
    told.taken()

    after = await updated(queue, before, LATER, cleared=False)

    assert (after.cleared, after.cleared_at, after.activated_at) == (False, None, LATER)
    assert await wake_seq(pool, scout) == 2
    assert told.taken() == [scout.id]


async def test_raising_and_lowering_the_priority_turns_activity_on_and_off(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    before = await arrived(queue, scout, priority=Priority.LOW)

    high = await updated(queue, before, LATER, priority=Priority.HIGH)
    assert high.activated_at == LATER
    assert await wake_seq(pool, scout) == 1
    low = await updated(queue, before, LATER + HOUR, priority=Priority.LOW)

    assert low.activated_at is None
    assert await wake_seq(pool, scout) == 1
    assert told.taken() == [scout.id, scout.id]


async def test_a_reminder_that_is_moved_falls_due_at_its_new_time(
    queue: Notifications, scout: Agent, pool: Pool, told: Told
) -> None:
    before = await arrived(queue, scout, scheduled_for=NOW + HOUR)
    told.taken()

    earlier = await updated(queue, before, NOW, scheduled_for=LATER)
    assert earlier.activated_at == LATER
    assert await next_due_at(pool, scout) == LATER
    same = await updated(queue, before, NOW + SECOND, scheduled_for=LATER)
    assert same == earlier
    now_then = await updated(queue, before, NOW + SECOND, scheduled_for=None)

    assert now_then.activated_at == NOW + SECOND
    assert await wake_seq(pool, scout) == 3
    assert told.taken() == [scout.id, scout.id]


async def test_changes_of_one_notification_at_once_are_all_kept(
    queue: Notifications, scout: Agent, pool: Pool
) -> None:
    before = await arrived(queue, scout, priority=Priority.LOW)

    await asyncio.gather(
        queue.update(before.id, {"title": "A"}, LATER),
        queue.update(before.id, {"body": "B"}, LATER),
        queue.update(before.id, {"priority": Priority.HIGH}, LATER),
        queue.update(before.id, {"scheduled_for": NOW + HOUR}, LATER),
    )

    after = await queue.get(before.id)
    assert after is not None
    assert (after.title, after.body, after.priority) == ("A", "B", Priority.HIGH)
    assert after.activated_at == NOW + HOUR
    assert await next_due_at(pool, scout) == NOW + HOUR


async def test_only_what_a_client_may_change_is_changed(queue: Notifications, scout: Agent) -> None:
    before = await arrived(queue, scout)

    with pytest.raises(ValueError, match="activated_at, agent_id"):
        await queue.update(before.id, {"activated_at": None, "agent_id": new_id()}, NOW)
    assert await queue.update(new_id(), {"title": "A"}, NOW) is None


async def test_deleting_an_active_one_tells_and_deleting_another_does_not(
    queue: Notifications, scout: Agent, told: Told
) -> None:
    high = await arrived(queue, scout)
    low = await arrived(queue, scout, priority=Priority.LOW)
    told.taken()

    assert await queue.delete(low.id)
    assert told.taken() == []
    assert await queue.delete(high.id)
    assert told.taken() == [scout.id]
    assert not await queue.delete(high.id)
    assert await queue.get(high.id) is None


async def test_the_queue_of_a_deleted_agent_is_gone_with_it(
    queue: Notifications, scout: Agent, pool: Pool
) -> None:
    before = await arrived(queue, scout)
    await Agents(pool).delete(scout.id, NOW)

    assert await queue.get(before.id) is None
    assert await titles(queue, scout) == []
    assert await queue.list_for_agent(scout.id, include_cleared=True, limit=9, now=LATER) == []
    assert await queue.update(before.id, {"title": "A"}, NOW) is None
    assert not await queue.clear(scout.id, before.id, NOW)
    assert not await queue.delete(before.id)


async def test_an_archived_agent_takes_notifications(queue: Notifications, pool: Pool) -> None:
    archived = await stored_agent(pool, status=AgentStatus.ARCHIVED)

    assert (await arrived(queue, archived)).activated_at == NOW


async def test_many_are_cleared_at_once_but_for_those_that_lie_ahead(
    queue: Notifications, told: Told, scout: Agent
) -> None:
    high, low = await arrived(queue, scout), await arrived(queue, scout, priority=Priority.LOW)
    ahead = await arrived(queue, scout, scheduled_for=NOW + HOUR)
    told.taken()

    assert await queue.clear_many(scout.id, None, LATER) == 2
    assert told.taken() == [scout.id]
    for cleared in (high, low):
        after = await queue.get(cleared.id)
        assert after is not None
        assert (after.cleared_at, after.activated_at) == (LATER, None)
    assert await queue.get(ahead.id) == ahead
    assert await queue.clear_many(scout.id, None, LATER) == 0


async def test_those_that_are_named_are_cleared_reminders_too(
    queue: Notifications, told: Told, pool: Pool, scout: Agent
) -> None:
    other = await stored_agent(pool)
    low = await arrived(queue, scout, priority=Priority.LOW)
    ahead, strange = await arrived(queue, scout, scheduled_for=NOW + HOUR), await arrived(queue, other)
    told.taken()

    assert await queue.clear_many(scout.id, [low.id], LATER) == 1
    assert told.taken() == []
    assert await queue.clear_many(scout.id, [ahead.id, strange.id, new_id()], LATER) == 1
    assert told.taken() == [scout.id]
    assert await queue.get(strange.id) == strange
    assert await queue.owners([low.id, strange.id, new_id()]) == {
        low.id: NotificationOwner(scout.organization_id, scout.id),
        strange.id: NotificationOwner(other.organization_id, other.id),
    }


async def test_newcomers_are_the_last_that_came_since_a_moment_and_still_wait(
    queue: Notifications, scout: Agent, pool: Pool
) -> None:
    recent_notifications, long_ago = RecentNotifications(pool), NOW - 60 * MINUTE
    low = {"priority": Priority.LOW}
    await arrived(queue, scout, title="old", created_at=long_ago)
    raised = await arrived(queue, scout, title="raised", created_at=long_ago, **low)
    await updated(queue, raised, NOW, priority=Priority.HIGH)
    await arrived(queue, scout, title="high")
    await arrived(queue, scout, title="low", **low)
    await arrived(queue, scout, title="due", created_at=long_ago, scheduled_for=NOW, **low)
    await arrived(queue, scout, title="for the past", scheduled_for=long_ago, **low)
    await arrived(queue, scout, title="ahead", scheduled_for=LATER + MINUTE)
    await queue.clear(scout.id, (await arrived(queue, scout, title="cleared")).id, LATER)

    async def seen(limit: int) -> list[str]:
        found = await recent_notifications.list_for_agent(
            scout.id, since=NOW - MINUTE, limit=limit, now=LATER
        )
        return sorted(one.title for one in found)

    assert await seen(100) == ["due", "for the past", "high", "low", "raised"]
    assert len(await seen(2)) == 2
    assert await recent_notifications.list_for_agent(new_id(), since=long_ago, limit=9, now=LATER) == []
    await recent_notifications.close()
