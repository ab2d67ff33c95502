"""What the address of a tool answered, as the caller of the tool sees it."""

from typing import Any

import orjson

from supervisors.json_limits import MAX_DEPTH, is_deeper_than
from supervisors.outbound import OutboundAnswer
from supervisors.tools.errors import ToolError

MAX_EXCERPT_BYTES = 2000
MAX_EXCERPT_CHARACTERS = 300

UNSAID = frozenset({"", "application/octet-stream"})  # what servers say of a body of which they know nothing
HTML = frozenset({"text/html", "application/xhtml+xml"})


def result_of(answer: OutboundAnswer) -> Any:
    """A JSON value that can be written again; None for nothing. Raises ToolError for what is no result."""
    kind = answer.content_type.partition(";")[0].strip().lower()
    if not 200 <= answer.status < 300:
        raise _failed(answer, kind)
    if not answer.body.strip():
        return None
    if _is_json(kind):
        return _checked(_parsed(answer.body))
    if kind in UNSAID:
        return _guessed(answer.body)
    if kind.startswith("text/") and kind not in HTML:
        return answer.body.decode(errors="replace")
    raise _unusable(f"{kind}, which is neither JSON nor text")


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _unusable(f"what is not JSON: {error}") from error


def _guessed(body: bytes) -> Any:
    """JSON if it is, else text."""
    try:
        return _checked(_parsed(body))
    except ToolError:
        pass
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _unusable("bytes that are neither JSON nor text") from error


def _checked(value: Any) -> Any:
    """The value, unless it is too deep to be written again where it is kept and shown."""
    if is_deeper_than(MAX_DEPTH, value):
        raise _unusable(f"JSON that is nested deeper than {MAX_DEPTH} levels")
    return value


def _unusable(what: str) -> ToolError:
    return ToolError("unusable_answer", f"The tool answered {what}.")


def _failed(answer: OutboundAnswer, kind: str) -> ToolError:
    excerpt = _excerpt(answer.body) if _is_json(kind) or kind in UNSAID or kind.startswith("text/") else ""
    words = f": {excerpt}" if excerpt else "."
    return ToolError("tool_failed", f"The tool answered {answer.status}{words}", status=answer.status)


def _excerpt(body: bytes) -> str:
    """How it begins, on one line; nothing of what looks like HTML, which says nothing to a model."""
    start = body[:MAX_EXCERPT_BYTES].decode(errors="replace")
    line = " ".join("".join(each if each.isprintable() else " " for each in start).split())
    if line.startswith("<"):
        return ""
    return line if len(line) <= MAX_EXCERPT_CHARACTERS else f"{line[:MAX_EXCERPT_CHARACTERS]}…"
