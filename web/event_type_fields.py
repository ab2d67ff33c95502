"""The field of a request that names types of events."""

from collections.abc import Iterable
from typing import Any

from storage.events.patterns import nearest_pattern, patterns_of
from web.fields import Line, printable, wording
from web.filter_fields import OneOf

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
