"""Fields of queries that filter lists."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from storage.events.catalogue import nearest_pattern, patterns_of
from web.fields import Datetime, Email, Line, printable, to_utc, wording

NOT_DIGITS = re.compile("[^0-9]")


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


MAX_GUESSED_CHARACTERS = 64  # for which a similar name is sought; none that we know is longer


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
