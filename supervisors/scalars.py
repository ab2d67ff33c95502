"""Booleans, integers, numbers and text as clients may write them: digits for a number, a number for text.

Each function returns None for a value that it does not accept.
"""

import math
import re
from decimal import Decimal
from typing import Any

INTEGER_TEXT = re.compile(r"-?[0-9]{1,1000}")  # Python reads longer ones in quadratic time
NUMBER_TEXT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


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
