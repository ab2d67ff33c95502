"""The cache of values that every request needs."""

from datetime import timedelta

import pytest

from storage.postgres.shared_reads import LIFETIME, MAX_ENTRIES, TtlCache
from tests.storage.factories import NOW

MOMENT = timedelta(microseconds=1)


class Source:
    """A database of numbers that counts how often each is read."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.reads: list[str] = []

    async def read(self, key: str) -> int | None:
        self.reads.append(key)
        return self.values.get(key)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def cache(source: Source) -> TtlCache[str, int]:
    return TtlCache(source.read)


async def test_value_is_read_once_in_its_lifetime(source: Source, cache: TtlCache[str, int]) -> None:
    source.values["a"] = 1
    assert await cache.get("a", NOW) == 1
    source.values["a"] = 2
    assert await cache.get("a", NOW + LIFETIME - MOMENT) == 1
    assert await cache.get("a", NOW + LIFETIME) == 2
    assert source.reads == ["a", "a"]


async def test_value_from_the_future_is_read_again(source: Source, cache: TtlCache[str, int]) -> None:
    source.values["a"] = 1
    await cache.get("a", NOW)
    await cache.get("a", NOW - MOMENT)
    assert source.reads == ["a", "a"], "the clock was set back"


async def test_missing_value_is_not_cached(source: Source, cache: TtlCache[str, int]) -> None:
    assert await cache.get("a", NOW) is None
    source.values["a"] = 1
    assert await cache.get("a", NOW) == 1


async def test_change_empties_the_cache_even_if_it_fails(source: Source, cache: TtlCache[str, int]) -> None:
    source.values = {"a": 1, "b": 2}
    await cache.get("a", NOW)
    await cache.get("b", NOW)
    with pytest.raises(ZeroDivisionError):
        async with cache.invalidating():
            raise ZeroDivisionError
    await cache.get("a", NOW)
    await cache.get("b", NOW)
    assert source.reads == ["a", "b"] * 2


async def test_value_read_during_a_change_is_not_cached(source: Source) -> None:
    cache: TtlCache[str, int]

    async def read_while_another_task_writes(key: str) -> int | None:
        value = await source.read(key)
        async with cache.invalidating():
            source.values[key] = 2
        return value

    source.values["a"] = 1
    cache = TtlCache(read_while_another_task_writes)
    assert await cache.get("a", NOW) == 1
    assert await cache.get("a", NOW) == 2


async def test_full_cache_is_emptied(source: Source, cache: TtlCache[str, int]) -> None:
    for number in range(MAX_ENTRIES + 1):
        source.values[str(number)] = number
        await cache.get(str(number), NOW)
    assert repr(cache) == "<TtlCache with 1 values>"
