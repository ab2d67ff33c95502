"""Writes the list of event types into docs/events.md: `python -m tests.contract.event_catalogue`."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from types import NoneType, UnionType
from typing import Any, NotRequired, get_args, get_origin, get_type_hints
from uuid import UUID

from storage.events.model import SHOWN_TYPES, EventType
from supervisors.events.subscription import MODEL_DELTA
from tests.paths import DOCS
from web.api.events.schemas import DATA
from web.openapi.schemas import attribute_docstrings

GUIDE = DOCS / "events.md"
MARK = "<!-- The text from here to the end is written by `make events`. -->\n"
NAMES: dict[Any, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    UUID: "id",
    datetime: "timestamp",
    Mapping[str, int]: "numbers by kind",
}


def updated(guide: str) -> str:
    """Return the guide with the present list."""
    return guide.partition(MARK)[0] + MARK + "".join(f"{line}\n" for line in catalogue())


def catalogue() -> Iterator[str]:
    """Yield the lines of the list: a table for each family, then the fields of their data."""
    texts = attribute_docstrings(EventType)
    for family, members in groupby(SHOWN_TYPES, lambda type_: type_.partition(".")[0]):
        rows = [(f"`{type_}`", texts[type_.name], _link(DATA[type_])) for type_ in members]
        yield from _table(f"### {family}.\\*", ("type", "happens when", "data"), rows)
    live = (
        f"`{MODEL_DELTA}`",
        "A model has written a piece of its answer. Live only.",
        _link(DATA[MODEL_DELTA]),
    )
    yield from _table("### model.\\*", ("type", "happens when", "data"), [live])
    for shape in dict.fromkeys(DATA.values()):
        if hints := get_type_hints(shape, include_extras=True):
            meanings = attribute_docstrings(shape)
            rows = [(f"`{name.rstrip('_')}`", _words(hint), meanings[name]) for name, hint in hints.items()]
            yield from _table(f"### {_title(shape)}", ("field", "is", "meaning"), rows)


def _table(heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield heading
    yield ""
    for cells in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(cells)} |"


def _title(shape: type) -> str:
    """Return what the data of the shape are called, such as "Data: run ended"."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in shape.__name__)
    return f"Data of{words.removesuffix(' data')}"


def _link(shape: type) -> str:
    """Return a link to the table of the shape; "none" if it has no fields."""
    if not get_type_hints(shape):
        return "none"
    title = _title(shape)
    return f"[{title.removeprefix('Data of ')}](#{title.lower().replace(' ', '-')})"


def _words(hint: Any) -> str:
    """Return the type of a field in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return f"{_words(arguments[0])}, may be missing"
    if origin is UnionType:
        others = [_words(each) for each in arguments if each is not NoneType]
        return " or ".join([*others, "null"] if NoneType in arguments else others)
    if origin is list:
        return f"list of {_words(arguments[0])}s"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return ", ".join(f"`{member}`" for member in hint)
    return NAMES[hint]


if __name__ == "__main__":
    GUIDE.write_text(updated(GUIDE.read_text()))
