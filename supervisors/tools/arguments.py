"""The arguments of a tool call, read one by one; what does not fit is refused by the argument's name.

Like the fields of a request body they may be written in other ways than the usual: digits for a number, a
number for a text, `true`, `false`, `1` and `0` in any case for a flag.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from supervisors.tools.errors import ToolError

TAKES_A_MOMENT = "takes an ISO 8601 datetime, such as 2026-11-21T09:00:00Z"
DATE_LENGTH = len("2026-11-21")
UNKEPT_YEARS = frozenset({1, 9999})  # at their ends the database's driver knows only the infinities

INTEGER_TEXT = re.compile(r"-?[0-9]{1,100}")
NUMBER_TEXT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
FLAGS = {"true": True, "1": True, "false": False, "0": False}

Choice = TypeVar("Choice", bound=StrEnum)


class Arguments:
    """Typed access to what a model or a harness passed. None counts as left out."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    @property
    def given(self) -> Mapping[str, Any]:
        """All of them, as they came."""
        return self._given

    def text(self, name: str, default: str | None = None) -> str:
        """A text; required unless there is a default."""
        value = self._given.get(name)
        if value is None:
            if default is None:
                raise _invalid(name, "is required")
            return default
        text = str(value) if _is_number(value) else value
        if not isinstance(text, str) or "\0" in text or not _is_encodable(text):
            raise _invalid(name, "takes a text")
        return text

    def line(self, name: str) -> str:
        """A required text of one line, trimmed, not blank."""
        value = self.text(name).strip()
        if not value:
            raise _invalid(name, "takes a text that is not blank")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._given.get(name)
        if value is None:
            return default
        flag = FLAGS.get(str(value).lower()) if isinstance(value, bool | int | str) else None
        if flag is None:
            raise _invalid(name, "takes true or false")
        return flag

    def integer(self, name: str, default: int, least: int) -> int:
        value = self._given.get(name)
        if value is None:
            return default
        integer = _integer(value)
        if integer is None or integer < least:
            raise _invalid(name, f"takes an integer of at least {least}")
        return integer

    def number(self, name: str, most: float) -> float | None:
        """A number above 0, or None when it was left out."""
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, str) and NUMBER_TEXT.fullmatch(value.strip(" ")):
            value = float(value)
        if not (_is_number(value) and 0 < value <= most):
            raise _invalid(name, f"takes a number above 0 and at most {most:g}")
        return float(value)

    def id(self, name: str) -> UUID:
        value = self.text(name)
        try:
            return UUID(value)
        except ValueError:
            raise _invalid(name, "takes a UUID") from None

    def choice(self, name: str, choices: type[Choice], default: Choice) -> Choice:
        value = self._given.get(name)
        if value is None:
            return default
        try:
            return choices(value)
        except ValueError:
            raise _invalid(name, f"takes one of {', '.join(choices)}") from None

    def moment(self, name: str, timezone: str) -> datetime | None:
        """An ISO 8601 datetime, in the agent's timezone if it names none; None when it was left out."""
        value = self._given.get(name)
        if value is None:
            return None
        text = value.strip().upper() if isinstance(value, str) else ""
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=ZoneInfo(timezone))
            moment = moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise _invalid(name, TAKES_A_MOMENT) from None
        if len(text) <= DATE_LENGTH or moment.year in UNKEPT_YEARS:
            raise _invalid(name, TAKES_A_MOMENT)
        return moment


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integer(value: Any) -> int | None:
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


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(name: str, takes: str) -> ToolError:
    return ToolError("invalid", f"{name} {takes}.", parameter=name)
