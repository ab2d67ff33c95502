"""JSON columns: long values pass through as text."""

from uuid import UUID

import asyncpg.pgproto.pgproto as pgproto
import pytest

from storage.postgres.json_values import MAX_DECODED_BYTES, EncodedJson, decoded, from_json, to_json
from storage.postgres.pool import Pool

LONG = {"text": "é" * MAX_DECODED_BYTES, "numbers": [1, 2.5, None]}


def test_short_text_is_decoded_and_long_text_kept() -> None:
    assert from_json(b'{"a": [1]}') == {"a": [1]}
    assert from_json(to_json(LONG)) == EncodedJson(to_json(LONG))
    assert decoded(from_json(to_json(LONG))) == decoded(LONG) == LONG


def test_long_text_of_several_lines_is_decoded() -> None:
    assert from_json(b"[\n" + to_json(LONG) + b"]") == [LONG]


def test_encoded_value_is_written_as_it_is() -> None:
    text, one = b'{"b": 1.50}', UUID(int=1)
    assert to_json([EncodedJson(text), pgproto.UUID(str(one))]) == b'[{"b": 1.50},"%b"]' % str(one).encode()
    with pytest.raises(TypeError):
        to_json({1, 2})


async def test_long_value_comes_back_from_the_database_unchanged(pool: Pool) -> None:
    stored = await pool.fetchval("SELECT $1::json", LONG)
    again = await pool.fetchval("SELECT $1::json", stored)
    assert decoded(again) == LONG


async def test_bytes_are_written_as_a_bytea_reads_them(pool: Pool) -> None:
    sql = "SELECT value FROM json_to_record($1::json) AS r (value bytea)"
    assert await pool.fetchval(sql, {"value": b"\x00\\x \xff"}) == b"\x00\\x \xff"
