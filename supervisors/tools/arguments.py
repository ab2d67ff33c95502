"""The arguments of a tool call, read one by one; a refusal names the argument.

Scalars may be written in the ways that `supervisors.client_values` accepts, as in a request body.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from supervisors.client_values import parse_boolean, parse_integer, parse_number, parse_text
from supervisors.text import storable

UNKNOWN_TOOL = "unknown_tool"
TAKES_A_MOMENT = "takes an ISO 8601 datetime, such as 2026-11-21T09:00:00Z"
DATE_LENGTH = len("2026-11-21")
REFUSED_YEARS = frozenset({1, 9999})  # the database's driver stores their ends as infinities
Choice = TypeVar("Choice", bound=StrEnum)
Parsed = TypeVar("Parsed")


class ToolError(Exception):
    """A tool call failed. `code` is for programs, the message for the model, `details` for both."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        message = message.replace("\0", "\ufffd")  # it is stored in a trace, and PostgreSQL's text has no NUL
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def as_json(self) -> dict[str, Any]:
        """Return the error as the caller of the tool sees it."""
        return {"code": self.code, "message": self.message, **self.details}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Typed access to the arguments of a model or a harness, which are unchecked in `given`.

    None counts as left out. Each method raises ToolError for a value that it does not accept.
    """

    given: Mapping[str, Any]

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; it is required unless there is a default."""
        text = self._text(name)
        if text is not None:
            return text
        if default is None:
            raise _invalid(name, "is required")
        return default

    def line(self, name: str) -> str:
        """Return a required text without the blanks around it; it must not be empty."""
        return self.written(name).strip()

    def written(self, name: str) -> str:
        """Return a required text as it is; it must hold more than blanks."""
        value = self.text(name)
        if not value.strip():
            raise _invalid(name, "takes a text that is not blank")
        return value

    def optional_line(self, name: str, max_length: int) -> str | None:
        """Return a text without the blanks around it, which may be empty; None if it is left out."""
        text = self._text(name)
        if text is not None and len(text.strip()) > max_length:
            raise _invalid(name, f"takes a text of at most {max_length} characters")
        return None if text is None else text.strip()

    def flag(self, name: str, default: bool) -> bool:
        flag = self._parsed(name, parse_boolean, "takes true or false")
        return default if flag is None else flag

    def integer(self, name: str, default: int, minimum: int) -> int:
        takes = f"takes an integer of at least {minimum}"
        integer = self._parsed(name, parse_integer, takes)
        if integer is not None and integer < minimum:
            raise _invalid(name, takes)
        return default if integer is None else integer

    def required_integer(self, name: str) -> int:
        """Return an integer of any size; it is required."""
        integer = self._parsed(name, parse_integer, "takes an integer")
        if integer is None:
            raise _invalid(name, "is required")
        return integer

    def pair(self, name: str) -> tuple[int, int] | None:
        """Return two integers, or None if they are left out."""
        return self._parsed(name, _parse_pair, "takes a list of two integers")

    def number(self, name: str, maximum: float) -> float | None:
        """Return a number above 0, or None if it is left out."""
        takes = f"takes a number above 0 and at most {maximum:g}"
        number = self._parsed(name, parse_number, takes)
        if number is not None and not 0 < number <= maximum:
            raise _invalid(name, takes)
        return None if number is None else float(number)

    def id(self, name: str) -> UUID:
        """Return an id; it is required."""
        id_ = self._parsed(name, _parse_id, "takes a UUID")
        if id_ is None:
            raise _invalid(name, "is required")
        return id_

    def choice(self, name: str, choices: type[Choice]) -> Choice | None:
        """Return one of the choices, or None if it is left out."""
        return self._parsed(name, choices, f"takes one of {', '.join(choices)}")

    def required_choice(self, name: str, choices: type[Choice]) -> Choice:
        choice = self.choice(name, choices)
        if choice is None:
            raise _invalid(name, f"is required; it takes one of {', '.join(choices)}")
        return choice

    def moment(self, name: str, timezone: str) -> datetime | None:
        """Return an ISO 8601 datetime in UTC, or None if it is left out; without an offset it is local."""
        return self._parsed(name, partial(_parse_moment, timezone), TAKES_A_MOMENT)

    def _text(self, name: str) -> str | None:
        text = self._parsed(name, parse_text, "takes a text")
        if text is not None and text != storable(text):
            raise _invalid(
                name, "takes a text without NUL characters and unpaired surrogates, not binary data"
            )
        return text

    def _parsed(self, name: str, parse: Callable[[Any], Parsed | None], takes: str) -> Parsed | None:
        """Return the parsed argument, or None if it is left out; refuse it if `parse` fails or gives None."""
        value = self.given.get(name)
        if value is None:
            return None
        try:
            parsed = parse(value)
        except (ValueError, OverflowError):
            parsed = None
        if parsed is None:
            raise _invalid(name, takes)
        return parsed


def _parse_id(value: Any) -> UUID | None:
    return UUID(value) if isinstance(value, str) else None


def _parse_pair(value: Any) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, last = parse_integer(value[0]), parse_integer(value[1])
    return None if first is None or last is None else (first, last)


def _parse_moment(timezone: str, value: Any) -> datetime | None:
    text = value.strip().upper() if isinstance(value, str) else ""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(timezone))
    moment = moment.astimezone(UTC)
    return None if len(text) <= DATE_LENGTH or moment.year in REFUSED_YEARS else moment


def _invalid(name: str, takes: str) -> ToolError:
    return ToolError("invalid", f"{name} {takes}.", parameter=name)
