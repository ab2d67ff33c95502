"""Array parameters: which types asyncpg takes for arrays once a pool has been opened."""

from collections import deque
from collections.abc import Collection
from typing import Any

import asyncpg
import pytest

from storage.postgres.pool import Pool


@pytest.mark.parametrize(
    "values",
    [[3, 5], (3, 5), {3, 5}, frozenset({3, 5}), {3: "a", 5: "b"}.keys(), {"a": 3, "b": 5}.values()],
    ids=lambda values: type(values).__name__,
)
async def test_collection_is_an_array(pool: Pool, values: Collection[int]) -> None:
    assert await pool.fetchval("SELECT $1::bigint[]", values) == [3, 5]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", []),
        ("bigint", [None]),
        ("bigint", [[1, 2], [3, 4]]),
        ("text", ["", "a{"]),
        ("bytea", [b"x", None]),
    ],
    ids=repr,
)
async def test_elements_are_stored_as_they_are(pool: Pool, kind: str, values: list[Any]) -> None:
    assert await pool.fetchval(f"SELECT $1::{kind}[]", values) == values


async def test_asyncpg_still_looks_up_what_an_array_is(pool: Pool) -> None:
    # If this fails, asyncpg has changed: see whether it still asks abstract classes about each element.
    with pytest.raises(asyncpg.DataError, match="a sized iterable container expected"):
        await pool.fetchval("SELECT $1::bigint[]", deque([3, 5]))
