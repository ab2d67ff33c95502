"""Strict fields for request bodies and queries, with the messages of Django REST Framework.

Unlike marshmallow's own fields they refuse 3.7 for an integer, "yes" for a boolean and a date for a datetime.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import orjson
from marshmallow import ValidationError, fields, missing, validate

from storage.channels.addresses import BAD_EMAIL, EMAIL_TEXT, REGIONS
from storage.events.model import nearest_pattern, patterns_of
from supervisors.client_values import (
    MAX_DEPTH,
    MAX_GUESSED_CHARACTERS,
    TIMEZONES,
    layers,
    parse_boolean,
    parse_integer,
    parse_number,
    parse_text,
    timezone_hint,
)
from supervisors.policy.limits import WEEK_MINUTES, parse_quiet_hours, quiet_minutes

Item = TypeVar("Item")
Option = TypeVar("Option", bound=StrEnum)

MIN_JSON_INTEGER = -(2**63)
MAX_JSON_INTEGER = 2**64 - 1

SURROGATE = re.compile(r"[\ud800-\udfff]")

NO_NULS = "Null characters are not allowed."
NO_SURROGATES = "Surrogate characters are not allowed."
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

NOT_DIGITS = re.compile("[^0-9]")
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
        if self.validators:
            self._validate(checked)
        return checked


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
    """A line of the form `pattern`, unless `matches` says otherwise; or blank if that is allowed."""

    pattern: ClassVar[re.Pattern[str]]

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if text and not (len(text) <= MAX_LINE_LENGTH and self.matches(text)):
            raise self.make_error("pattern", input=printable(text))
        return text

    def matches(self, text: str) -> bool:
        return self.pattern.fullmatch(text) is not None


class Email(_Pattern):
    default_error_messages = wording(pattern=BAD_EMAIL)
    pattern = EMAIL_TEXT


class LocalPart(_Pattern):
    """The part of an e-mail address before the @."""

    default_error_messages = wording(pattern="Enter a valid local part of an email address.")
    pattern = LOCAL_PART_TEXT


class _Known(_Pattern):
    """One of `choices`, which are too many to be listed in a refusal."""

    default_error_messages = wording(pattern='"{input}" is not a valid choice.')
    choices: Collection[str]

    def matches(self, text: str) -> bool:
        return text in self.choices


class Timezone(_Known):
    """An IANA name. The refusal of any other text names a similar one."""

    default_error_messages = wording(pattern='"{input}" is not a valid choice.{hint}')
    choices = TIMEZONES

    def make_error(self, key: str, **values: Any) -> ValidationError:
        return super().make_error(key, hint=timezone_hint(values.get("input", "")), **values)


class Region(_Known):
    """A region that has phone numbers, by its two letters of ISO 3166; blank for none."""

    choices = ("", *sorted(REGIONS))


class QuietHours(Line):
    """Times of day in which an agent does not wake by itself; blank for none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=255, **options)

    def _validate(self, value: str) -> None:
        super()._validate(value)
        try:
            minutes = quiet_minutes(parse_quiet_hours(value))
        except ValueError as error:
            raise ValidationError(str(error)) from error
        if len(minutes) == WEEK_MINUTES:
            raise ValidationError("Quiet hours may not fill the whole week. A pause holds every start.")


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


class _Parsed(_Field):
    """A value that `parse` understands: it returns None for any other."""

    parse: "ClassVar[staticmethod[[Any], Any]]"

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Any:
        parsed = self.parse(value)
        if parsed is None:
            raise self.make_error("invalid")
        return parsed


class _Number(_Parsed):
    """A number within limits."""

    default_error_messages = wording(invalid="A valid number is required.")

    def __init__(self, *, min_value: float | Decimal = 0, max_value: float | Decimal, **options: Any) -> None:
        at_least = validate.Range(min=min_value, error="Ensure this value is greater than or equal to {min}.")
        at_most = validate.Range(max=max_value, error="Ensure this value is less than or equal to {max}.")
        super().__init__(validate=[at_least, at_most], **options)


class Integer(_Number, fields.Integer):
    default_error_messages = wording(invalid="A valid integer is required.")
    parse = staticmethod(parse_integer)


class Money(_Number, fields.Decimal):
    """US dollars, exactly: at least 0, at most six decimals."""

    default_error_messages = wording(
        invalid="A valid number is required.",
        decimals=f"Ensure that there are no more than {MONEY_DECIMALS} decimal places.",
    )
    parse = staticmethod(parse_number)

    def __init__(self, *, max_value: Decimal = MAX_MONEY, **options: Any) -> None:
        super().__init__(max_value=max_value, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Decimal:
        amount: Decimal = super()._deserialize(value, attr, data, **options)
        exponent = amount.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -MONEY_DECIMALS:
            raise self.make_error("decimals")
        return amount


class Number(_Number, fields.Float):
    """A number from 0 to `max_value`."""

    parse = staticmethod(parse_number)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> float:
        return float(super()._deserialize(value, attr, data, **options))


class Boolean(_Parsed, fields.Boolean):
    default_error_messages = wording(invalid="Must be a valid boolean.")
    parse = staticmethod(parse_boolean)


def parse_uuid(value: Any) -> UUID | None:
    """Return the id, or None for anything but its usual text with four hyphens."""
    return _parse_uuid(value) if isinstance(value, str) and len(value) == UUID_LENGTH else None


@lru_cache(MAX_KNOWN_UUIDS)
def _parse_uuid(text: str) -> UUID | None:
    return UUID(text) if UUID_TEXT.fullmatch(text) else None


class Uuid(_Parsed, fields.UUID):
    default_error_messages = wording(invalid="Must be a valid UUID.")
    parse = staticmethod(parse_uuid)


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
    """A value of an enum, or one of these values of it, or "" if `blank` allows it."""

    default_error_messages = wording(choice='"{input}" is not a valid choice.')

    def __init__(self, options_of: Iterable[Option], *, blank: bool = False, **options: Any) -> None:
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


class WordOrObject(JsonValue):
    """One of a few words, or a JSON object; with a `key`, one that has an object under it and no more."""

    default_error_messages = wording(choice="Must be {choices}.")

    def __init__(self, *words: str, key: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.words = words
        self.key = key

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Any:
        super()._deserialize(value, attr, data, **options)
        is_object = isinstance(value, dict) and (
            not self.key or (value.keys() == {self.key} and isinstance(value[self.key], dict))
        )
        if not (is_object or value in self.words):
            one = f'{{"{self.key}": {{…}}}}' if self.key else "an object"
            raise self.make_error("choice", choices=" or ".join((*map('"{}"'.format, self.words), one)))
        return value


# Text and JSON values that PostgreSQL and every client can store unchanged.


def check_text(value: str) -> str:
    """Return the text. Raise ValidationError for characters that cannot be stored."""
    if "\x00" in value:
        raise ValidationError(NO_NULS)
    if not value.isascii() and SURROGATE.search(value):
        raise ValidationError(NO_SURROGATES)
    return value


def check_json(value: Any) -> None:
    """Raise ValidationError for a value that cannot be stored, or that is nested too deep."""
    if not _is_surely_storable(value):
        check_layers(value)


def check_layers(value: Any) -> None:
    """Check each layer of a value by itself, as `check_json` does for what it cannot decide quickly."""
    for depth, layer in enumerate(layers(value)):
        if depth > MAX_DEPTH:
            raise ValidationError(f"Nested deeper than {MAX_DEPTH} levels.")
        _check_scalars(layer)


def _is_surely_storable(value: Any) -> bool:
    """Return whether the JSON of the value shows that it can be stored; False if that takes a closer look.

    orjson refuses lone surrogates and integers of more than 64 bits, and writes NaN and infinities as null.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        return False
    may_be_too_deep = text.count(b"[") + text.count(b"{") > MAX_DEPTH
    return not (may_be_too_deep or b"null" in text or b"\\u0000" in text)


def _check_scalars(layer: list[Any]) -> None:
    check_text("".join([item for item in layer if isinstance(item, str)]))
    integers = [item for item in layer if isinstance(item, int)]
    if integers and not MIN_JSON_INTEGER <= min(integers) <= max(integers) <= MAX_JSON_INTEGER:
        raise ValidationError(f"Ensure integers are between {MIN_JSON_INTEGER} and {MAX_JSON_INTEGER}.")
    if not all(map(math.isfinite, [item for item in layer if isinstance(item, float)])):
        raise ValidationError("NaN and Infinity are not allowed.")


# Fields of queries that filter lists.


class UtcDatetime(Datetime):
    """An instant in UTC; one without an offset is UTC, too."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> datetime:
        return to_utc(super()._deserialize(value, attr, data, **options), UTC)


class OneOf(Line):
    """One of a few texts, which the refusal of any other text lists."""

    default_error_messages = wording(choice='"{input}" is not a valid choice. Choose one of: {choices}.')

    def __init__(self, choices: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.choices = tuple(choices)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if text not in self.choices:
            raise self.make_error("choice", input=printable(text), choices=", ".join(self.choices))
        return text


class EmailFilter(Email):
    """An e-mail address to look for. A space is a `+` that was not written as `%2B`."""

    def _tidy(self, text: str) -> str:
        return super()._tidy(text).replace(" ", "+")


class PhoneFilter(Line):
    """A telephone number to look for, reduced to its digits, of which it has at least one."""

    default_error_messages = wording(digits="Enter a telephone number with at least one digit.")

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        digits = NOT_DIGITS.sub("", super()._deserialize(value, attr, data, **options))
        if not digits:
            raise self.make_error("digits")
        return digits


class EventTypePattern(OneOf):
    """The name of an event type, or `run.*` for a family. The refusal of any other text names the nearest."""

    default_error_messages = wording(pattern='Unknown event type "{input}". Did you mean "{nearest}"?')

    def __init__(self, types: Iterable[str], **options: Any) -> None:
        self._types = tuple(types)
        super().__init__(patterns_of(self._types), **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = Line._deserialize(self, value, attr, data, **options)
        if text not in self.choices:
            nearest = nearest_pattern(text[:MAX_GUESSED_CHARACTERS], self._types)
            raise self.make_error("pattern", input=printable(text), nearest=nearest)
        return text
