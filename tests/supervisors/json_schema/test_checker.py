"""The schema checker: errors of schemas and values, and limits on hostile schemas."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from supervisors.json_schema.checker import LIMIT_EXCEEDED, SchemaChecker, open_schema_checker
from supervisors.json_schema.worker_process import OUTSIDE

PORT = {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer", "minimum": 1}}}


def fanning_out(levels: int) -> dict[str, Any]:
    """Return a small schema that applies 2^levels schemas to each value."""
    branches = {f"a{level}": {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**branches, f"a{levels}": {"type": "string"}}}


@pytest.fixture
async def checker() -> AsyncIterator[SchemaChecker]:
    async with open_schema_checker() as checker:
        yield checker


async def test_error_of_a_value_names_its_path(checker: SchemaChecker) -> None:
    assert await checker.find_errors(PORT, {"port": 1}) == []
    assert await checker.find_errors(PORT, {}) == ['$: "port" is a required property']
    assert await checker.find_errors(PORT, {"port": 0}) == ["$.port: 0 is less than the minimum of 1"]
    assert await checker.find_errors({"items": PORT}, [{"port": 1}, []]) == [
        '$[1]: [] is not of type "object"'
    ]


async def test_schema_is_checked_against_the_meta_schema(checker: SchemaChecker) -> None:
    assert await checker.find_schema_errors(PORT) == []
    assert await checker.find_schema_errors({}) == []
    [fault] = await checker.find_schema_errors({"properties": {"port": {"type": "number?"}}})
    assert fault.startswith('$.properties.port.type: "number?" is not valid')
    assert await checker.find_schema_errors({"$ref": "#/nowhere"}) == ["$: Pointer '/nowhere' does not exist"]


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-04/schema#", "urn:mine"])
async def test_schema_of_another_dialect_is_refused(checker: SchemaChecker, dialect: str) -> None:
    [fault] = await checker.find_schema_errors({"$schema": dialect, "exclusiveMinimum": True})
    assert fault == (
        f'$.$schema: "{dialect}" is not the supported dialect, https://json-schema.org/draft/2020-12/schema'
    )
    for supported in (
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#",
    ):
        assert await checker.find_schema_errors({"$schema": supported}) == []


async def test_schema_over_the_limit_does_not_affect_the_next_check(checker: SchemaChecker) -> None:
    assert await checker.find_errors(fanning_out(40), 7) == [LIMIT_EXCEEDED]
    assert await checker.find_errors(fanning_out(4), "seven") == []


async def test_hostile_pattern_is_matched_in_time(checker: SchemaChecker) -> None:
    [error] = await checker.find_errors({"pattern": "^(a+)+$"}, "a" * 60 + "!")
    assert 'does not match "^(a+)+$"' in error


async def test_number_and_length_of_errors_are_limited(checker: SchemaChecker) -> None:
    schema = {"additionalProperties": {"type": "string"}}
    errors = await checker.find_errors(schema, {f"{number}{'x' * 9000}": number for number in range(99)})
    assert len(errors) == 10
    assert max(map(len, errors)) == 300


async def test_outside_reference_is_refused_and_not_fetched(checker: SchemaChecker) -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outside = {"$ref": f"http://127.0.0.1:{port}/schema"}
        assert await checker.find_schema_errors(outside) == [OUTSIDE]
        assert await checker.find_errors(outside, {}) == [OUTSIDE]
        assert await checker.find_outside_references(["no schema", outside]) == [OUTSIDE]
        assert await checker.find_outside_references([PORT, 7]) == []
    assert requests == []
