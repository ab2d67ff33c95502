"""The request to end the service: the first signal begins its end, the second one hurries it."""

import asyncio
import os
import signal

import pytest
from structlog.testing import capture_logs

from hostsvc.end_request import end_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_signal_requests_the_end_second_hurries_it(number: signal.Signals) -> None:
    with capture_logs() as logged:
        end = end_on_signals()
        async with asyncio.timeout(5):
            os.kill(os.getpid(), number)
            await end.requested.wait()
            assert not end.hurried.is_set()
            os.kill(os.getpid(), number)
            await end.hurried.wait()
    for end_signal in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(end_signal)
    assert [(line["event"], line["signal"], line["again"]) for line in logged] == [
        ("end requested", number.name, False),
        ("end requested", number.name, True),
    ]
