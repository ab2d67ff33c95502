"""Rows become values of the model, and values the parameters of an INSERT."""

from dataclasses import dataclass
from enum import StrEnum

import pytest

from storage.postgres.pool import Pool
from storage.postgres.statement import delete_rows, fetch_all, fetch_one, fields_of, from_row, insert_into

SELECT_POINTS = "SELECT x, -x AS y, 'here' AS label FROM generate_series(1, $1::integer) AS x ORDER BY x"


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: int
    y: int
    label: str = ""


@dataclass(frozen=True)
class Drawing:
    color: Color
    background: Color | None
    sizes: tuple[int, ...]
    tags: frozenset[str]


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


async def test_strings_and_arrays_take_the_types_of_their_fields(pool: Pool) -> None:
    row = await pool.fetchrow(
        "SELECT 'red' AS color, NULL AS background, ARRAY[2, 1] AS sizes, ARRAY['old', 'old'] AS tags"
    )
    assert row is not None
    drawing = from_row(Drawing, row)
    assert drawing == Drawing(Color.RED, None, (2, 1), frozenset({"old"}))
    assert isinstance(drawing.color, Color)
    assert from_row(Drawing, row, background=Color.BLUE).background is Color.BLUE


async def test_unknown_value_of_an_enum_is_an_error(pool: Pool) -> None:
    row = await pool.fetchrow("SELECT 'green' AS color, NULL AS background, '{}' AS sizes, '{}' AS tags")
    assert row is not None
    with pytest.raises(ValueError, match="green"):
        from_row(Drawing, row)


async def test_fetch_builds_one_value_or_all(pool: Pool) -> None:
    assert await fetch_one(pool, Point, SELECT_POINTS, 2) == Point(1, -1, "here")
    assert await fetch_one(pool, Point, SELECT_POINTS, 0) is None
    assert await fetch_all(pool, Point, SELECT_POINTS, 2) == [Point(1, -1, "here"), Point(2, -2, "here")]
    assert await fetch_all(pool, Point, SELECT_POINTS, 0) == []


async def test_delete_returns_the_number_of_rows(pool: Pool) -> None:
    async with pool.transaction() as connection:
        await connection.execute("CREATE TEMPORARY TABLE point (x integer)")
        await connection.execute("INSERT INTO point SELECT generate_series(1, 12)")
        assert await delete_rows(connection, "DELETE FROM point WHERE x > $1", 1) == 11
        assert await delete_rows(connection, "DELETE FROM point WHERE x > $1", 1) == 0
        await connection.execute("DROP TABLE point")


def test_insert_has_the_fields_and_what_is_given() -> None:
    columns = fields_of(Point(1, 2, "here"), without=("x",)) | {"y": 7, "z": 3}
    insert = insert_into("point", columns)
    assert insert == ("INSERT INTO point (y, label, z) VALUES ($1, $2, $3)", 7, "here", 3)
