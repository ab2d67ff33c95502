"""The message log, packed and unpacked."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from supervisors.engine.message_log import (
    CODES,
    LITERAL,
    MAX_BYTES,
    MAX_MESSAGES,
    MAX_TEXT_BYTES,
    append_message,
    read_messages,
)
from supervisors.engine.messages import SleepGranted
from tests.storage.factories import NOW, SECOND
from tests.supervisors.agent_facts import seconds

Line = tuple[datetime, str, str]
known = st.sampled_from(sorted(CODES))
wordy = st.text()
lines = st.tuples(st.datetimes(timezones=st.just(UTC)), known | wordy, known | wordy)


def packed(*messages: Line) -> bytes:
    pack = b""
    for at, message, outcome in messages:
        pack = append_message(pack, at, message, outcome)
    return pack


def test_every_word_has_a_one_byte_code() -> None:
    assert len(CODES) <= LITERAL


@given(st.lists(lines, max_size=50))
def test_log_keeps_the_latest_messages_within_its_size(messages: list[Line]) -> None:
    pack = packed(*messages)
    recalled = list(read_messages(pack))

    assert len(pack) <= MAX_BYTES
    assert len(recalled) <= MAX_MESSAGES
    assert bool(recalled) == bool(messages)
    for given_line, kept in zip(messages[::-1], recalled[::-1], strict=False):
        assert kept[0] == given_line[0]
        assert given_line[1].startswith(kept[1])
        assert given_line[2].startswith(kept[2])


def test_log_keeps_thirty_two_usual_messages_whole() -> None:
    granted = str(SleepGranted(NOW, clamped=False))
    cycle = [("notified", "started: notification:sms"), ("sleep request", granted), ("run over", "asleep")]
    messages = [(NOW + n * SECOND, *cycle[n % 3]) for n in range(40)]

    assert list(read_messages(packed(*messages))) == messages[-32:]


def test_long_text_is_cut_and_displaces_older_entries() -> None:
    long = "stop request: " + "ü" * 1000
    recalled = list(read_messages(packed(*((NOW + seconds(n), long, "stopped") for n in range(32)))))

    assert {message for _, message, _ in recalled} == {long.encode()[:MAX_TEXT_BYTES].decode()}
    assert recalled[-1][0] == NOW + seconds(31)
    assert 5 < len(recalled) < 32
