"""Text of others: cut to a size, in quotes, and of characters that the database accepts."""

from typing import Any

from storage.postgres.json_values import to_json

STRING_LIMITS = (8_000, 1_000, 200, 40)  # the last one still leaves ids whole

# JSON allows these in a text as they are; some programs take them for the end of a line.
_LINE_ENDS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}


def shorten(value: Any, max_bytes: int) -> tuple[Any, str]:
    """Cut a JSON value to about `max_bytes`; return it with a note on what was cut, blank if nothing was.

    The longest texts are cut first, so that the value keeps its shape. Only if that is not enough, the
    beginning of its JSON, as a text, takes its place.
    """
    text = to_json(value)
    if len(text) <= max_bytes:
        return value, ""
    for limit in STRING_LIMITS:
        shortened = _with_short_strings(value, limit)
        if len(to_json(shortened)) <= max_bytes:
            return shortened, f"It was too long: texts of more than {limit} characters were cut."
    beginning = text[:max_bytes].decode(errors="ignore")
    return beginning, f"It was too long: this is the beginning of its JSON, {max_bytes} of {len(text)} bytes."


def excerpt(text: str, max_characters: int) -> str:
    """Return the text on one line, storable, cut to `max_characters` (an ellipsis marks the cut)."""
    line = " ".join(storable(text[: 4 * max_characters]).split())
    return line if len(line) <= max_characters else f"{line[:max_characters]}…"


def cut(text: str, max_characters: int) -> str:
    """Return the text; of a longer one the beginning, with a note on how much it is."""
    if len(text) <= max_characters:
        return text
    return f"{text[:max_characters]}… (cut: {max_characters} of {len(text)} characters)"


def quoted(value: Any) -> str:
    """Return the value as JSON on one line, which no text in it can leave."""
    text = to_json(value).decode()
    if not text.isascii():
        for character, escape in _LINE_ENDS.items():
            text = text.replace(character, escape)
    return text


def storable(text: str) -> str:
    """Remove or replace what PostgreSQL and UTF-8 cannot store: NUL, and half a surrogate pair."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _with_short_strings(value: Any, limit: int) -> Any:
    match value:
        case str():
            return cut(value, limit)
        case dict():
            return {key: _with_short_strings(item, limit) for key, item in value.items()}
        case list() | tuple():
            return [_with_short_strings(item, limit) for item in value]
        case _:
            return value
