"""The messages, as the log of a supervisor shows them."""

import asyncio
from uuid import UUID

import pytest

from storage.model import AgentStatus
from supervisors.engine.messages import (
    Mailbox,
    OwnedFieldsRequest,
    PendingRequest,
    Request,
    RunAnswer,
    RunReply,
    RunRequest,
    Signal,
    SleepGranted,
    SleepRefused,
    SleepRequest,
    StopRequest,
)
from supervisors.errors import MailboxFull
from tests.storage.factories import NOW

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


REPLY = RunReply(RunAnswer.SLEEPING)


async def reply_sleeping(_: Request[RunReply]) -> RunReply:
    return REPLY


def test_signals_are_taken_together() -> None:
    mailbox = Mailbox()
    for signal in (Signal.DUE, Signal.NOTIFIED, Signal.DUE):
        mailbox.tell(signal)

    assert mailbox.take() == frozenset({Signal.DUE, Signal.NOTIFIED})
    assert mailbox.take() is None


async def test_signals_come_before_requests_and_requests_in_order() -> None:
    mailbox, first, second = Mailbox(), PendingRequest(RunRequest()), PendingRequest(OwnedFieldsRequest())
    mailbox.ask(first)
    mailbox.ask(second)
    mailbox.tell(Signal.CLEARED)

    assert [mailbox.take() for _ in range(4)] == [frozenset({Signal.CLEARED}), first, second, None]


async def test_mailbox_is_full_at_its_limit_of_requests() -> None:
    mailbox = Mailbox()
    mailbox.ask(PendingRequest(RunRequest()))
    mailbox.tell(Signal.DUE)

    mailbox.require_room(2)
    with pytest.raises(MailboxFull, match="1 requests to this agent"):
        mailbox.require_room(1)


async def test_reply_comes_through_the_future() -> None:
    pending = PendingRequest(RunRequest())

    assert await pending.answer(reply_sleeping) == "sleeping"
    assert await pending.reply == REPLY


async def test_reply_without_words_is_described_as_done() -> None:
    async def write(_: Request[bool]) -> bool:
        return False

    assert await PendingRequest(OwnedFieldsRequest()).answer(write) == "done"


async def test_refusal_is_raised_where_the_request_was_asked() -> None:
    pending = PendingRequest(RunRequest())
    pending.refuse(MailboxFull("full"))

    with pytest.raises(MailboxFull, match="full"):
        await pending.reply


async def test_cancelled_asker_gets_neither_reply_nor_refusal() -> None:
    answered, refused = PendingRequest(RunRequest()), PendingRequest(RunRequest())
    answered.reply.cancel()
    refused.reply.cancel()

    await answered.answer(reply_sleeping)
    refused.refuse(MailboxFull("full"))

    for pending in (answered, refused):
        with pytest.raises(asyncio.CancelledError):
            await pending.reply
