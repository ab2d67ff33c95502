"""The messages, as the log of a supervisor shows them."""

from uuid import UUID

import pytest

from storage.model import AgentStatus
from supervisors.engine.messages import (
    OwnedFieldsRequest,
    RunAnswer,
    RunReply,
    RunRequest,
    SleepGranted,
    SleepRefused,
    SleepRequest,
    StopRequest,
)
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
