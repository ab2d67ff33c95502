"""The wake context: what an agent is told at the start of a run, within a number of tokens.

The parts divide the tokens by weights. The room that a part does not need goes to the others. Notifications,
messages and runs are lines of JSON, so that no text can end its line. A text that does not fit is cut, and
`cut` says how to read it whole.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from storage.agents.wakes import (
    BYTES_PER_TOKEN,
    MAX_NOTIFICATIONS,
    MIN_TOKENS,
    ContactMessages,
    PastMessage,
    WaitingNotification,
    WakeFacts,
    Wakes,
)
from storage.channels.messages import Direction, MessageStatus
from storage.history.journals import PastRun
from supervisors.clock import Clock
from supervisors.policy.journal import describe_run
from supervisors.text import quoted

FRAME_BYTES = 720  # for the head without its names, and for the headings of the parts
CONVERSATION_BYTES = 100  # for the heading of a conversation, beside the line about its contact
LINE_BYTES = 150  # of a line beside its text, for the estimate of what a part needs
# How the room is divided among the parts that need more than there is. A core memory of the maximum size fits
# into the default number of tokens.
WEIGHTS = {"core_memory": 70, "notifications": 12, "conversations": 12, "journal": 6}
MAX_KNOWN_LINES = 2048  # of journals; each run opens several wakes, but its line is made once
MIN_TEXT_BYTES = 40  # a text with less room is left out


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and what it shows of its item; `bytes` is its length with the line break."""

    text: str
    item: Any
    bytes: int


@dataclass(frozen=True, slots=True)
class ShownConversation:
    """The messages with a contact that are shown, the oldest first. `has_earlier`: others are not."""

    contact: ContactMessages
    heading: str
    lines: tuple[Line, ...]
    has_earlier: bool


@dataclass(frozen=True, slots=True)
class WakeContext:
    """The parts of the facts that are shown, as lines. `core_memory` is None if there is none.

    `notifications_left_out` may be one too few of many; `has_more_notifications` says so.
    """

    facts: WakeFacts
    now: datetime
    timezone: ZoneInfo
    notifications: tuple[Line, ...]
    notifications_left_out: int
    conversations: tuple[ShownConversation, ...]
    core_memory: Line | None
    journal: tuple[Line, ...]

    @property
    def has_more_notifications(self) -> bool:
        """Return whether more notifications may wait than were counted."""
        return len(self.facts.notifications) > MAX_NOTIFICATIONS


@dataclass(frozen=True, slots=True)
class WakeContexts:
    """Builds wake contexts. `context_tokens` is for templates that have no number of their own."""

    store: Wakes
    clock: Clock
    context_tokens: int

    async def get(self, agent_id: UUID) -> WakeContext | None:
        """Return what the agent would be told now; None if there is no such agent."""
        now = self.clock.now()
        facts = await self.store.get(agent_id, now, self.context_tokens)
        return None if facts is None else select(facts, now, self.context_tokens)


def select(facts: WakeFacts, now: datetime, context_tokens: int) -> WakeContext:
    """Choose what is shown. Without a number of tokens on the template, it is `context_tokens`."""
    timezone = ZoneInfo(facts.agent.timezone)
    tokens = (facts.template.context_tokens if facts.template else 0) or context_tokens
    names = quoted([facts.agent.name, facts.organization_name])
    total = max(0, max(tokens, MIN_TOKENS) * BYTES_PER_TOKEN - FRAME_BYTES - len(names.encode()))
    rooms = _rooms(facts, total)
    spare = total - sum(rooms.values())  # goes on to the next part with what each part leaves of its room

    memory, room = facts.core_memory, rooms["core_memory"] + spare
    core_memory = memory_line(memory.content, memory.bytes, room) if memory else None
    spare = room - (core_memory.bytes if core_memory else 0)

    room = rooms["notifications"] + spare
    waiting = facts.notifications[:MAX_NOTIFICATIONS]
    notifications = _first_fitting(waiting, partial(notification_line, timezone=timezone), room)
    spare = room - sum(line.bytes for line in notifications)

    room = rooms["journal"] + spare
    journal = _journal([journal_line(run, timezone) for run in facts.runs], room)
    spare = room - sum(line.bytes for line in journal)

    left_out = len(facts.notifications) - len(notifications)
    conversations = tuple(_conversations(facts.conversations, timezone, rooms["conversations"] + spare))
    return WakeContext(
        facts, now, timezone, tuple(notifications), left_out, conversations, core_memory, tuple(journal)
    )


def _rooms(facts: WakeFacts, total_bytes: int) -> dict[str, int]:
    """Divide the bytes among the parts by their weights; no part gets more than it needs."""
    needed, left = _needed_bytes(facts), total_bytes
    if sum(needed.values()) <= total_bytes:
        return needed
    rooms: dict[str, int] = {}
    while unsettled := WEIGHTS.keys() - rooms.keys():
        shares = sum(WEIGHTS[part] for part in unsettled)
        offers = {part: left * WEIGHTS[part] // shares for part in unsettled}
        settled = {part: needed[part] for part in unsettled if needed[part] <= offers[part]}
        rooms |= settled or offers
        left -= sum(settled.values())
    return rooms


def _needed_bytes(facts: WakeFacts) -> dict[str, int]:
    """Estimate what each part needs. A text may need a quarter more than its bytes, as JSON escapes some."""
    texts = {
        "notifications": [one.body_bytes + LINE_BYTES for one in facts.notifications],
        "core_memory": [facts.core_memory.bytes] if facts.core_memory else [],
        "conversations": [one.body_bytes for talk in facts.conversations for one in talk.messages],
    }
    needed = {part: sum(sizes) * 5 // 4 + LINE_BYTES * len(sizes) for part, sizes in texts.items()}
    needed["conversations"] += 2 * LINE_BYTES * len(facts.conversations)
    return needed | {"journal": 4 * LINE_BYTES * len(facts.runs)}


def _first_fitting(
    items: Sequence[WaitingNotification] | Sequence[PastMessage],
    make: Callable[..., Line | None],
    max_bytes: int,
) -> list[Line]:
    """Return the lines of the first items that fit; the last of them may be cut."""
    lines: list[Line] = []
    for item in items:
        line = make(item, max_bytes=max_bytes)
        if line is None:
            break
        lines.append(line)
        max_bytes -= line.bytes
    return lines


def _conversations(
    talks: Sequence[ContactMessages], timezone: ZoneInfo, max_bytes: int
) -> Iterable[ShownConversation]:
    """Divide the bytes equally among the contacts; the room that one does not need goes to the later ones.

    A contact without room for a message is left out.
    """
    for position, talk in enumerate(talks):
        heading = contact_text(talk)
        heading_bytes = len(heading.encode()) + CONVERSATION_BYTES
        room = max_bytes // (len(talks) - position) - heading_bytes
        lines = _first_fitting(talk.messages, partial(message_line, timezone=timezone), room)
        if lines:
            max_bytes -= sum(line.bytes for line in lines) + heading_bytes
            has_earlier = talk.has_earlier or len(lines) < len(talk.messages)
            yield ShownConversation(talk, heading, tuple(reversed(lines)), has_earlier)


def _journal(latest: Sequence[Line], max_bytes: int) -> list[Line]:
    """Return the lines of the latest runs that fit, the oldest first."""
    lines: list[Line] = []
    for line in latest:
        max_bytes -= line.bytes
        if max_bytes < 0:
            break
        lines.append(line)
    return lines[::-1]


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


@lru_cache(MAX_KNOWN_LINES)
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
