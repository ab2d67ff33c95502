"""The loop of the simulation: virtual time, a random order, and the promises that asyncio makes."""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

import pytest

from tests.simulation.virtual_loop import EndlessMoment, NothingAhead, VirtualLoop


@contextmanager
def loop_of(seed: int) -> Iterator[VirtualLoop]:
    loop = VirtualLoop(Random(seed))  # noqa: S311
    try:
        yield loop
    finally:
        loop.close()


def run(main: Coroutine[Any, Any, Any], seed: int = 0) -> Any:
    with loop_of(seed) as loop:
        return loop.run_until_complete(main)


async def order_of(count: int) -> list[int]:
    """Return the order in which tasks that are ready at once run."""
    came: list[int] = []

    async def come(number: int) -> None:
        came.append(number)

    await asyncio.gather(*map(come, range(count)))
    return came


def test_a_year_passes_in_no_time() -> None:
    async def sleep_a_year() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(365 * 86_400)
        return loop.time() - before

    began = time.monotonic()

    assert run(sleep_a_year()) == 365 * 86_400
    assert time.monotonic() - began < 60


def test_a_timer_comes_at_its_moment_and_only_after_all_is_quiet() -> None:
    quiet_at: list[float] = []
    with loop_of(0) as loop:
        loop.before_time_passes = lambda: quiet_at.append(loop.time())

        async def wait() -> list[float]:
            async with asyncio.timeout(5):
                await asyncio.gather(asyncio.sleep(1), asyncio.sleep(1), asyncio.sleep(2.5))
            return [moment - quiet_at[0] for moment in quiet_at]

        assert loop.run_until_complete(wait()) == [0, 1]


def test_the_order_is_drawn_by_lot_and_the_same_for_the_same_seed() -> None:
    orders = [run(order_of(6), seed) for seed in range(20)]

    assert len(set(map(tuple, orders))) > 10
    assert orders == [run(order_of(6), seed) for seed in range(20)]
    assert all(sorted(order) == list(range(6)) for order in orders)


@pytest.mark.parametrize("seed", range(20))
def test_the_callbacks_of_one_future_keep_their_order(seed: int) -> None:
    async def call_back() -> list[int]:
        came: list[int] = []
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def come(number: int, _: object) -> None:
            came.append(number)

        for number in range(5):
            future.add_done_callback(partial(come, number))
        future.set_result(None)
        await asyncio.sleep(1)
        return came

    assert run(call_back(), seed) == [0, 1, 2, 3, 4]


def test_going_round_without_end_is_noticed() -> None:
    with loop_of(0) as loop:

        def go_round() -> None:
            loop.call_soon(go_round)

        go_round()
        with pytest.raises(EndlessMoment):
            loop.run_forever()


def test_waiting_for_nothing_is_noticed() -> None:
    with loop_of(0) as loop:
        future = loop.create_future()
        with pytest.raises(NothingAhead):
            loop.run_until_complete(future)
