"""Answers of adapter tools, turned into the result or the error that the caller sees."""

from contextlib import suppress
from typing import Any

import orjson

from supervisors.json_limits import MAX_DEPTH, is_deeper_than
from supervisors.outbound import OutboundAnswer
from supervisors.tools.errors import ToolError

MAX_EXCERPT_BYTES = 2000
MAX_EXCERPT_CHARACTERS = 300

UNKNOWN_TYPES = frozenset({"", "application/octet-stream"})  # servers send these for a body of unknown type
HTML = frozenset({"text/html", "application/xhtml+xml"})


def result_of(answer: OutboundAnswer) -> Any:
    """Return the answer as a JSON value; None for an empty body. Raise ToolError if it is no result."""
    kind = answer.content_type.partition(";")[0].strip().lower()
    if not 200 <= answer.status < 300:
        raise _failed(answer, kind)
    if not answer.body.strip():
        return None
    if _is_json(kind):
        return _parsed(answer.body)
    if kind in UNKNOWN_TYPES:
        return _guessed(answer.body)
    if kind.startswith("text/") and kind not in HTML:
        return answer.body.decode(errors="replace")
    raise _unusable(f"{kind}, which is neither JSON nor text")


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _parsed(body: bytes) -> Any:
    """Parse JSON. Raise ToolError if it is invalid, or nested too deeply to be serialized again."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _unusable(f"invalid JSON: {error}") from error
    if is_deeper_than(MAX_DEPTH, value):
        raise _unusable(f"JSON that is nested deeper than {MAX_DEPTH} levels")
    return value


def _guessed(body: bytes) -> Any:
    """Parse the body as JSON, or else as text."""
    with suppress(ToolError):
        return _parsed(body)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _unusable("bytes that are neither JSON nor text") from error


def _unusable(what: str) -> ToolError:
    return ToolError("unusable_answer", f"The tool answered {what}.")


def _failed(answer: OutboundAnswer, kind: str) -> ToolError:
    is_text = _is_json(kind) or kind in UNKNOWN_TYPES or kind.startswith("text/")
    excerpt = _excerpt(answer.body) if is_text else ""
    details = f": {excerpt}" if excerpt else "."
    return ToolError("tool_failed", f"The tool answered {answer.status}{details}", status=answer.status)


def _excerpt(body: bytes) -> str:
    """Return the beginning on one line; blank if it looks like HTML, which is of no use to a model."""
    start = body[:MAX_EXCERPT_BYTES].decode(errors="replace")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in start).split())
    if line.startswith("<"):
        return ""
    return line if len(line) <= MAX_EXCERPT_CHARACTERS else f"{line[:MAX_EXCERPT_CHARACTERS]}…"
