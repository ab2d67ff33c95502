"""Rows become values of the model."""

from dataclasses import dataclass

import pytest

from storage.postgres.pool import Pool
from storage.postgres.rows import from_row


@dataclass(frozen=True)
class Point:
    x: int
    y: int
    label: str = ""


async def test_columns_become_the_fields_of_the_same_names(pool: Pool) -> None:
    row = await pool.fetchrow("SELECT 'here' AS label, 2 AS y, 1 AS x, 3 AS z")
    assert row is not None
    assert from_row(Point, row) == Point(1, 2, "here")


async def test_given_fields_replace_columns(pool: Pool) -> None:
    row = await pool.fetchrow("SELECT 1 AS x, 2 AS y")
    assert row is not None
    assert from_row(Point, row, y=7, label="there") == Point(1, 7, "there")


async def test_missing_column_is_an_error(pool: Pool) -> None:
    row = await pool.fetchrow("SELECT 1 AS x, 2 AS y")
    assert row is not None
    with pytest.raises(KeyError, match="label"):
        from_row(Point, row)
