"""The last messages of a supervisor with their outcomes, packed into bytes to keep a live supervisor small.

A log begins with the number of its entries. An entry is its length, the time, and two texts; a text is one
byte for a phrase of `WORDS`, or a length and the text itself. Long texts are cut, and displace older entries.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from struct import Struct

from storage.model import Source
from supervisors.engine.messages import RunAnswer, Signal, StopReply
from supervisors.policy.decisions import WakeReason
from supervisors.policy.phases import Phase

MAX_MESSAGES = 32
MAX_BYTES = 800
MAX_TEXT_BYTES = 100
LITERAL = 128  # a text that begins with a byte from here on is spelled out

WAKES = (*WakeReason, *(f"notification:{source}" for source in Source))
WORDS = (
    *Signal,
    *(", ".join(pair) for pair in combinations(sorted(Signal), 2)),
    *Phase,
    *(f"{outcome}: {wake}" for outcome in ("started", "queued") for wake in WAKES),
    *RunAnswer,
    *StopReply,
    *("run request", "stop request", "sleep request", "granted until something wakes it", "done", "gone"),
)
CODES = {word: code for code, word in enumerate(dict.fromkeys(map(str, WORDS)))}
WORD_OF = tuple(CODES)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
HEAD = Struct("<Bq")  # the length of the whole entry, and microseconds since the epoch


def append_message(log: bytes, at: datetime, message: str, outcome: str) -> bytes:
    """Return the log with one more message, and without the oldest ones that no longer fit."""
    texts = _pack(message) + _pack(outcome)
    entry = HEAD.pack(HEAD.size + len(texts), (at - EPOCH) // MICROSECOND) + texts
    count, start = log[0] if log else 0, 1
    while count == MAX_MESSAGES or (count and len(log) - start + len(entry) >= MAX_BYTES):
        count, start = count - 1, start + log[start]
    return bytes((count + 1,)) + log[start:] + entry


def read_messages(log: bytes) -> Iterator[tuple[datetime, str, str]]:
    """Yield the time, message and outcome of each entry, oldest first."""
    start = 1
    while start < len(log):
        length, microseconds = HEAD.unpack_from(log, start)
        message, after = _unpack(log, start + HEAD.size)
        outcome, _ = _unpack(log, after)
        yield EPOCH + microseconds * MICROSECOND, message, outcome
        start += length


def _pack(text: str) -> bytes:
    code = CODES.get(text)
    if code is not None:
        return bytes((code,))
    literal = text.encode(errors="replace")[:MAX_TEXT_BYTES]
    return bytes((LITERAL + len(literal),)) + literal


def _unpack(log: bytes, start: int) -> tuple[str, int]:
    """Return the text that begins at `start`, and where the next one begins."""
    first = log[start]
    if first < LITERAL:
        return WORD_OF[first], start + 1
    end = start + 1 + first - LITERAL
    return log[start + 1 : end].decode(errors="ignore"), end
