"""Values as clients write them: how deep and long JSON may be, and the spellings of scalars."""

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files
from itertools import chain
from typing import Any

MAX_DEPTH = 64
MAX_VALUES = 50_000  # of JSON: checking this many takes about as long as other requests may have to wait
OFF_LOOP_BYTES = 32_768  # longer JSON is read in a thread, so that other requests do not wait for it
INTEGER_TEXT = re.compile(r"-?[0-9]{1,1000}")  # Python reads longer ones in quadratic time
NUMBER_TEXT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
TIMEZONES = frozenset(files("tzdata").joinpath("zones").read_text().split())
MAX_GUESSED_CHARACTERS = 64  # for which a similar name is sought; none that we know is longer
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def is_deeper_than(levels: int, value: Any) -> bool:
    """Return whether lists and objects are nested in each other more than `levels` times."""
    return any(depth > levels for depth, _ in enumerate(layers(value)))


def layers(value: Any) -> Iterator[list[Any]]:
    """Yield a JSON value by depth: itself, then its keys and values, then theirs; [] below an empty one.

    Not recursive, because the sender chooses the depth, and a layer at a time, because a step for each value
    would cost several times as much.
    """
    layer = [value]
    while True:
        yield layer
        lists = [item for item in layer if isinstance(item, list)]
        objects = [item for item in layer if isinstance(item, dict)]
        if not lists and not objects:
            return
        layer = [*chain.from_iterable(lists), *chain.from_iterable(objects)]
        layer += chain.from_iterable(map(dict.values, objects))


def has_more_values(raw: bytes, most: int) -> bool:
    """Return whether JSON has more than `most` values, before it is parsed.

    Counts the separators `,`, `[` and `{`, so an empty list or object counts twice. Separators inside texts
    are left out in a second pass, which few texts need.
    """
    if _separators(raw) <= most:
        return False
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # now each quotation mark delimits a text
    has_too_many_texts = unescaped.count(b'"') > 4 * most  # each value may have a key
    return has_too_many_texts or _separators(b"".join(unescaped.split(b'"')[::2])) > most


def _separators(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def parse_boolean(value: Any) -> bool | None:
    """Read true, false, 0, 1 and these as text, ignoring case."""
    return BOOLEANS.get(str(value).lower()) if isinstance(value, int | str) else None  # a bool is an int


def parse_integer(value: Any) -> int | None:
    """Read an integer, a float without a fraction, or ASCII digits that blanks may surround."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if INTEGER_TEXT.fullmatch(value.strip(" ")):
            return int(value)
        case _:
            return None


def parse_number(value: Any) -> Decimal | None:
    """Read a finite number, exactly as it was written, or ASCII digits that blanks may surround."""
    match value:
        case bool():
            return None
        case int():
            return Decimal(value)
        case float() if math.isfinite(value):
            return Decimal(repr(value))  # the shortest digits that mean it, as they were sent
        case str() if NUMBER_TEXT.fullmatch(value.strip(" ")):
            return Decimal(value.strip(" "))
        case _:
            return None


def parse_text(value: Any) -> str | None:
    """Read text, or a number as its digits."""
    if type(value) is str:  # most values; the check below takes several times as long
        return value
    return None if isinstance(value, bool) or not isinstance(value, str | int | float) else str(value)


def timezone_hint(text: str) -> str:
    """Return a sentence with the IANA name that is most similar to the text, or to its city; or nothing."""
    names = {name.rpartition("/")[2].casefold(): name for name in sorted(TIMEZONES)}
    names |= {name.casefold(): name for name in TIMEZONES}
    wanted = text[:MAX_GUESSED_CHARACTERS].strip().replace(" ", "_").casefold()
    return "".join(f' Did you mean "{names[found]}"?' for found in get_close_matches(wanted, names, 1, 0.8))
