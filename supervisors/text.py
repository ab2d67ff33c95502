"""Keeps what others wrote to a size and to characters that a model, a trace and the database can hold."""

from typing import Any

from storage.postgres.pool import to_json

STRING_LIMITS = (8_000, 1_000, 200, 40)  # ids survive the last


def shortened(value: Any, most: int) -> tuple[Any, str]:
    """A JSON value that takes `most` bytes, roughly, and what was left out of it; blank if nothing was.

    Rather than to end in the middle, its longest texts are cut, so that it keeps its shape; only if that is
    not enough, the beginning of its JSON takes its place, as a text.
    """
    text = to_json(value)
    if len(text) <= most:
        return value, ""
    for limit in STRING_LIMITS:
        cut = _with_short_strings(value, limit)
        if len(to_json(cut)) <= most:
            return cut, f"It was too long: texts of more than {limit} characters were cut."
    beginning = text[:most].decode(errors="ignore")
    return beginning, f"It was too long: this is the beginning of its JSON, {most} of {len(text)} bytes."


def excerpt(text: str, most: int) -> str:
    """The text on one line, storable, and cut where it is longer than `most` characters."""
    line = " ".join(storable(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[:most]}…"


def storable(text: str) -> str:
    """The text without what PostgreSQL and UTF-8 have no place for: NUL, and half a surrogate pair."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _with_short_strings(value: Any, limit: int) -> Any:
    match value:
        case str() if len(value) > limit:
            return f"{value[:limit]}… (cut: {limit} of {len(value)} characters)"
        case dict():
            return {key: _with_short_strings(each, limit) for key, each in value.items()}
        case list() | tuple():
            return [_with_short_strings(each, limit) for each in value]
        case _:
            return value
