"""Scalars in all the ways that clients may write them."""

from decimal import Decimal

import pytest

from supervisors.scalars import parse_boolean, parse_integer, parse_number, parse_text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((True, 1, "1", "true", "TRUE"), True),
        ((False, 0, "0", "false", "False"), False),
        ((None, 2, -1, 1.0, "", "yes", " true", [], {}), None),
    ],
)
def test_boolean_has_these_spellings(values: tuple[object, ...], expected: bool | None) -> None:
    assert [parse_boolean(value) for value in values] == [expected] * len(values)


@pytest.mark.parametrize(("value", "expected"), [(5, 5), ("-7", -7), (" 8 ", 8), (3.0, 3), (2**70, 2**70)])
def test_integer_is_number_or_ascii_digits(value: object, expected: int) -> None:
    assert parse_integer(value) == expected


@pytest.mark.parametrize(
    "value",
    [None, True, 3.7, float("inf"), float("nan"), "", "1_000", "\uff13", "1.0", "+1", "\t1", "9" * 1001, []],
)
def test_integer_refuses_everything_else(value: object) -> None:
    assert parse_integer(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.1, "0.1"), (1e-6, "0.000001"), (" 12.50 ", "12.50"), ("-3", "-3"), (2**70, str(2**70))],
)
def test_number_keeps_its_digits(value: object, expected: str) -> None:
    assert parse_number(value) == Decimal(expected)


@pytest.mark.parametrize(
    "value", [None, True, float("nan"), float("-inf"), "", "1e3", ".5", "1.", "9" * 21, "\uff13", {}]
)
def test_number_refuses_everything_else(value: object) -> None:
    assert parse_number(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(" a ", " a "), (7, "7"), (1.5, "1.5"), (True, None), (None, None), ([], None), ({}, None)],
)
def test_text_takes_numbers_as_their_digits(value: object, expected: str | None) -> None:
    assert parse_text(value) == expected
