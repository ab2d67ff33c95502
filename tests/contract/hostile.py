"""Values that a field refuses, by the kind of field, each with its messages."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from uuid import UUID

from marshmallow import fields, validate

from web.fields import (
    Boolean,
    Choice,
    Datetime,
    DayOrDatetime,
    Email,
    EmailFilter,
    EventTypePattern,
    Integer,
    JsonObject,
    JsonValue,
    Line,
    ListOf,
    LocalPart,
    Money,
    Number,
    ObjectOf,
    OneOf,
    PhoneFilter,
    Region,
    Text,
    Timezone,
    Url,
    Uuid,
    WordOrObject,
)
from web.request.files import Files

RefusedValues = Iterator[tuple[Any, Any]]

NULL = "This field may not be null."
BLANK = "This field may not be blank."
NO_TEXT = "Not a valid string."
NO_INTEGER = "A valid integer is required."
NO_NUMBER = "A valid number is required."
NO_BOOLEAN = "Must be a valid boolean."
NO_UUID = "Must be a valid UUID."
NO_ADDRESS = "Enter a valid email address."
NO_LOCAL_PART = "Enter a valid local part of an email address."
NO_URL = "Enter a valid URL."
NO_FILES = "Send files as parts of a multipart/form-data body, each with a file name."
NO_NULS = "Null characters are not allowed."
NO_DATETIME = (
    "Datetime has wrong format. Use one of these formats instead: "
    "YYYY-MM-DDThh:mm[:ss[.uuuuuu]][+HH:MM|-HH:MM|Z]."
)
OUT_OF_RANGE = "Datetime value out of range."
NO_OBJECT = "Invalid data. Expected a dictionary, but got "
JSON_INTEGERS = f"Ensure integers are between {-(2**63)} and {2**64 - 1}."

# Invalid in every field: as a JSON value, and as the text of a form field.
NEVER_JSON = (
    *("NaN", "Infinity", "-Infinity", "1e999", "01", "'x'", '"\\ud800"', '{"\\udfff": 1}'),
    *("[" * 2000, "[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65),
)
# Valid in some fields and invalid in most.
HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, 2**64, 10**300, 1.5, 1e308, [], {}, [[]], [None], {"a": [1]}),
    *(
        "",
        " ",
        "\0",
        "x\0",
        "x" * 10_000,
        "1",
        "\U0010ffff",
        "\u202e",
        "0" * 32,
        "00000000-0000-0000-0000-" + "0" * 12,
    ),
    *("2026-01-01", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59"),
)
NEVER_IN_A_FORM = ("%ED%A0%80", "%FF")


def refused_values(field: fields.Field[Any]) -> list[tuple[Any, Any]]:
    """Return JSON values that the field refuses, each with its messages."""
    null = [] if field.allow_none else [(None, [NULL])]
    return list(chain(null, _refused_values(field)))


def refused_texts(field: fields.Field[Any]) -> list[tuple[str, Any]]:
    """Return the values among them that a query can hold: texts, of which one makes a list."""
    if isinstance(field, ListOf):
        return [(text, {0: messages}) for text, messages in refused_texts(field.inner)]
    return [(value, messages) for value, messages in _refused_values(field) if isinstance(value, str)]


def _refused_values(field: fields.Field[Any]) -> RefusedValues:
    for kind, refused in KINDS:
        if isinstance(field, kind):
            return refused(field)
    raise TypeError(f"add a function for {field} to KINDS in tests/contract/hostile.py")


def _all(values: tuple[Any, ...], message: str) -> RefusedValues:
    yield from ((value, [message]) for value in values)


def _of_integer(field: Integer) -> RefusedValues:
    yield from _all((True, 3.7, "1_000", "x", "", [1], {}, "٣", "1\0", "9" * 2000), NO_INTEGER)
    for validator in field.validators:
        assert isinstance(validator, validate.Range)
        if validator.min is not None:
            message = f"Ensure this value is greater than or equal to {validator.min}."
            yield from _all((validator.min - 1, str(validator.min - 1), -(10**300)), message)
        if validator.max is not None:
            message = f"Ensure this value is less than or equal to {validator.max}."
            yield from _all((validator.max + 1, str(validator.max + 1), 10**300), message)


def _of_money(_: Money) -> RefusedValues:
    yield from _all((True, "x", "NaN", "1e5", "", [1], {}, "1\0"), NO_NUMBER)
    yield 0.0000001, ["Ensure that there are no more than 6 decimal places."]
    yield -1, ["Ensure this value is greater than or equal to 0."]
    yield "9999999999999", ["Ensure this value is less than or equal to 999999999999.999999."]


def _of_number(_: Number) -> RefusedValues:
    yield from _all((True, "x", "NaN", "1e5", "", [1], {}, "1\0"), NO_NUMBER)
    yield from _all((-1, "-0.1"), "Ensure this value is greater than or equal to 0.")
    yield 10**300, ["Ensure this value is less than or equal to 2."]


def _of_boolean(_: Boolean) -> RefusedValues:
    yield from _all(("yes", "on", "", 2, 1.5, [True], {}, "true\0"), NO_BOOLEAN)


def _of_uuid(_: Uuid) -> RefusedValues:
    yield from _all(("x", "", 1, True, [], {}, "0" * 32, f"{{{'0' * 36}}}", "\0" * 36), NO_UUID)


def _of_choice(_: Choice[Any]) -> RefusedValues:
    values: tuple[Any, ...] = ("nonsense", 1, True, [], {}, "x\0", " ")
    for value in values:
        yield value, [f'"{value}" is not a valid choice.']


def _of_files(_: Files) -> RefusedValues:
    yield from _all(("x", "", [], ["x"], {}, 1, True), NO_FILES)


def _of_object(field: ObjectOf) -> RefusedValues:
    for value, kind in (("x", "str"), ([], "list"), (1, "int")):
        yield value, {"non_field_errors": [f"{NO_OBJECT}{kind}."]}
    known = {each.data_key or name: each for name, each in field.schema.load_fields.items()}
    usual = {name: _usual(each) for name, each in known.items() if each.required}
    for name, each in known.items():
        for refused, messages in refused_values(each):
            yield {**usual, name: refused}, {name: messages}


def _usual(field: fields.Field[Any]) -> Any:
    """Return a value that the field takes."""
    match field:
        case WordOrObject():
            return field.words[0]
        case Choice():
            return next(iter(field.choices))
        case Uuid():
            return str(UUID(int=0))
    return "https://example.org/"


def _of_json_object(field: JsonObject) -> RefusedValues:
    for value, kind in (("x", "str"), ([], "list"), (1, "int"), (True, "bool")):
        yield value, [f'Expected a dictionary of items but got type "{kind}".']
    yield from (({"a": value}, messages) for value, messages in _of_json(field))


def _of_text(field: Text) -> RefusedValues:
    yield from _all((True, ["x"], {"x": 1}), NO_TEXT)
    yield from _all(("\0", "x\0y"), NO_NULS)
    if not field.blank:
        yield from _all(("", " \n ") if isinstance(field, Line) else ("",), BLANK)
    yield from _of_pattern(field)
    if isinstance(field, Timezone):
        return  # a longer text is no time zone, either
    for validator in field.validators:
        if isinstance(validator, validate.Length) and validator.max is not None:
            message = f"Ensure this field has no more than {validator.max} characters."
            yield _long(field, validator.max + 1), [message]
        elif isinstance(validator, validate.Length) and validator.min is not None:
            yield "x", [f"Ensure this field has at least {validator.min} characters."]


def _of_pattern(field: Text) -> RefusedValues:
    """Yield texts that the kind of the field refuses."""
    match field:
        case Email():
            yield from _all(("nobody", "a@b", f"{'a' * 65}@example.org"), NO_ADDRESS)
            if not isinstance(field, EmailFilter):
                yield "a b@example.org", [NO_ADDRESS]
        case PhoneFilter():
            yield "none", ["Enter a telephone number with at least one digit."]
        case EventTypePattern():
            yield "run.endet", ['Unknown event type "run.endet". Did you mean "run.ended"?']
        case OneOf():
            yield "x", [f'"x" is not a valid choice. Choose one of: {", ".join(field.choices)}.']
        case LocalPart():
            yield from _all(("a b", "a@b", ".a"), NO_LOCAL_PART)
        case Region():
            yield "ZZ", ['"ZZ" is not a valid choice.']
        case Timezone():
            yield "Mars/Base", ['"Mars/Base" is not a valid choice.']
        case Url():
            yield from _all(("ftp://example.org/", "example.org", "http://", "http://a:99999/"), NO_URL)


def _long(field: Text, length: int) -> str:
    """Return a text that is valid except for its length."""
    match field:
        case Email():
            return f"a@{'b.' * length}org"
        case Url():
            return f"https://example.org/{'x' * length}"
        case _:
            return "x" * length


def _of_datetime(field: Datetime) -> RefusedValues:
    yield from _all((5, True, [], {}, "", "x", "2026-02-30T00:00Z", "2026-01-01T00:00Z\0"), NO_DATETIME)
    yield from _all(("9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+00:01"), OUT_OF_RANGE)
    if not isinstance(field, DayOrDatetime):
        yield "2026-01-01", [NO_DATETIME]


def _of_list(field: ListOf[Any]) -> RefusedValues:
    for value, kind in (("x", "str"), ({}, "dict"), (1, "int"), (True, "bool")):
        yield value, [f'Expected a list of items but got type "{kind}".']
    for value, messages in refused_values(field.inner):
        yield [value], {"0": messages}


def _of_json(_: JsonValue) -> RefusedValues:
    yield from _all((2**64, -(2**63) - 1, [{"a": 10**300}]), JSON_INTEGERS)
    yield from _all(("\0", {"a\0": 1}, ["x", {"a": ["\0"]}]), NO_NULS)


# The first kind that matches counts.
KINDS: tuple[tuple[type[Any], Callable[[Any], RefusedValues]], ...] = (
    (Text, _of_text),
    (Integer, _of_integer),
    (Money, _of_money),
    (Number, _of_number),
    (Boolean, _of_boolean),
    (Uuid, _of_uuid),
    (Datetime, _of_datetime),
    (Choice, _of_choice),
    (ListOf, _of_list),
    (ObjectOf, _of_object),
    (Files, _of_files),
    (JsonObject, _of_json_object),
    (JsonValue, _of_json),
)
