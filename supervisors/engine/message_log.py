"""The last messages of a supervisor and what came of them, packed: a live supervisor weighs little more.

A pack is the number of its entries, and then each of them: its length, the time, and two texts, each a byte
for a word that is known here or as it is. Wordy messages are cut, and crowd out older ones.
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
LITERAL = 128  # a first byte from here on is the length of a text as it is

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


def remember(pack: bytes, at: datetime, message: str, outcome: str) -> bytes:
    """The pack with one more message, and without those that have no room beside it."""
    texts = _packed(message) + _packed(outcome)
    entry = HEAD.pack(HEAD.size + len(texts), (at - EPOCH) // MICROSECOND) + texts
    count, start = pack[0] if pack else 0, 1
    while count == MAX_MESSAGES or (count and len(pack) - start + len(entry) >= MAX_BYTES):
        count, start = count - 1, start + pack[start]
    return bytes((count + 1,)) + pack[start:] + entry


def recall(pack: bytes) -> Iterator[tuple[datetime, str, str]]:
    """When, what, and what came of it; oldest first."""
    start = 1
    while start < len(pack):
        length, microseconds = HEAD.unpack_from(pack, start)
        message, after = _unpacked(pack, start + HEAD.size)
        outcome, _ = _unpacked(pack, after)
        yield EPOCH + microseconds * MICROSECOND, message, outcome
        start += length


def _packed(text: str) -> bytes:
    code = CODES.get(text)
    if code is not None:
        return bytes((code,))
    literal = text.encode(errors="replace")[:MAX_TEXT_BYTES]
    return bytes((LITERAL + len(literal),)) + literal


def _unpacked(pack: bytes, start: int) -> tuple[str, int]:
    """The text that begins there, and where the next one does."""
    first = pack[start]
    if first < LITERAL:
        return WORD_OF[first], start + 1
    end = start + 1 + first - LITERAL
    return pack[start + 1 : end].decode(errors="ignore"), end
