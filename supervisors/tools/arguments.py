"""The arguments of a tool call, read one by one; a refusal names the argument.

Scalars may be written in the ways that `supervisors.scalars` accepts, as in a request body.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from supervisors.scalars import parse_boolean, parse_integer, parse_number, parse_text
from supervisors.tools.errors import ToolError

TAKES_A_MOMENT = "takes an ISO 8601 datetime, such as 2026-11-21T09:00:00Z"
DATE_LENGTH = len("2026-11-21")
REFUSED_YEARS = frozenset({1, 9999})  # the database's driver stores their ends as infinities

Choice = TypeVar("Choice", bound=StrEnum)


class Arguments:
    """Typed access to the arguments of a model or a harness.

    None counts as left out. Each method raises ToolError for a value that it does not accept.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    @property
    def given(self) -> Mapping[str, Any]:
        """All arguments, unchecked."""
        return self._given

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; it is required unless there is a default."""
        value = self._given.get(name)
        if value is None:
            if default is None:
                raise _invalid(name, "is required")
            return default
        text = parse_text(value)
        if text is None or "\0" in text or not _is_encodable(text):
            raise _invalid(name, "takes a text")
        return text

    def line(self, name: str) -> str:
        """Return a required text without the blanks around it; it must not be empty."""
        value = self.text(name).strip()
        if not value:
            raise _invalid(name, "takes a text that is not blank")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._given.get(name)
        if value is None:
            return default
        flag = parse_boolean(value)
        if flag is None:
            raise _invalid(name, "takes true or false")
        return flag

    def integer(self, name: str, default: int, least: int) -> int:
        value = self._given.get(name)
        if value is None:
            return default
        integer = parse_integer(value)
        if integer is None or integer < least:
            raise _invalid(name, f"takes an integer of at least {least}")
        return integer

    def number(self, name: str, most: float) -> float | None:
        """Return a number above 0, or None if it is left out."""
        value = self._given.get(name)
        if value is None:
            return None
        number = parse_number(value)
        if number is None or not 0 < number <= most:
            raise _invalid(name, f"takes a number above 0 and at most {most:g}")
        return float(number)

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
        """Return an ISO 8601 datetime in UTC, or None if it is left out; without an offset it is local."""
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
        if len(text) <= DATE_LENGTH or moment.year in REFUSED_YEARS:
            raise _invalid(name, TAKES_A_MOMENT)
        return moment


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(name: str, takes: str) -> ToolError:
    return ToolError("invalid", f"{name} {takes}.", parameter=name)
