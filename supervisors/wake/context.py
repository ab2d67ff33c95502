"""The wake context: what an agent is told at the start of a run, within a number of tokens.

The parts divide the tokens by weights. The room that a part does not need goes to the others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from storage.agents.wakes import (
    BYTES_PER_TOKEN,
    MAX_NOTIFICATIONS,
    MIN_TOKENS,
    ContactMessages,
    PastMessage,
    WaitingNotification,
    WakeFacts,
)
from storage.history.journals import PastRun
from supervisors.text import quoted
from supervisors.wake.lines import (
    Line,
    contact_text,
    journal_line,
    memory_line,
    message_line,
    notification_line,
)

FRAME_BYTES = 720  # for the head without its names, and for the headings of the parts
CONVERSATION_BYTES = 100  # for the heading of a conversation, beside the line about its contact
LINE_BYTES = 150  # of a line beside its text, for the estimate of what a part needs

# How the room is divided among the parts that need more than there is. A core memory of the maximum size fits
# into the default number of tokens.
WEIGHTS = {"core_memory": 70, "notifications": 12, "conversations": 12, "journal": 6}


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


def select(
    facts: WakeFacts,
    now: datetime,
    context_tokens: int,
    journal_line: Callable[[PastRun, ZoneInfo], Line] = journal_line,
) -> WakeContext:
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
