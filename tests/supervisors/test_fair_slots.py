"""Slots that organizations share, and counters without empty entries."""

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from supervisors.fair_slots import FairSlots, QueueFull, decrement

GREEDY, MODEST, LATE = UUID(int=1), UUID(int=2), UUID(int=3)


def take(slots: FairSlots[UUID], organization_id: UUID, times: int = 1) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(slots.take(organization_id)) for _ in range(times)]


async def granted(*queues: list[asyncio.Task[None]]) -> list[int]:
    """Return how many tasks of each queue have a slot."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [sum(task.done() and not task.cancelled() for task in queue) for queue in queues]


async def test_organization_takes_at_most_as_many_as_are_free() -> None:
    slots = FairSlots[UUID](12)
    queues = [take(slots, organization, 20) for organization in (GREEDY, MODEST, LATE)]
    assert await granted(*queues) == [6, 3, 2]
    for queue in queues:
        for task in queue:
            task.cancel()


async def test_released_slot_goes_to_organization_with_fewest() -> None:
    slots = FairSlots[UUID](2)
    greedy, modest = take(slots, GREEDY, 3), take(slots, MODEST, 2)
    assert await granted(greedy, modest) == [1, 1]
    slots.release(GREEDY)
    slots.release(MODEST)
    assert await granted(greedy, modest) == [2, 2]
    slots.release(GREEDY)
    slots.release(MODEST)
    assert await granted(greedy, modest) == [3, 2]


async def test_equal_organizations_take_turns() -> None:
    slots = FairSlots[UUID](2)
    greedy, modest = take(slots, GREEDY, 9), take(slots, MODEST, 9)
    await granted()
    late = take(slots, LATE)
    for releasing in (GREEDY, MODEST, GREEDY):
        await granted()
        slots.release(releasing)
    assert await granted(greedy, modest, late) == [2, 2, 1]
    for task in (*greedy, *modest):
        task.cancel()


async def test_queue_of_one_organization_is_limited() -> None:
    slots = FairSlots[UUID](2, max_waiting=2)
    greedy = take(slots, GREEDY, 3)
    assert await granted(greedy) == [1]
    with pytest.raises(QueueFull):
        await slots.take(GREEDY)
    await slots.take(MODEST)
    slots.release(GREEDY)
    slots.release(MODEST)
    assert await granted(greedy) == [2]
    assert await granted(take(slots, GREEDY)) == [0]
    greedy[2].cancel()


async def test_queue_of_one_organization_is_first_in_first_out() -> None:
    slots = FairSlots[UUID](2)
    queue = take(slots, GREEDY, 3)
    for ahead in range(1, 4):
        await granted()
        assert [task.done() for task in queue] == [True] * ahead + [False] * (3 - ahead)
        slots.release(GREEDY)


async def test_released_slot_skips_waiter_cancelled_before() -> None:
    slots = FairSlots[UUID](2)
    _, second, third = queue = take(slots, GREEDY, 3)
    assert await granted(queue) == [1]
    second.cancel()
    slots.release(GREEDY)
    assert await granted([third]) == [1]
    assert second.cancelled()


async def test_slot_granted_to_waiter_cancelled_afterwards_is_released() -> None:
    slots = FairSlots[UUID](2)
    first, second = queue = take(slots, GREEDY, 2)
    assert await granted(queue) == [1]
    slots.release(GREEDY)
    second.cancel()
    await asyncio.wait({first, second})
    assert second.cancelled()
    assert await granted(take(slots, MODEST), take(slots, LATE)) == [1, 1]


async def test_organization_that_goes_last_waits_behind_all_others() -> None:
    slots = FairSlots[UUID](2, goes_last=lambda organization_id: organization_id != LATE)
    greedy, modest = take(slots, GREEDY, 3), take(slots, MODEST, 3)
    await granted()
    late = take(slots, LATE, 2)
    for releasing in (GREEDY, LATE):
        await granted()
        slots.release(releasing)
    assert await granted(greedy, modest, late) == [1, 1, 2]
    for task in (*greedy, *modest):
        task.cancel()


def test_key_is_dropped_when_nothing_is_left() -> None:
    counter = Counter(a=1, b=3)
    decrement(counter, "a")
    decrement(counter, "b", 2)
    assert dict(counter) == {"b": 1}
