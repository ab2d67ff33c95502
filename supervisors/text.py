"""Texts of others: cut to a size, in quotes, storable, and without secrets; and instants as text."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, overload
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson

from storage.postgres.json_values import to_json

STRING_LIMITS = (8_000, 1_000, 200, 40)  # the last one still leaves ids whole
# JSON allows these in a text as they are; some programs take them for the end of a line.
_LINE_ENDS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
HIDDEN = b"[secret]"
MIN_HIDDEN_CHARACTERS = 6  # shorter texts occur by chance
MAX_HIDDEN_WORDS = 256  # the longest of them; replacing thousands would hold up the event loop
CUT = "hostsvc.content.cut"  # the member of an object that says what was cut from it
SPARE_BYTES = 200  # for that note


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


def shortened_json(text: bytes, max_bytes: int) -> bytes:
    """Return a JSON object with its longest texts cut, and a note on that."""
    cut, note = shorten(orjson.loads(text), max_bytes - SPARE_BYTES)
    if isinstance(cut, dict):
        return to_json({**cut, CUT: note})
    return to_json({CUT: f"It was too long to be kept: {len(text)} bytes of JSON."})


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


def payload_hint(size: int, id_: UUID) -> str:
    """Say how an agent opens the JSON that is kept with its notification."""
    how = f"Open it with the tool open_sms_attachment and the message id {id_}."
    return f"Payload: {size} bytes of JSON. {how}"


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


@overload
def format_timestamp(moment: datetime) -> str: ...


@overload
def format_timestamp(moment: None) -> None: ...


def format_timestamp(moment: datetime | None) -> str | None:
    """Format an aware datetime, such as 2026-11-21T09:00:00.000000Z; None stays None."""
    if moment is None:
        return None
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='microseconds')[:-6]}Z"


def format_local(moment: datetime, timezone: str) -> str:
    """Format an aware datetime in a time zone to the second, such as 2026-11-21T10:00:00+01:00."""
    return moment.astimezone(ZoneInfo(timezone)).isoformat(timespec="seconds")


def hide(content: bytes, values: Iterable[str]) -> bytes:
    """Return the content without these values and without their words, such as a key after `Bearer`.

    They are also replaced as JSON writes them. Short words stay, and so does a value in another form, such as
    Base64.
    """
    for word in _words_to_hide(values):
        for form in _forms(word):
            content = content.replace(form.encode(), HIDDEN)
    return content


def _words_to_hide(values: Iterable[str]) -> list[str]:
    """Return the texts to look for, the longest first: a value may contain another one."""
    words: set[str] = set()
    for value in values:
        words |= {value.strip(), *value.split()}
    long_words = (word for word in words if len(word) >= MIN_HIDDEN_CHARACTERS)
    return sorted(long_words, key=len, reverse=True)[:MAX_HIDDEN_WORDS]


def _forms(word: str) -> set[str]:
    """Return the word as it is, and as JSON texts contain it, some of which escape `/` and umlauts."""
    escaped = {json.dumps(word, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    return {word, *escaped, *(text.replace("/", "\\/") for text in escaped)}
