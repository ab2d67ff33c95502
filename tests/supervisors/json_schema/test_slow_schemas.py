"""Slow schemas: how long they are remembered, and how many."""

from uuid import UUID

from supervisors.json_schema.slow_schemas import MAX_SCHEMAS, REFUSED_SECONDS, SlowSchemas
from tests.supervisors.held_clock import HeldClock

ANN, BOB = UUID(int=1), UUID(int=2)


def test_schema_is_remembered_for_its_organization_only() -> None:
    clock = HeldClock()
    schemas = SlowSchemas(clock)
    schemas.add((ANN, b"1"))
    assert schemas.seconds_left((ANN, b"1")) == REFUSED_SECONDS
    assert schemas.seconds_left((BOB, b"1")) == schemas.seconds_left((ANN, b"2")) == 0
    clock.advance(REFUSED_SECONDS)
    assert schemas.seconds_left((ANN, b"1")) == 0


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
