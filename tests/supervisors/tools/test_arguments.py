"""The arguments of a tool call: accepted spellings, defaults and refusals."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from supervisors.tools.arguments import TAKES_A_MOMENT, Arguments, ToolError

AN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def given(value: Any) -> Arguments:
    return Arguments({"x": value})


ONE_OF = "x takes one of red, blue."
STORABLE = "x takes a text without NUL characters and unpaired surrogates, not binary data."
REFUSED: list[tuple[Callable[[Arguments], object], list[Any], str]] = [
    (lambda a: a.text("x"), [True, []], "x takes a text."),
    (lambda a: a.text("x"), ["a\0b", "\ud800"], STORABLE),
    (lambda a: a.text("x"), [None], "x is required."),
    (lambda a: a.line("x"), [" \n"], "x takes a text that is not blank."),
    (lambda a: a.optional_line("x", 1), ["ab"], "x takes a text of at most 1 characters."),
    (lambda a: a.flag("x", default=True), ["yes", 2, 1.0], "x takes true or false."),
    (lambda a: a.integer("x", 9, 1), [0, "0", 1.5, "one", True], "x takes an integer of at least 1."),
    (
        lambda a: a.number("x", 24),
        [0, -1, 24.1, "24.1", float("nan"), float("inf"), 10**400, True, "many", "nan"],
        "x takes a number above 0 and at most 24.",
    ),
    (lambda a: a.id("x"), ["x", 7], "x takes a UUID."),
    (lambda a: a.choice("x", Colour), ["green"], ONE_OF),
    (
        lambda a: a.moment("x", "UTC"),
        ["2026-11-21", "soon", 7, "0001-01-01T00:00", "9999-12-31T23:00-05:00"],
        f"x {TAKES_A_MOMENT}.",
    ),
]

ACCEPTED: list[tuple[Callable[[Arguments], object], list[tuple[Any, object]]]] = [
    (lambda a: a.text("x", "default"), [(" a ", " a "), (7, "7"), (None, "default")]),
    (lambda a: a.line("x"), [(" a ", "a")]),
    (lambda a: a.optional_line("x", 1), [(" a ", "a"), (" ", ""), (None, None)]),
    (lambda a: a.flag("x", default=True), [("TRUE", True), (0, False), (None, True)]),
    (lambda a: a.integer("x", 9, 1), [("3", 3), (3.0, 3), (None, 9)]),
    (lambda a: a.number("x", 24), [("1.5", 1.5), (24, 24.0), (None, None)]),
    (lambda a: a.id("x"), [(AN_ID, UUID(AN_ID))]),
    (lambda a: a.choice("x", Colour), [("blue", Colour.BLUE), (None, None)]),
    (
        lambda a: a.moment("x", "Europe/Vienna"),
        [
            ("2026-11-21T09:00:00Z", datetime(2026, 11, 21, 9, tzinfo=UTC)),
            (" 2026-11-21t09:00:00+02:00 ", datetime(2026, 11, 21, 7, tzinfo=UTC)),
            ("2026-11-21 09:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
            (None, None),
        ],
    ),
]


def test_unfit_argument_is_refused_by_name() -> None:
    for read, values, message in REFUSED:
        for value in values:
            with pytest.raises(ToolError) as refused:
                read(given(value))
            assert (refused.value.code, refused.value.message) == ("invalid", message), value


def test_argument_is_read_in_each_spelling() -> None:
    for read, values in ACCEPTED:
        for value, expected in values:
            assert read(given(value)) == expected


def test_error_as_json_has_code_message_and_details() -> None:
    error = ToolError("invalid", "limit is too large.", parameter="limit")

    assert error.as_json() == {
        "code": "invalid",
        "message": "limit is too large.",
        "parameter": "limit",
    }


def test_error_message_has_no_nul() -> None:
    assert ToolError("tool_failed", "Out of\0paper").message == "Out of\ufffdpaper"
