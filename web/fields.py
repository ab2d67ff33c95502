"""Strict fields for request bodies and queries, with the messages of Django REST Framework.

Unlike marshmallow's own fields they refuse 3.7 for an integer, "yes" for a boolean and a date for a datetime.
"""

import re
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from marshmallow import ValidationError, fields, missing, validate

from storage.channels.addresses import BAD_EMAIL, EMAIL_TEXT, REGIONS
from supervisors.client_values import parse_boolean, parse_integer, parse_number, parse_text
from web.storable import SURROGATE, check_json, check_text

Item = TypeVar("Item")
Option = TypeVar("Option", bound=StrEnum)

MIN_INT32 = -(2**31)
MAX_INT32 = 2**31 - 1
MAX_OFFSET = 2**62  # well within the range of a bigint
MAX_MONEY = Decimal("999999999999.999999")  # what numeric(18, 6) holds
MONEY_DECIMALS = 6
MAX_ITEMS = 1000
MAX_SIDE_TEXT = 32_768  # characters of a text that stands beside the one long field of a resource
MAX_KNOWN_UUIDS = 1024  # of those parsed last: items of one list often name the same trace or agent
MAX_LINE_LENGTH = 8192  # for patterns, some of which are slow on a megabyte

UUID_LENGTH = 36  # characters
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
DATE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DATETIME_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,12})?)?"
    r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)?",
)
LOCAL_PART_TEXT = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
TIMEZONES = frozenset(files("tzdata").joinpath("zones").read_text().split())

REQUIRED = "This field is required."
OUT_OF_RANGE = "Datetime value out of range."

# The database's driver stores the very first and the very last microsecond as infinities.
BEGINNING_OF_TIME = datetime.min.replace(tzinfo=UTC)
END_OF_TIME = datetime.max.replace(tzinfo=UTC)


def wording(**messages: str) -> dict[str, Any]:
    """Return a field's own messages together with those that all fields share."""
    return {
        "required": REQUIRED,
        "null": "This field may not be null.",
        "blank": "This field may not be blank.",
        **messages,
    }


def printable(value: object) -> str:
    """Return a value in the form that an error may repeat: short, and valid as UTF-8."""
    return SURROGATE.sub("\ufffd", str(value)[:200])


def unknown_id(value: UUID) -> str:
    """Return the message about an id that does not exist."""
    return f'Invalid pk "{value}" - object does not exist.'


def to_utc(value: datetime, zone: tzinfo) -> datetime:
    """Convert to UTC; a datetime without an offset is local time in `zone`.

    Raise ValidationError for an instant outside the years 1 to 9999 or at their very ends. Local times that
    the clock skips move forward by the gap; of those that it shows twice the first counts.
    """
    try:
        moment = (value.replace(tzinfo=zone) if value.tzinfo is None else value).astimezone(UTC)
    except OverflowError as error:
        raise ValidationError(OUT_OF_RANGE) from error
    if not BEGINNING_OF_TIME < moment < END_OF_TIME:
        raise ValidationError(OUT_OF_RANGE)
    return moment


class _Field(fields.Field[Any]):
    """A field that skips the steps of marshmallow that no value needs but None and a missing one."""

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **options: Any) -> Any:
        if value is None or value is missing:
            return super().deserialize(value, attr, data, **options)
        checked = self._deserialize(value, attr, data, **options)
        self._validate(checked)
        return checked

    def _validate(self, value: Any) -> None:
        if self.validators:
            super()._validate(value)


class Text(_Field, fields.String):
    """Free text, unchanged; a number counts as its digits."""

    default_error_messages = wording()

    def __init__(
        self, *, min_length: int = 0, max_length: int | None = None, blank: bool = True, **options: Any
    ) -> None:
        checks = []
        if min_length:
            message = "Ensure this field has at least {min} characters."
            checks.append(validate.Length(min=min_length, error=message))
        if max_length is not None:
            message = "Ensure this field has no more than {max} characters."
            checks.append(validate.Length(max=max_length, error=message))
        super().__init__(validate=checks, **options)
        self.blank = blank
        self._min_length = min_length
        self._max_length = max_length

    def _validate(self, value: str) -> None:
        length = len(value)
        if length < self._min_length or (self._max_length is not None and length > self._max_length):
            super()._validate(value)  # has the messages, and takes longer

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = parse_text(value)
        if text is None:
            raise self.make_error("invalid")
        text = self._tidy(check_text(text))
        if not self.blank and not text:
            raise self.make_error("blank")
        return text

    def _tidy(self, text: str) -> str:
        return text


class Line(Text):
    """One line of text (a name, a title, an address), trimmed."""

    def _tidy(self, text: str) -> str:
        return text.strip()


class _Pattern(Line):
    """A line that `matches` accepts, or blank if that is allowed."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if text and not (len(text) <= MAX_LINE_LENGTH and self.matches(text)):
            raise self.make_error("pattern", input=printable(text))
        return text

    def matches(self, text: str) -> bool:
        raise NotImplementedError


class Email(_Pattern):
    default_error_messages = wording(pattern=BAD_EMAIL)

    def matches(self, text: str) -> bool:
        return EMAIL_TEXT.fullmatch(text) is not None


class LocalPart(_Pattern):
    """The part of an e-mail address before the @."""

    default_error_messages = wording(pattern="Enter a valid local part of an email address.")

    def matches(self, text: str) -> bool:
        return LOCAL_PART_TEXT.fullmatch(text) is not None


class Timezone(_Pattern):
    """An IANA name."""

    default_error_messages = wording(pattern='"{input}" is not a valid choice.')

    def matches(self, text: str) -> bool:
        return text in TIMEZONES


class Region(_Pattern):
    """A region that has phone numbers, by its two letters of ISO 3166; blank for none."""

    choices = ("", *sorted(REGIONS))

    default_error_messages = wording(pattern='"{input}" is not a valid choice.')

    def matches(self, text: str) -> bool:
        return text in self.choices


class Url(_Pattern):
    """An absolute http or https address."""

    default_error_messages = wording(pattern="Enter a valid URL.")

    def matches(self, text: str) -> bool:
        try:
            parts = urlsplit(text)
            port_is_valid = parts.port is None or parts.port > 0
        except ValueError:
            return False
        unspaced = text.isprintable() and " " not in text
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and port_is_valid and unspaced


class Integer(_Field, fields.Integer):
    default_error_messages = wording(invalid="A valid integer is required.")

    def __init__(self, *, min_value: int, max_value: int, **options: Any) -> None:
        low = "Ensure this value is greater than or equal to {min}."
        high = "Ensure this value is less than or equal to {max}."
        checks = [validate.Range(min=min_value, error=low), validate.Range(max=max_value, error=high)]
        super().__init__(validate=checks, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> int:
        integer = parse_integer(value)
        if integer is None:
            raise self.make_error("invalid")
        return integer


class Money(_Field, fields.Decimal):
    """US dollars, exactly: at least 0, at most six decimals."""

    default_error_messages = wording(
        invalid="A valid number is required.",
        decimals=f"Ensure that there are no more than {MONEY_DECIMALS} decimal places.",
    )

    def __init__(self, **options: Any) -> None:
        low = "Ensure this value is greater than or equal to {min}."
        high = "Ensure this value is less than or equal to {max}."
        checks = [validate.Range(min=Decimal(0), error=low), validate.Range(max=MAX_MONEY, error=high)]
        super().__init__(validate=checks, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Decimal:
        amount = parse_number(value)
        if amount is None:
            raise self.make_error("invalid")
        exponent = amount.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -MONEY_DECIMALS:
            raise self.make_error("decimals")
        return amount


class Boolean(_Field, fields.Boolean):
    default_error_messages = wording(invalid="Must be a valid boolean.")

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> bool:
        boolean = parse_boolean(value)
        if boolean is None:
            raise self.make_error("invalid")
        return boolean


class Uuid(_Field, fields.UUID):
    default_error_messages = wording(invalid_uuid="Must be a valid UUID.")

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> UUID:
        parsed = parse_uuid(value) if isinstance(value, str) else None
        if parsed is None:
            raise self.make_error("invalid_uuid")
        return parsed


def parse_uuid(text: str) -> UUID | None:
    """Return the id, or None for any form but the usual one with four hyphens."""
    return _parse_uuid(text) if len(text) == UUID_LENGTH else None


@lru_cache(MAX_KNOWN_UUIDS)
def _parse_uuid(text: str) -> UUID | None:
    return UUID(text) if UUID_TEXT.fullmatch(text) else None


class Datetime(_Field, fields.DateTime):
    """An instant in UTC, or a naive local time without an offset, which the handler converts."""

    default_error_messages = wording(
        invalid="Datetime has wrong format. Use one of these formats instead: "
        "YYYY-MM-DDThh:mm[:ss[.uuuuuu]][+HH:MM|-HH:MM|Z]."
    )

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> datetime:
        text = value.strip().upper() if isinstance(value, str) else ""
        if not DATETIME_TEXT.fullmatch(text):
            raise self.make_error("invalid", input=value, obj_type="datetime")
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError as error:
            raise self.make_error("invalid", input=value, obj_type="datetime") from error
        return parsed if parsed.tzinfo is None else to_utc(parsed, UTC)


class DayOrDatetime(Datetime):
    """An instant as in `Datetime`, or a date, which means its midnight in UTC."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> datetime:
        if isinstance(value, str) and DATE_TEXT.fullmatch(value.strip()):
            value = f"{value.strip()}T00:00Z"
        return super()._deserialize(value, attr, data, **options)


class Choice(_Field, fields.Field[Option], Generic[Option]):
    """A value of an enum, or "" if `blank` allows it."""

    default_error_messages = wording(choice='"{input}" is not a valid choice.')

    def __init__(self, options_of: type[Option], *, blank: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.choices: dict[str, Any] = {member.value: member for member in options_of}
        if blank:
            self.choices[""] = ""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Option:
        if not isinstance(value, str) or value not in self.choices:
            raise self.make_error("choice", input=printable(value))
        chosen: Option = self.choices[value]
        return chosen


class ListOf(_Field, fields.List[Item], Generic[Item]):
    """A list of checked items, whose messages stand under their index."""

    default_error_messages = wording(
        invalid='Expected a list of items but got type "{type}".',
        max_items="Ensure this field has no more than {max} elements.",
    )

    def __init__(self, inner: fields.Field[Item], *, max_items: int = MAX_ITEMS, **options: Any) -> None:
        super().__init__(inner, **options)
        self.max_items = max_items

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> list[Item | None]:
        if not isinstance(value, list):
            raise self.make_error("invalid", type=type(value).__name__)
        if len(value) > self.max_items:
            raise self.make_error("max_items", max=self.max_items)
        return super()._deserialize(value, attr, data, **options)


class ObjectOf(fields.Nested):
    """An object inside a body, checked by its own schema; never partial, even if the body is."""

    default_error_messages = wording()

    def _deserialize(
        self, value: Any, attr: str | None, data: Any, partial: Any = None, **options: Any
    ) -> Any:
        if not isinstance(value, dict):
            kind = type(value).__name__
            message = f"Invalid data. Expected a dictionary, but got {kind}."
            raise ValidationError({"non_field_errors": [message]})
        return super()._deserialize(value, attr, data, partial=False, **options)


class JsonValue(_Field, fields.Raw):
    """Any JSON value that PostgreSQL and every client can store unchanged."""

    default_error_messages = wording()

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Any:
        check_json(value)
        return value


class JsonObject(JsonValue):
    """Any JSON object."""

    default_error_messages = wording(invalid='Expected a dictionary of items but got type "{type}".')

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.make_error("invalid", type=type(value).__name__)
        checked: dict[str, Any] = super()._deserialize(value, attr, data, **options)
        return checked
