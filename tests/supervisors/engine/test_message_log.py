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
arbitrary = st.text()
lines = st.tuples(st.datetimes(timezones=st.just(UTC)), known | arbitrary, known | arbitrary)


def write_log(*messages: Line) -> bytes:
    log = b""
    for at, message, outcome in messages:
        log = append_message(log, at, message, outcome)
    return log


def test_every_word_has_a_one_byte_code() -> None:
    assert len(CODES) <= LITERAL


@given(st.lists(lines, max_size=50))
def test_log_keeps_the_latest_messages_within_its_size(messages: list[Line]) -> None:
    log = write_log(*messages)
    entries = list(read_messages(log))

    assert len(log) <= MAX_BYTES
    assert len(entries) <= MAX_MESSAGES
    assert bool(entries) == bool(messages)
    for message, entry in zip(messages[::-1], entries[::-1], strict=False):
        assert entry[0] == message[0]
        assert message[1].startswith(entry[1])
        assert message[2].startswith(entry[2])


def test_log_keeps_thirty_two_usual_messages_whole() -> None:
    granted = str(SleepGranted(NOW, clamped=False))
    cycle = [("notified", "started: notification:sms"), ("sleep request", granted), ("run over", "asleep")]
    messages = [(NOW + n * SECOND, *cycle[n % 3]) for n in range(40)]

    assert list(read_messages(write_log(*messages))) == messages[-32:]


def test_long_text_is_cut_and_displaces_older_entries() -> None:
    long = "stop request: " + "ü" * 1000
    entries = list(read_messages(write_log(*((NOW + seconds(n), long, "stopped") for n in range(32)))))

    assert {message for _, message, _ in entries} == {long.encode()[:MAX_TEXT_BYTES].decode()}
    assert entries[-1][0] == NOW + seconds(31)
    assert 5 < len(entries) < 32
