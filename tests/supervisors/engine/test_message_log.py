"""The last messages of a supervisor, packed and unpacked."""

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


def test_there_is_a_byte_for_every_known_word() -> None:
    assert len(CODES) <= LITERAL


@given(st.lists(lines, max_size=50))
def test_the_last_ones_are_remembered_as_far_as_there_is_room(messages: list[Line]) -> None:
    pack = packed(*messages)
    recalled = list(read_messages(pack))

    assert len(pack) <= MAX_BYTES
    assert len(recalled) <= MAX_MESSAGES
    assert bool(recalled) == bool(messages)
    for given_line, kept in zip(messages[::-1], recalled[::-1], strict=False):
        assert kept[0] == given_line[0]
        assert given_line[1].startswith(kept[1])
        assert given_line[2].startswith(kept[2])


def test_thirty_two_of_the_usual_ones_are_kept_whole() -> None:
    granted = str(SleepGranted(NOW, clamped=False))
    cycle = [("notified", "started: notification:sms"), ("sleep request", granted), ("run over", "asleep")]
    messages = [(NOW + n * SECOND, *cycle[n % 3]) for n in range(40)]

    assert list(read_messages(packed(*messages))) == messages[-32:]


def test_a_long_text_is_cut_and_crowds_out_older_ones() -> None:
    long = "stop request: " + "ü" * 1000
    recalled = list(read_messages(packed(*((NOW + seconds(n), long, "stopped") for n in range(32)))))

    assert {message for _, message, _ in recalled} == {long.encode()[:MAX_TEXT_BYTES].decode()}
    assert recalled[-1][0] == NOW + seconds(31)
    assert 5 < len(recalled) < 32
