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


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(ToolError) as refused:
        read()
    assert refused.value.code == "invalid"
    return refused.value.message


def test_text_keeps_blanks_and_takes_digits() -> None:
    assert given(" a ").text("x") == " a "
    assert given(7).text("x") == "7"
    assert given(None).text("x", "default") == "default"


@pytest.mark.parametrize("value", [True, []])
def test_text_refuses_other_types(value: object) -> None:
    assert refusal(lambda: given(value).text("x")) == "x takes a text."


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_text_refuses_what_cannot_be_stored(value: object) -> None:
    assert refusal(lambda: given(value).text("x")).startswith("x takes a text without NUL characters")


def test_text_without_default_is_required() -> None:
    assert refusal(lambda: Arguments({}).text("x")) == "x is required."


def test_line_is_trimmed_and_not_blank() -> None:
    assert given(" a ").line("x") == "a"
    assert refusal(lambda: given(" \n").line("x")) == "x takes a text that is not blank."


def test_optional_line_is_trimmed_and_bounded() -> None:
    assert Arguments({"name": " a "}).optional_line("name", 1) == "a"
    assert Arguments({"name": " "}).optional_line("name", 1) == ""
    assert Arguments({"name": None}).optional_line("name", 1) is None
    with pytest.raises(ToolError, match="name takes a text of at most 1 characters"):
        Arguments({"name": "ab"}).optional_line("name", 1)


def test_flag_takes_booleans_as_text() -> None:
    assert given("TRUE").flag("x", default=False) is True
    assert given(0).flag("x", default=True) is False
    assert given(None).flag("x", default=True) is True
    assert refusal(lambda: given("yes").flag("x", default=True)) == "x takes true or false."


def test_integer_has_default() -> None:
    assert given("3").integer("x", 9, 1) == 3
    assert given(None).integer("x", 9, 1) == 9


@pytest.mark.parametrize("value", [0, "0", 1.5, "one", True])
def test_integer_below_minimum_or_unreadable_is_refused(value: object) -> None:
    assert refusal(lambda: given(value).integer("x", 9, 1)) == "x takes an integer of at least 1."


def test_number_may_be_left_out() -> None:
    assert given("1.5").number("x", 24) == 1.5
    assert given(24).number("x", 24) == 24.0
    assert given(None).number("x", 24) is None


@pytest.mark.parametrize("value", [0, -1, 24.1, "24.1", float("nan"), float("inf"), 10**400, True, "many"])
def test_number_is_positive_and_bounded(value: object) -> None:
    assert refusal(lambda: given(value).number("x", 24)) == "x takes a number above 0 and at most 24."


def test_id_is_uuid() -> None:
    assert given(AN_ID).id("x") == UUID(AN_ID)
    assert refusal(lambda: given("x").id("x")) == "x takes a UUID."


def test_choice_is_enum_value_or_default() -> None:
    assert given("blue").choice("x", Colour, Colour.RED) is Colour.BLUE
    assert given(None).choice("x", Colour, Colour.RED) is Colour.RED
    assert refusal(lambda: given("green").choice("x", Colour, Colour.RED)) == "x takes one of red, blue."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T09:00:00Z", datetime(2026, 11, 21, 9, tzinfo=UTC)),
        (" 2026-11-21t09:00:00+02:00 ", datetime(2026, 11, 21, 7, tzinfo=UTC)),
        ("2026-11-21 09:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
    ],
)
def test_moment_without_offset_is_local(text: str, expected: datetime) -> None:
    assert given(text).moment("x", "Europe/Vienna") == expected


@pytest.mark.parametrize("value", ["2026-11-21", "soon", 7, "0001-01-01T00:00", "9999-12-31T23:00-05:00"])
def test_moment_refuses_dates_and_ends_of_time(value: object) -> None:
    assert refusal(lambda: given(value).moment("x", "UTC")) == f"x {TAKES_A_MOMENT}."


def test_moment_may_be_left_out() -> None:
    assert given(None).moment("x", "UTC") is None


def test_error_as_json_has_code_message_and_details() -> None:
    error = ToolError("invalid", "limit is too large.", parameter="limit")

    assert error.as_json() == {
        "code": "invalid",
        "message": "limit is too large.",
        "parameter": "limit",
    }


def test_error_message_has_no_nul() -> None:
    assert ToolError("tool_failed", "Out of\0paper").message == "Out of\ufffdpaper"
