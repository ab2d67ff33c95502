"""Fields of filters: one text of several, times in UTC, addresses and telephone numbers."""

from datetime import UTC, datetime

import pytest
from marshmallow import ValidationError

from web.filter_fields import EmailFilter, OneOf, PhoneFilter, UtcDatetime

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
