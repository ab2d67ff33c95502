"""The end of the process: the first signal begins it, the second one hurries it, a slow one is forced."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from time import monotonic

import pytest
from structlog.testing import capture_logs

from hostsvc.process_end import END_SIGNALS, EXIT_CODE, end_on_signals, force_end_after
from tests.patience import PATIENCE_SECONDS

NEVER_CLOSES = """
import asyncio
from hostsvc.process_end import force_end_after

async def close():
    force_end_after(0.05, "another instance leads")
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(3600)

asyncio.run(close())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_signal_requests_the_end_second_hurries_it(number: signal.Signals) -> None:
    with capture_logs() as logged:
        end = end_on_signals()
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


async def test_worker_takes_only_its_parents_word_for_a_second_signal() -> None:
    parent, worker = socket.socketpair()
    with parent, worker, capture_logs() as logged:
        end = end_on_signals(worker)
        parent.send(bytes((signal.SIGINT, False)))
        await end.requested.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        while len(logged) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not end.hurried.is_set()
        parent.send(bytes((signal.SIGTERM, True)))
        await end.hurried.wait()
        _forget(worker)
    assert [(line["signal"], line["again"]) for line in logged] == [
        ("SIGINT", False),
        ("SIGTERM", False),
        ("SIGTERM", True),
    ]


@pytest.mark.parametrize("unread", [b"", b"http://127.0.0.1:8080"])
async def test_worker_ends_if_its_parent_has_ended(unread: bytes) -> None:
    parent, worker = socket.socketpair()
    with worker, capture_logs() as logged:
        worker.send(unread)
        end = end_on_signals(worker)
        parent.close()
        await end.requested.wait()
        _forget(worker)
    assert [line["reason"] for line in logged] == ["the parent process has ended"]
    assert not end.hurried.is_set()


def _forget(worker: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    loop.remove_reader(worker)
    for number in END_SIGNALS:
        loop.remove_signal_handler(number)


def test_process_that_closes_too_slowly_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NEVER_CLOSES],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == EXIT_CODE
    assert "another instance leads" in ended.stdout


def test_cancelled_end_does_not_come() -> None:
    timer = force_end_after(0.05, "another instance leads")
    timer.cancel()
    began = monotonic()
    timer.join()
    assert monotonic() - began < 5
