"""The lines of the first message that hold data: each is one JSON object, so that no text can end its line.

A text that does not fit is cut, and `cut` says how to read it whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from storage.agents.wakes import ContactMessages, PastMessage, WaitingNotification
from storage.channels.messages import Direction, MessageStatus
from storage.history.journals import PastRun
from supervisors.policy.journal import describe_run
from supervisors.text import quoted

MIN_TEXT_BYTES = 40  # a text with less room is left out


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and what it shows of its item; `bytes` is its length with the line break."""

    text: str
    item: Any
    bytes: int


def local_minute(moment: datetime, timezone: ZoneInfo) -> str:
    """Return the local date and time, such as 2026-11-20 17:03."""
    return moment.astimezone(timezone).isoformat(" ", "minutes")[:16]


def line_of(item: Any, value: Any) -> Line:
    """Return a line that shows the value, which tells of the item."""
    text = quoted(value)
    return Line(text, item, len(text.encode()) + 1)


def fitting(make: Callable[[int], Line], text_bytes: int, max_bytes: int) -> Line | None:
    """Return the line with its text whole, else cut to fit `max_bytes`; None if hardly any text would fit.

    `make` returns the line with at most that many bytes of the text.
    """
    if max_bytes < MIN_TEXT_BYTES:
        return None
    text_bytes = min(text_bytes, max_bytes)
    line = make(text_bytes)
    while line.bytes > max_bytes:
        # Not in one step: the line has more than the text, and characters that JSON escapes take more room.
        text_bytes = text_bytes * max_bytes // line.bytes - 8
        if text_bytes < MIN_TEXT_BYTES:
            return None
        line = make(text_bytes)
    return line


def notification_line(one: WaitingNotification, timezone: ZoneInfo, max_bytes: int) -> Line | None:
    """Return the line about a notification that waits; None if it does not fit."""

    def make(text_bytes: int) -> Line:
        body, cut = _cut(one.body, one.body_bytes, text_bytes)
        value: dict[str, Any] = {"id": one.id, "priority": one.priority, "source": one.source}
        if one.source_id:
            value["source_id"] = one.source_id
        value["created_at"] = local_minute(one.created_at, timezone)
        if one.scheduled_for is not None:
            value["scheduled_for"] = local_minute(one.scheduled_for, timezone)
        value["title"] = one.title
        if body or cut:
            value["body"] = body
        if cut:
            value["cut"] = f"{cut}; list_notifications shows it whole"
        return line_of(replace(one, body=body) if cut else one, value)

    return fitting(make, one.body_bytes, max_bytes)


def message_line(one: PastMessage, timezone: ZoneInfo, max_bytes: int) -> Line | None:
    """Return the line about a message of a conversation; None if it does not fit."""
    is_inbound = one.direction is Direction.INBOUND

    def make(text_bytes: int) -> Line:
        body, cut = _cut(one.body, one.body_bytes, text_bytes)
        value: dict[str, Any] = {
            "at": local_minute(one.created_at, timezone),
            "from": "contact" if is_inbound else "you",
            "channel": one.channel,
        }
        if one.status in (MessageStatus.QUEUED, MessageStatus.FAILED):
            value["status"] = one.status
        if one.attachment_count or cut:
            value["id"] = one.id
        if one.attachment_count:
            value["attachments"] = one.attachment_count
        if one.subject:
            value["subject"] = one.subject
        value["text"] = body
        if cut:
            value["cut"] = f"{cut}; get_message shows it whole"
        return line_of(replace(one, body=body) if cut else one, value)

    return fitting(make, one.body_bytes, max_bytes)


def memory_line(content: str, whole_bytes: int, max_bytes: int) -> Line | None:
    """Return the line with the core memory, of which `content` is the beginning; None if it does not fit."""

    def make(text_bytes: int) -> Line:
        text, cut = _cut(content, whole_bytes, text_bytes)
        value = {"content": text} | ({"cut": f"{cut}; the tool memory shows it whole"} if cut else {})
        return line_of(text, value)

    return fitting(make, whole_bytes, max_bytes)


def journal_line(run: PastRun, timezone: ZoneInfo) -> Line:
    """Return the line about a run that is over."""
    text = f"- {describe_run(run, timezone.key)}"
    return Line(text, run, len(text.encode()) + 1)


def contact_text(contact: ContactMessages) -> str:
    """Return the line about a contact, which stands above the messages with it."""
    value = {"contact_id": contact.contact_id, "name": contact.name}
    known = {"phone": contact.phone, "email": contact.email}
    return quoted(value | {name: text for name, text in known.items() if text})


def _cut(text: str, whole_bytes: int, max_bytes: int) -> tuple[str, str]:
    """Return at most `max_bytes` of the text, and a note on what is missing, blank if nothing is."""
    encoded = text.encode()
    if len(encoded) > max_bytes:
        text = encoded[:max_bytes].decode(errors="ignore")
    shown = min(len(encoded), max_bytes)
    return text, f"the first {shown} of {whole_bytes} bytes" if shown < whole_bytes else ""
