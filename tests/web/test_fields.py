"""The strict fields: accepted values, refusals and their messages."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError

from storage.model import Priority
from web.fields import (
    Boolean,
    Choice,
    Datetime,
    DayOrDatetime,
    Email,
    EmailFilter,
    Integer,
    JsonValue,
    Line,
    ListOf,
    LocalPart,
    Money,
    OneOf,
    PhoneFilter,
    Text,
    Timezone,
    Url,
    UtcDatetime,
    Uuid,
    check_json,
    check_layers,
    to_utc,
)

A_UUID = "01890a5d-ac96-774b-bcce-b302099a8057"


def refusal(field: Any, value: object) -> Any:
    """Return the messages with which the field refuses the value."""
    with pytest.raises(ValidationError) as refused:
        field.deserialize(value)
    return refused.value.messages


def test_line_is_trimmed_and_text_is_not() -> None:
    assert Line().deserialize("  a b ") == "a b"
    assert Text().deserialize("  a b ") == "  a b "


def test_text_takes_numbers_as_their_digits() -> None:
    assert [Text().deserialize(value) for value in (7, -1, 2**70, 1.5)] == ["7", "-1", str(2**70), "1.5"]


@pytest.mark.parametrize("value", [True, [], {}, ["a"]])
def test_text_refuses_booleans_lists_and_objects(value: object) -> None:
    assert refusal(Text(), value) == ["Not a valid string."]


def test_text_refuses_nuls_and_lone_surrogates() -> None:
    assert refusal(Text(), "a\x00b") == ["Null characters are not allowed."]
    assert refusal(Text(), "a\ud800b") == ["Surrogate characters are not allowed."]
    assert Text().deserialize("ü\U0001f600") == "ü\U0001f600"


def test_blank_null_and_missing_have_their_own_messages() -> None:
    title = Line(required=True, blank=False)
    assert refusal(title, "   ") == ["This field may not be blank."]
    assert refusal(title, None) == ["This field may not be null."]


def test_length_is_counted_after_trimming() -> None:
    field = Line(max_length=3)
    assert field.deserialize(" abc ") == "abc"
    assert refusal(field, "abcd") == ["Ensure this field has no more than 3 characters."]


@pytest.mark.parametrize(("value", "taken"), [(5, 5), ("5", 5), ("-7", -7), (" 8 ", 8), (3.0, 3), (0, 0)])
def test_integer_is_number_or_ascii_digits(value: object, taken: int) -> None:
    assert Integer(min_value=-10, max_value=10).deserialize(value) == taken


@pytest.mark.parametrize(
    "value",
    [
        True,
        3.7,
        "1_000",
        "\uff13",
        "",
        "1.0",
        "0x1",
        "+1",
        "9" * 5000,
        [],
        {},
        float("inf"),
        float("nan"),
        "\t1",
    ],
)
def test_integer_refuses_other_values(value: object) -> None:
    assert refusal(Integer(min_value=0, max_value=10), value) == ["A valid integer is required."]


def test_integer_has_range() -> None:
    field = Integer(min_value=0, max_value=10)
    assert refusal(field, -1) == ["Ensure this value is greater than or equal to 0."]
    assert refusal(field, 11) == ["Ensure this value is less than or equal to 10."]
    assert refusal(field, 2**70) == ["Ensure this value is less than or equal to 10."]


@pytest.mark.parametrize("value", [True, "true", "TRUE", "1", 1])
def test_true_has_these_spellings(value: object) -> None:
    assert Boolean().deserialize(value) is True


@pytest.mark.parametrize("value", [False, "false", "False", "0", 0])
def test_false_has_these_spellings(value: object) -> None:
    assert Boolean().deserialize(value) is False


@pytest.mark.parametrize("value", ["yes", "on", "t", "", " true", 2, -1, 1.0, [], {}])
def test_boolean_refuses_other_values(value: object) -> None:
    assert refusal(Boolean(), value) == ["Must be a valid boolean."]


def test_uuid_has_usual_form() -> None:
    assert str(Uuid().deserialize(A_UUID.upper())) == A_UUID


@pytest.mark.parametrize(
    "value",
    [A_UUID.replace("-", ""), f"{{{A_UUID}}}", f"urn:uuid:{A_UUID}", "x", 7, b"0" * 16, A_UUID + "\n"],
)
def test_uuid_refuses_other_forms(value: object) -> None:
    assert refusal(Uuid(), value) == ["Must be a valid UUID."]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-21T09:00:00Z", datetime(2026, 11, 21, 9, tzinfo=UTC)),
        ("2026-11-21t09:00:00.5z", datetime(2026, 11, 21, 9, microsecond=500_000, tzinfo=UTC)),
        ("2026-11-21 09:00+02:00", datetime(2026, 11, 21, 7, tzinfo=UTC)),
        ("2026-11-21T09:00:00-0330", datetime(2026, 11, 21, 12, 30, tzinfo=UTC)),
        ("2026-11-21T09:00:00", datetime(2026, 11, 21, 9)),  # noqa: DTZ001 (naive on purpose)
    ],
)
def test_datetimes_are_iso_8601(text: str, instant: datetime) -> None:
    assert Datetime().deserialize(text) == instant


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-21",
        "tomorrow",
        "",
        1_700_000_000,
        "2026-02-30T00:00Z",
        "2026-W10-1T00:00Z",
        "\uff12026-11-21T00:00Z",
    ],
)
def test_datetime_refuses_dates_and_other_values(value: object) -> None:
    (message,) = refusal(Datetime(), value)
    assert message.startswith("Datetime has wrong format. Use one of these formats instead: ")


@pytest.mark.parametrize("text", ["9999-12-31T23:00:00-05:00", "0001-01-01T00:00:00+01:00"])
def test_instants_outside_the_years_1_to_9999_are_refused(text: str) -> None:
    assert refusal(Datetime(), text) == ["Datetime value out of range."]


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        (datetime(2026, 3, 8, 2, 30), datetime(2026, 3, 8, 7, 30, tzinfo=UTC)),  # noqa: DTZ001 (skipped)
        (datetime(2026, 11, 1, 1, 30), datetime(2026, 11, 1, 5, 30, tzinfo=UTC)),  # noqa: DTZ001 (shown twice)
        (datetime(2026, 7, 1, 12), datetime(2026, 7, 1, 16, tzinfo=UTC)),  # noqa: DTZ001
    ],
)
def test_skipped_local_time_moves_forward_and_doubled_is_first(local: datetime, instant: datetime) -> None:
    assert to_utc(local, ZoneInfo("America/New_York")) == instant


@pytest.mark.parametrize("moment", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_ends_of_time_are_refused(moment: datetime) -> None:
    for written in (moment, moment.replace(tzinfo=None)):
        with pytest.raises(ValidationError, match="out of range"):
            to_utc(written, UTC)


def test_local_time_outside_calendar_in_utc_is_refused() -> None:
    with pytest.raises(ValidationError, match="out of range"):
        to_utc(datetime(1, 1, 1), ZoneInfo("Asia/Tokyo"))  # noqa: DTZ001


def test_choice_is_enum_value() -> None:
    assert Choice(Priority).deserialize("high") is Priority.HIGH
    assert refusal(Choice(Priority), "urgent") == ['"urgent" is not a valid choice.']
    assert refusal(Choice(Priority), 5) == ['"5" is not a valid choice.']
    assert refusal(Choice(Priority), "") == ['"" is not a valid choice.']
    assert Choice(Priority, blank=True).deserialize("") == ""


def test_list_items_are_refused_by_index() -> None:
    tags = ListOf(Line(max_length=3, blank=False))
    assert tags.deserialize(["a", " b "]) == ["a", "b"]
    assert refusal(tags, "a") == ['Expected a list of items but got type "str".']
    assert refusal(tags, ["a", "long", None]) == {
        1: ["Ensure this field has no more than 3 characters."],
        2: ["This field may not be null."],
    }


def test_addresses_and_timezones_are_checked() -> None:
    assert Email().deserialize(" a.b@example.com ") == "a.b@example.com"
    assert refusal(Email(), "a@b") == ["Enter a valid email address."]
    assert Email().deserialize(f"{'a' * 64}@example.org").startswith("aaa")
    assert refusal(Email(), f"{'a' * 65}@example.org") == ["Enter a valid email address."]
    assert LocalPart().deserialize("front.desk+1") == "front.desk+1"
    assert refusal(LocalPart(), "a..b") == ["Enter a valid local part of an email address."]
    assert Timezone().deserialize("Europe/Berlin") == "Europe/Berlin"
    assert refusal(Timezone(), "../etc/passwd") == ['"../etc/passwd" is not a valid choice.']


@pytest.mark.parametrize("text", ["https://example.com/hook?x=1", "http://10.0.0.1:8080", ""])
def test_http_addresses_are_urls(text: str) -> None:
    assert Url(blank=True).deserialize(text) == text


@pytest.mark.parametrize(
    "text", ["ftp://x", "example.com", "http://", "http://a b", "http://[", "javascript:1"]
)
def test_url_refuses_other_values(text: str) -> None:
    assert refusal(Url(), text) == ["Enter a valid URL."]


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (0, "0"),
        (7, "7"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (" 12.50 ", "12.50"),
        (999999999999, "999999999999"),
    ],
)
def test_money_is_exact(sent: object, taken: str) -> None:
    assert Money().deserialize(sent) == Decimal(taken)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "Ensure this value is greater than or equal to 0."),
        (10**12, "Ensure this value is less than or equal to 999999999999.999999."),
        (1e300, "Ensure this value is less than or equal to 999999999999.999999."),
        (0.0000001, "Ensure that there are no more than 6 decimal places."),
        ("1.0000000", "Ensure that there are no more than 6 decimal places."),
        (True, "A valid number is required."),
        ("1e3", "A valid number is required."),
        (float("nan"), "A valid number is required."),
        (float("-inf"), "A valid number is required."),
        ("", "A valid number is required."),
        (".5", "A valid number is required."),
        ("1.", "A valid number is required."),
        ("9" * 21, "A valid number is required."),
        ("\uff13", "A valid number is required."),
        ([], "A valid number is required."),
        ({}, "A valid number is required."),
    ],
)
def test_money_is_never_rounded_or_negative(value: object, message: str) -> None:
    assert refusal(Money(), value) == [message]


def test_day_or_datetime_takes_date_as_midnight() -> None:
    assert DayOrDatetime().deserialize("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert DayOrDatetime().deserialize("2026-01-31T10:00+02:00") == datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert "Datetime has wrong format" in refusal(DayOrDatetime(), "2026-02-30")[0]


def test_list_length_is_checked_before_items() -> None:
    assert ListOf(Line()).deserialize(["x"] * 1000) == ["x"] * 1000
    assert refusal(ListOf(Line()), [[]] * 1001) == ["Ensure this field has no more than 1000 elements."]


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_json_values_have_limits() -> None:
    field = JsonValue()
    kept = {"a": [1, -(2**63), 2**64 - 1, 1.5, None, True, "ü"]}
    assert field.deserialize(kept) == kept
    assert field.deserialize(nested(64)) == nested(64)
    assert refusal(field, nested(65)) == ["Nested deeper than 64 levels."]
    for number in (2**64, -(2**63) - 1):
        assert refusal(field, [number]) == [
            "Ensure integers are between -9223372036854775808 and 18446744073709551615."
        ]
    assert refusal(field, {"a": float("nan")}) == ["NaN and Infinity are not allowed."]
    assert refusal(field, {"a\x00": 1}) == ["Null characters are not allowed."]
    assert refusal(field, ["\udc00"]) == ["Surrogate characters are not allowed."]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(value=ANYTHING)
def test_fields_accept_or_refuse_any_value_without_crash(value: object) -> None:
    for field in (
        Text(),
        Line(max_length=5),
        Integer(min_value=0, max_value=9),
        Boolean(),
        Uuid(),
        Datetime(),
        DayOrDatetime(),
        Money(),
        Email(),
        LocalPart(),
        Timezone(),
        Url(),
        Choice(Priority),
        ListOf(Uuid()),
        JsonValue(),
    ):
        try:
            field.deserialize(value)
        except ValidationError:
            continue


SCALARS = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers(-(2**66), 2**66)
    | st.sampled_from([-(2**63) - 1, -(2**63), 2**64 - 1, 2**64])
    | st.text(st.characters() | st.sampled_from('\0\ud800\\u0n"'))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner), max_leaves=10
)


def messages(check: Callable[[Any], object], value: Any) -> Any:
    """Return the messages with which the check refuses the value, none if it accepts it."""
    try:
        check(value)
    except ValidationError as error:
        return error.messages
    return []


@given(value=VALUES, levels=st.integers(0, 66))
def test_json_is_judged_as_layer_by_layer(value: Any, levels: int) -> None:
    for _ in range(levels):
        value = [value]
    assert messages(check_json, value) == messages(check_layers, value)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-01-01T12:00", "2026-01-01T12:00Z", "2026-01-01 13:00:00.0+01:00"])
def test_time_without_offset_is_utc(text: str) -> None:
    assert UtcDatetime().deserialize(text) == NOON


@pytest.mark.parametrize("text", ["2026-01-01", "", "9999-12-31T23:59:59.999999", "0001-01-01T00:00"])
def test_date_and_ends_of_time_are_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        UtcDatetime().deserialize(text)


def test_other_text_is_refused_with_the_choices() -> None:
    field = OneOf(("slept", "failed"))
    assert field.deserialize(" slept ") == "slept"
    with pytest.raises(ValidationError) as refused:
        field.deserialize("Slept")
    assert refused.value.messages == ['"Slept" is not a valid choice. Choose one of: slept, failed.']


def test_space_in_email_is_the_plus_of_a_query() -> None:
    field = EmailFilter(blank=False)
    assert field.deserialize(" ada x@example.org ") == "ada+x@example.org"
    for text in ("", "ada", "ada@@example.org"):
        with pytest.raises(ValidationError):
            field.deserialize(text)


def test_phone_is_reduced_to_its_digits() -> None:
    assert PhoneFilter().deserialize(" 43 (1) 234-56") == "43123456"
    for text in ("", "+", "unknown", "\u0664\u0663"):
        with pytest.raises(ValidationError, match="at least one digit"):
            PhoneFilter().deserialize(text)
