"""The schema checker: errors of schemas and values, and limits on hostile schemas."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from supervisors.errors import ChecksPending
from supervisors.json_schema import checker as checker_module
from supervisors.json_schema.checker import (
    LIMIT_EXCEEDED,
    MAX_SCHEMAS,
    MAX_WAITING,
    REFUSED_SECONDS,
    SchemaChecker,
    SlowSchemas,
    open_schema_checker,
)
from supervisors.json_schema.worker_process import OUTSIDE
from tests.supervisors.held_clock import HeldClock

CALLER, OTHER = UUID(int=1), UUID(int=2)
PLACE = "the config_schema of the adapter 7"
PORT = {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer", "minimum": 1}}}


def fanning_out(levels: int) -> dict[str, Any]:
    """Return a small schema that applies 2^levels schemas to each value."""
    branches = {f"a{level}": {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**branches, f"a{levels}": {"type": "string"}}}


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
async def checker(clock: HeldClock) -> AsyncIterator[SchemaChecker]:
    async with open_schema_checker(clock) as checker:
        yield checker


async def test_error_of_a_value_names_its_path(checker: SchemaChecker) -> None:
    assert await checker.find_errors(CALLER, PLACE, PORT, {"port": 1}) == []
    assert await checker.find_errors(CALLER, PLACE, PORT, {}) == ['$: "port" is a required property']
    assert await checker.find_errors(CALLER, PLACE, PORT, {"port": 0}) == [
        "$.port: 0 is less than the minimum of 1"
    ]
    assert await checker.find_errors(CALLER, PLACE, {"items": PORT}, [{"port": 1}, []]) == [
        '$[1]: [] is not of type "object"'
    ]


async def test_schema_is_checked_against_the_meta_schema(checker: SchemaChecker) -> None:
    assert await checker.find_schema_errors(CALLER, PLACE, PORT) == []
    assert await checker.find_schema_errors(CALLER, PLACE, {}) == []
    [fault] = await checker.find_schema_errors(CALLER, PLACE, {"properties": {"port": {"type": "number?"}}})
    assert fault.startswith('$.properties.port.type: "number?" is not valid')
    assert await checker.find_schema_errors(CALLER, PLACE, {"$ref": "#/nowhere"}) == [
        "$: Pointer '/nowhere' does not exist"
    ]


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-04/schema#", "urn:mine"])
async def test_schema_of_another_dialect_is_refused(checker: SchemaChecker, dialect: str) -> None:
    [fault] = await checker.find_schema_errors(CALLER, PLACE, {"$schema": dialect, "exclusiveMinimum": True})
    assert fault == (
        f'$.$schema: "{dialect}" is not the supported dialect, https://json-schema.org/draft/2020-12/schema'
    )
    for supported in (
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#",
    ):
        assert await checker.find_schema_errors(CALLER, PLACE, {"$schema": supported}) == []


async def test_schema_over_the_limit_does_not_affect_the_next_check(checker: SchemaChecker) -> None:
    assert await checker.find_errors(CALLER, PLACE, fanning_out(40), 7) == [LIMIT_EXCEEDED]
    assert await checker.find_errors(CALLER, PLACE, fanning_out(4), "seven") == []


async def test_slow_schema_is_refused_at_once_for_a_minute(checker: SchemaChecker, clock: HeldClock) -> None:
    slow = fanning_out(40)
    refusal = "$: the config_schema of the adapter 7 took too long to check; it is not tried again for"
    assert await checker.find_errors(CALLER, PLACE, slow, 7) == [LIMIT_EXCEEDED]
    clock.advance(0.5)
    assert await checker.find_errors(CALLER, PLACE, slow, "seven") == [f"{refusal} 60 s."]
    assert await checker.find_schema_errors(CALLER, "this schema", slow) == []
    clock.advance(58.6)
    assert await checker.find_errors(CALLER, PLACE, slow, "seven") == [f"{refusal} 1 s."]
    assert await checker.find_errors(OTHER, PLACE, fanning_out(40), "seven") == []
    clock.advance(1)
    assert await checker.find_errors(CALLER, PLACE, slow, "seven") == []


async def test_equal_slow_checks_cost_one_turn(
    checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker_module, "MAX_WAIT_SECONDS", 200)  # for a loaded machine
    checks = [checker.find_errors(CALLER, PLACE, fanning_out(40), 7) for _ in range(200)]
    answers = await asyncio.gather(*checks)
    assert answers[0] == [LIMIT_EXCEEDED]
    assert all("took too long" in error for [error] in answers[1:])


async def test_slow_checks_of_one_organization_leave_a_worker_to_others(checker: SchemaChecker) -> None:
    slow = [
        asyncio.create_task(checker.find_errors(CALLER, PLACE, {**fanning_out(40), "title": str(number)}, 7))
        for number in range(4)
    ]
    await asyncio.sleep(0)
    assert await checker.find_errors(OTHER, PLACE, PORT, {"port": 1}) == []
    assert sum(task.done() for task in slow) <= 1
    for task in slow:
        task.cancel()
    await asyncio.wait(slow)


async def test_check_that_gets_no_turn_in_time_is_refused(
    checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker_module, "MAX_WAIT_SECONDS", 0.05)
    slow = asyncio.create_task(checker.find_errors(CALLER, PLACE, fanning_out(40), 7))
    await asyncio.sleep(0)
    with pytest.raises(ChecksPending):
        await checker.find_errors(CALLER, PLACE, PORT, {})
    assert await slow == [LIMIT_EXCEEDED]
    assert await checker.find_errors(CALLER, PLACE, PORT, {"port": 1}) == []


async def test_number_of_waiting_checks_is_limited(checker: SchemaChecker) -> None:
    checks = [checker.find_errors(CALLER, PLACE, PORT, {"port": 1}) for _ in range(MAX_WAITING + 3)]
    results = await asyncio.gather(*checks, return_exceptions=True)
    assert results[:-2] == [[]] * (MAX_WAITING + 1)
    assert [type(result) for result in results[-2:]] == [ChecksPending, ChecksPending]


async def test_worker_without_processor_time_is_replaced(
    checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await checker.find_errors(CALLER, PLACE, PORT, {"port": 1}) == []
    [worker] = checker._idle
    worker.process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(checker_module, "MAX_ANSWER_SECONDS", 0.05)
    assert await checker.find_errors(CALLER, PLACE, PORT, {"port": 1}) == [LIMIT_EXCEEDED]
    assert worker.process.returncode == -signal.SIGKILL
    monkeypatch.undo()
    assert await checker.find_errors(OTHER, PLACE, PORT, {"port": 1}) == []


async def test_failing_worker_writes_nothing_but_a_line_for_debugging(
    checker: SchemaChecker, capfd: pytest.CaptureFixture[str]
) -> None:
    with capture_logs() as logged:
        assert await checker._ask(b"nonsense\n") == b""
    assert capfd.readouterr().err == ""
    assert [(line["log_level"], "JSONDecodeError" in line["reason"]) for line in logged] == [("debug", True)]


async def test_hostile_pattern_is_matched_in_time(checker: SchemaChecker) -> None:
    [error] = await checker.find_errors(CALLER, PLACE, {"pattern": "^(a+)+$"}, "a" * 60 + "!")
    assert 'does not match "^(a+)+$"' in error


async def test_number_and_length_of_errors_are_limited(checker: SchemaChecker) -> None:
    schema = {"additionalProperties": {"type": "string"}}
    errors = await checker.find_errors(
        CALLER, PLACE, schema, {f"{number}{'x' * 9000}": number for number in range(99)}
    )
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
        assert await checker.find_schema_errors(CALLER, PLACE, outside) == [OUTSIDE]
        assert await checker.find_errors(CALLER, PLACE, outside, {}) == [OUTSIDE]
        assert await checker.find_outside_references(CALLER, PLACE, ["no schema", outside]) == [OUTSIDE]
        assert await checker.find_outside_references(CALLER, PLACE, [PORT, 7]) == []
    assert requests == []


ANN, BOB = UUID(int=1), UUID(int=2)


def test_number_of_remembered_schemas_is_limited() -> None:
    schemas = SlowSchemas(HeldClock())
    for number in (0, *range(MAX_SCHEMAS + 1), 2):
        schemas.add((ANN, str(number).encode()))
    remembered = [
        number for number in range(MAX_SCHEMAS + 1) if schemas.seconds_left((ANN, str(number).encode()))
    ]
    assert len(remembered) == MAX_SCHEMAS
    assert 0 not in remembered


def test_organization_has_slow_schemas_until_its_last_one_is_forgotten() -> None:
    clock = HeldClock()
    schemas = SlowSchemas(clock)
    assert not schemas.has_any(ANN)
    schemas.add((ANN, b"1"))
    clock.advance(REFUSED_SECONDS / 2)
    schemas.add((ANN, b"2"))
    clock.advance(REFUSED_SECONDS / 2)
    assert (schemas.has_any(ANN), schemas.has_any(BOB)) == (True, False)
    clock.advance(REFUSED_SECONDS / 2)
    assert not schemas.has_any(ANN)
