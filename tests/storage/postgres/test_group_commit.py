"""Group commit: which items share a flush, what each caller gets, and how failures are kept apart."""

import asyncio

import pytest

from storage.errors import DatabaseBusy, DatabaseUnavailable, NoAnswer, NotUnique, RowLocked
from storage.postgres.group_commit import (
    GroupCommit,
)
from tests.patience import PATIENCE_SECONDS


class Table:
    """A fake flush: answers with upper-case text, raises the given errors, and can be held up by its gate."""

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


async def add_all(group: GroupCommit[str, str], *items: str) -> list[str | BaseException]:
    return await asyncio.gather(*(group.add(item) for item in items), return_exceptions=True)


async def let_others_run() -> None:
    """Yield to the loop often enough for every ready task to reach its next wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_concurrent_callers_share_a_flush_and_get_their_own_answers() -> None:
    table = Table()
    group = GroupCommit("letters", table.flush)
    assert await add_all(group, "a", "b", "c") == ["A", "B", "C"]
    assert table.flushes == [["a", "b", "c"]]


async def test_lone_item_is_flushed_at_once() -> None:
    table = Table()
    group = GroupCommit("letters", table.flush)
    add = asyncio.create_task(group.add("a"))
    await let_others_run()
    assert table.flushes == [["a"]]
    assert await add == "A"


async def test_items_arriving_during_a_flush_form_the_next_in_order() -> None:
    table = Table()
    table.gate.clear()
    group = GroupCommit("letters", table.flush)
    first = asyncio.create_task(add_all(group, "a"))
    await table.entered.wait()
    second = asyncio.create_task(add_all(group, "b", "c"))
    third = asyncio.create_task(add_all(group, "d"))
    await let_others_run()
    table.gate.set()
    await asyncio.gather(first, second, third)
    assert table.flushes == [["a"], ["b", "c", "d"]]


async def test_flush_takes_at_most_max_items() -> None:
    table = Table()
    group = GroupCommit("letters", table.flush, max_items=2)
    await add_all(group, "a", "b", "c", "d", "e")
    assert table.flushes == [["a", "b"], ["c", "d"], ["e"]]


async def test_cancelled_caller_cancels_neither_its_item_nor_others() -> None:
    table = Table()
    table.gate.clear()
    group = GroupCommit("letters", table.flush)
    gone, stays = asyncio.create_task(group.add("a")), asyncio.create_task(group.add("b"))
    await table.entered.wait()
    gone.cancel()
    await asyncio.wait({gone})
    table.gate.set()
    assert await stays == "B"
    assert gone.cancelled()
    assert table.rows == ["a", "b"]


@pytest.mark.parametrize("error", [NotUnique("id"), RowLocked("held")], ids=["constraint", "lock"])
async def test_bad_item_fails_alone(error: Exception) -> None:
    table = Table({"b": error})
    group = GroupCommit("letters", table.flush)
    assert await add_all(group, "a", "b", "c") == ["A", error, "C"]
    assert table.rows == ["a", "c"], "the order must be kept"


async def test_unavailable_database_fails_the_whole_flush_once() -> None:
    table = Table({"b": DatabaseUnavailable("away")})
    group = GroupCommit("letters", table.flush)
    answers = await add_all(group, "a", "b", "c")
    assert [type(answer) for answer in answers] == [DatabaseUnavailable] * 3
    assert len(table.flushes) == 1, "a flush was repeated although the database is unavailable"


async def test_crash_in_a_flush_reaches_callers_and_work_continues() -> None:
    table = Table({"b": ZeroDivisionError()})
    group = GroupCommit("letters", table.flush)
    assert [type(answer) for answer in await add_all(group, "a", "b")] == [ZeroDivisionError] * 2
    assert await group.add("c") == "C"


async def test_flush_with_too_few_results_raises() -> None:
    async def flush(items: list[str]) -> list[str]:
        return items[1:]

    group = GroupCommit("letters", flush)
    assert [type(answer) for answer in await add_all(group, "a", "b")] == [ValueError] * 2


async def test_item_beyond_max_pending_is_refused_before_any_effect() -> None:
    table = Table()
    table.gate.clear()
    group = GroupCommit("letters", table.flush, max_pending=2)
    first = asyncio.create_task(add_all(group, "a"))
    await table.entered.wait()
    waiting = asyncio.create_task(add_all(group, "b", "c"))
    await let_others_run()
    with pytest.raises(DatabaseBusy, match="too many requests are waiting"):
        await group.add("d")
    table.gate.set()
    await asyncio.gather(first, waiting)
    assert table.rows == ["a", "b", "c"]


async def test_close_flushes_pending_items_then_refuses() -> None:
    table = Table()
    table.gate.clear()
    group = GroupCommit("letters", table.flush)
    adding = asyncio.create_task(add_all(group, "a", "b"))
    await table.entered.wait()
    late = asyncio.create_task(group.add("c"))
    await let_others_run()
    closing = asyncio.create_task(group.close())
    await let_others_run()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await group.add("d")
    table.gate.set()
    await closing
    assert table.rows == ["a", "b", "c"]
    assert [*await adding, await late] == ["A", "B", "C"]


async def test_idle_group_closes_at_once_and_leaves_no_task() -> None:
    table = Table()
    group = GroupCommit("letters", table.flush)
    await group.add("a")
    await group.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_item_added_as_a_flush_ends_is_flushed() -> None:
    table = Table()
    group = GroupCommit("letters", table.flush)

    async def add_again() -> str:
        await group.add("a")
        return await group.add("b")  # runs right after the answer, while the worker ends

    assert await asyncio.wait_for(add_again(), timeout=PATIENCE_SECONDS) == "B"


async def test_unanswered_flush_fails_the_items_that_wait_for_it() -> None:
    table = Table({"a": NoAnswer("no answer in time")})
    group = GroupCommit("letters", table.flush)
    table.gate.clear()
    first = asyncio.create_task(group.add("a"))
    await let_others_run()
    later = asyncio.create_task(add_all(group, "b", "c"))
    await let_others_run()
    table.gate.set()
    with pytest.raises(NoAnswer):
        await first
    assert [type(answer) for answer in await later] == [NoAnswer, NoAnswer]
    assert table.flushes == [["a"]]
    assert await group.add("d") == "D"
