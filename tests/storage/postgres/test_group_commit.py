"""Group commit: who shares a flush, who is answered, and that nobody suffers for a neighbour."""

import asyncio

import pytest

from storage.errors import ConstraintError, DatabaseUnavailable, NotUnique, RowLocked
from storage.postgres.group_commit import GroupCommit


class Table:
    """Stands for the flush of a table: takes upper-cased text, refuses what it is told to, can be held."""

    def __init__(self, refusals: dict[str, Exception] | None = None) -> None:
        self.refusals = refusals or {}
        self.flushes: list[list[str]] = []
        self.rows: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = asyncio.Event()

    async def flush(self, items: list[str]) -> list[str]:
        self.flushes.append(items)
        self.entered.set()
        await self.gate.wait()
        for item in items:
            if item in self.refusals:
                raise self.refusals[item]
        self.rows += items
        return [item.upper() for item in items]


async def add_all(batch: GroupCommit[str, str], *items: str) -> list[str | BaseException]:
    return await asyncio.gather(*(batch.add(item) for item in items), return_exceptions=True)


async def let_others_run() -> None:
    """Enough trips through the loop for every ready task to come to its next wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_callers_of_one_tick_share_a_flush_and_each_gets_its_own_answer() -> None:
    table = Table()
    batch = GroupCommit("letters", table.flush)
    assert await add_all(batch, "a", "b", "c") == ["A", "B", "C"]
    assert table.flushes == [["a", "b", "c"]]


async def test_a_lone_item_is_flushed_at_once() -> None:
    table = Table()
    batch = GroupCommit("letters", table.flush)
    add = asyncio.create_task(batch.add("a"))
    await let_others_run()
    assert table.flushes == [["a"]]
    assert await add == "A"


async def test_what_arrives_in_the_pause_after_a_flush_of_several_shares_the_next() -> None:
    table = Table()
    batch = GroupCommit("letters", table.flush, pause_seconds=0.5)
    await add_all(batch, "a", "b")

    first = asyncio.create_task(batch.add("c"))
    await let_others_run()
    await asyncio.gather(first, batch.add("d"))

    assert table.flushes == [["a", "b"], ["c", "d"]]


async def test_what_arrives_during_a_flush_forms_the_next_one_in_order() -> None:
    table = Table()
    table.gate.clear()
    batch = GroupCommit("letters", table.flush)
    first = asyncio.create_task(add_all(batch, "a"))
    await table.entered.wait()
    second = asyncio.create_task(add_all(batch, "b", "c"))
    third = asyncio.create_task(add_all(batch, "d"))
    await let_others_run()
    table.gate.set()
    await asyncio.gather(first, second, third)
    assert table.flushes == [["a"], ["b", "c", "d"]]


async def test_a_flush_takes_no_more_than_its_most() -> None:
    table = Table()
    batch = GroupCommit("letters", table.flush, most=2)
    await add_all(batch, "a", "b", "c", "d", "e")
    assert table.flushes == [["a", "b"], ["c", "d"], ["e"]]


async def test_a_cancelled_caller_cancels_neither_its_item_nor_its_neighbours() -> None:
    table = Table()
    table.gate.clear()
    batch = GroupCommit("letters", table.flush)
    gone, stays = asyncio.create_task(batch.add("a")), asyncio.create_task(batch.add("b"))
    await table.entered.wait()
    gone.cancel()
    await asyncio.wait({gone})
    table.gate.set()
    assert await stays == "B"
    assert gone.cancelled()
    assert table.rows == ["a", "b"]


@pytest.mark.parametrize("error", [NotUnique("id"), RowLocked("held")], ids=["constraint", "lock"])
async def test_a_bad_item_fails_alone(error: Exception) -> None:
    table = Table({"b": error})
    batch = GroupCommit("letters", table.flush)
    assert await add_all(batch, "a", "b", "c") == ["A", error, "C"]
    assert table.rows == ["a", "c"], "order is kept"


async def test_a_database_that_is_away_fails_all_of_a_flush_at_once() -> None:
    table = Table({"b": DatabaseUnavailable("away")})
    batch = GroupCommit("letters", table.flush)
    answers = await add_all(batch, "a", "b", "c")
    assert [type(answer) for answer in answers] == [DatabaseUnavailable] * 3
    assert len(table.flushes) == 1, "nothing is tried again on a database that is away"


async def test_a_defect_in_the_flush_reaches_its_callers_and_the_batch_goes_on() -> None:
    table = Table({"b": ZeroDivisionError()})
    batch = GroupCommit("letters", table.flush)
    assert [type(answer) for answer in await add_all(batch, "a", "b")] == [ZeroDivisionError] * 2
    assert await batch.add("c") == "C"


async def test_a_flush_that_answers_fewer_than_it_was_given_is_a_defect() -> None:
    async def flush(items: list[str]) -> list[str]:
        return items[1:]

    batch = GroupCommit("letters", flush)
    assert [type(answer) for answer in await add_all(batch, "a", "b")] == [ValueError] * 2


async def test_beyond_its_limit_the_batch_refuses_before_it_takes_anything() -> None:
    table = Table()
    table.gate.clear()
    batch = GroupCommit("letters", table.flush, pending_limit=2)
    first = asyncio.create_task(add_all(batch, "a"))
    await table.entered.wait()
    waiting = asyncio.create_task(add_all(batch, "b", "c"))
    await let_others_run()
    with pytest.raises(DatabaseUnavailable, match="too many writes wait"):
        await batch.add("d")
    table.gate.set()
    await asyncio.gather(first, waiting)
    assert table.rows == ["a", "b", "c"]


async def test_closing_flushes_what_is_pending_then_refuses() -> None:
    table = Table()
    table.gate.clear()
    batch = GroupCommit("letters", table.flush)
    adding = asyncio.create_task(add_all(batch, "a", "b"))
    await table.entered.wait()
    late = asyncio.create_task(batch.add("c"))
    await let_others_run()
    closing = asyncio.create_task(batch.close())
    await let_others_run()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await batch.add("d")
    table.gate.set()
    await closing
    assert table.rows == ["a", "b", "c"]
    assert [*await adding, await late] == ["A", "B", "C"]


async def test_an_idle_batch_closes_at_once_and_leaves_no_task() -> None:
    table = Table()
    batch = GroupCommit("letters", table.flush)
    await batch.add("a")
    await batch.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_item_added_the_moment_a_flush_ends_is_not_forgotten() -> None:
    table = Table()
    batch = GroupCommit("letters", table.flush)

    async def add_again() -> str:
        await batch.add("a")
        return await batch.add("b")  # runs right after the answer, while the worker is ending

    assert await asyncio.wait_for(add_again(), timeout=5) == "B"


async def test_many_callers_are_each_answered_with_their_own_row() -> None:
    async def flush(items: list[int]) -> list[int]:
        await asyncio.sleep(0)
        return [item * 2 for item in items]

    batch = GroupCommit("numbers", flush, most=7)

    async def caller(number: int, trips: int) -> bool:
        for _ in range(trips):
            await asyncio.sleep(0)
        return await batch.add(number) == number * 2

    assert all(await asyncio.gather(*(caller(number, number % 11) for number in range(500))))


async def test_an_error_of_the_constraint_kind_from_a_lone_item_is_not_tried_again() -> None:
    table = Table({"a": ConstraintError("bad")})
    batch = GroupCommit("letters", table.flush)
    with pytest.raises(ConstraintError, match="bad"):
        await batch.add("a")
    assert len(table.flushes) == 1


def test_a_batch_tells_its_state() -> None:
    async def flush(items: list[str]) -> list[str]:
        return items

    assert repr(GroupCommit("letters", flush)) == "<Batch letters: idle, 0 pending>"
