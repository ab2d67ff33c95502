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


def test_year_of_sleep_takes_no_real_time() -> None:
    async def sleep_a_year() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(365 * 86_400)
        return loop.time() - before

    began = time.monotonic()

    assert run(sleep_a_year()) == 365 * 86_400
    assert time.monotonic() - began < 60


def test_timer_fires_once_no_task_is_ready() -> None:
    quiet_at: list[float] = []
    with loop_of(0) as loop:
        loop.before_time_passes = lambda: quiet_at.append(loop.time())

        async def wait() -> list[float]:
            async with asyncio.timeout(5):
                await asyncio.gather(asyncio.sleep(1), asyncio.sleep(1), asyncio.sleep(2.5))
            return [moment - quiet_at[0] for moment in quiet_at]

        assert loop.run_until_complete(wait()) == [0, 1]


def test_order_is_random_but_fixed_by_the_seed() -> None:
    orders = [run(order_of(6), seed) for seed in range(20)]

    assert len(set(map(tuple, orders))) > 10
    assert orders == [run(order_of(6), seed) for seed in range(20)]
    assert all(sorted(order) == list(range(6)) for order in orders)


@pytest.mark.parametrize("seed", range(20))
def test_callbacks_of_one_future_keep_their_order(seed: int) -> None:
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


def test_endless_loop_is_detected() -> None:
    with loop_of(0) as loop:

        def go_round() -> None:
            loop.call_soon(go_round)

        go_round()
        with pytest.raises(EndlessMoment):
            loop.run_forever()


def test_waiting_without_a_timer_is_detected() -> None:
    with loop_of(0) as loop:
        future = loop.create_future()
        with pytest.raises(NothingAhead):
            loop.run_until_complete(future)
