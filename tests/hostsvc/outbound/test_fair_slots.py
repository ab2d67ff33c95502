"""Who gets room for a call when there is little."""

import asyncio
from uuid import UUID

from hostsvc.outbound.fair_slots import FairSlots

GREEDY, MODEST, LATE = UUID(int=1), UUID(int=2), UUID(int=3)


def asked(slots: FairSlots, organization_id: UUID, times: int = 1) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(slots.take(organization_id)) for _ in range(times)]


async def had(*lines: list[asyncio.Task[None]]) -> list[int]:
    """How many of each line have a slot."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [sum(task.done() and not task.cancelled() for task in line) for line in lines]


async def test_nobody_takes_more_than_are_left_for_others() -> None:
    slots = FairSlots(12)
    lines = [asked(slots, each, 20) for each in (GREEDY, MODEST, LATE)]
    assert await had(*lines) == [6, 3, 2]
    for line in lines:
        for task in line:
            task.cancel()


async def test_a_slot_that_is_given_back_goes_to_who_has_the_fewest() -> None:
    slots = FairSlots(2)
    greedy, modest = asked(slots, GREEDY, 3), asked(slots, MODEST, 2)
    assert await had(greedy, modest) == [1, 1]
    slots.release(GREEDY)
    slots.release(MODEST)
    assert await had(greedy, modest) == [2, 2]
    slots.release(GREEDY)
    slots.release(MODEST)
    assert await had(greedy, modest) == [3, 2]


async def test_in_a_line_the_first_comes_first() -> None:
    slots = FairSlots(2)
    line = asked(slots, GREEDY, 3)
    for ahead in range(1, 4):
        await had()
        assert [task.done() for task in line] == [True] * ahead + [False] * (3 - ahead)
        slots.release(GREEDY)


async def test_who_gives_up_loses_nothing_for_those_behind() -> None:
    slots = FairSlots(2)
    _, second, third = line = asked(slots, GREEDY, 3)
    assert await had(line) == [1]
    second.cancel()
    assert await had(line) == [1]
    slots.release(GREEDY)
    assert await had([third]) == [1]


async def test_a_slot_passes_over_who_gave_up_in_the_same_moment() -> None:
    slots = FairSlots(2)
    _, second, third = line = asked(slots, GREEDY, 3)
    assert await had(line) == [1]
    second.cancel()
    slots.release(GREEDY)
    assert await had([third]) == [1]
    assert second.cancelled()


async def test_a_slot_that_comes_in_the_moment_of_giving_up_is_not_lost() -> None:
    slots = FairSlots(2)
    first, second = line = asked(slots, GREEDY, 2)
    assert await had(line) == [1]
    slots.release(GREEDY)
    second.cancel()
    await asyncio.wait({first, second})
    assert second.cancelled()
    assert await had(asked(slots, MODEST), asked(slots, LATE)) == [1, 1]
