"""The messages, as the log of a supervisor shows them."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.model import AgentStatus
from supervisors.engine.messages import (
    CODES,
    LITERAL,
    MAX_BYTES,
    MAX_MESSAGES,
    MAX_TEXT_BYTES,
    OwnedFieldsRequest,
    PendingRequest,
    RunAnswer,
    RunReply,
    RunRequest,
    SleepGranted,
    SleepRefused,
    SleepRequest,
    StopRequest,
    append_message,
    read_messages,
)
from supervisors.errors import MailboxFull
from tests.storage.factories import NOW, SECOND
from tests.supervisors.agent_facts import seconds

RUN_ID = UUID(int=1)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (RunRequest(), "run request"),
        (RunRequest(wakeup=False), "run request without wakeup"),
        (StopRequest(), "stop request"),
        (StopRequest(force=True, reason="too loud"), "forced stop request: too loud"),
        (SleepRequest(RUN_ID, None), "sleep request"),
        (OwnedFieldsRequest(status=AgentStatus.SLEEPING, sleep_until=None), "write of status, sleep_until"),
        (RunReply(RunAnswer.STARTED, RUN_ID), "started"),
        (SleepGranted(None, clamped=False), "granted until something wakes it"),
        (SleepGranted(NOW, clamped=True), f"granted until {NOW:%Y-%m-%d %H:%M:%S}, clamped"),
        (SleepRefused((RUN_ID, RUN_ID)), "refused: 2 active"),
    ],
)
def test_message_is_shown_in_plain_words(message: object, text: str) -> None:
    assert str(message) == text


def test_run_reply_had_effect_if_started_or_queued() -> None:
    with_effect = {answer for answer in RunAnswer if RunReply(answer).had_effect}

    assert with_effect == {RunAnswer.STARTED, RunAnswer.QUEUED}


async def test_refusal_is_raised_where_the_request_was_asked() -> None:
    pending = PendingRequest(RunRequest())
    pending.refuse(MailboxFull("full"))

    with pytest.raises(MailboxFull, match="full"):
        await pending.reply


async def test_cancelled_asker_gets_no_refusal() -> None:
    pending = PendingRequest(RunRequest())
    pending.reply.cancel()

    pending.refuse(MailboxFull("full"))

    with pytest.raises(asyncio.CancelledError):
        await pending.reply


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
