"""The loop around maintenance services goes on after errors."""

import pytest
from structlog.testing import capture_logs

from storage.errors import DatabaseUnavailable, RowLocked, StorageError
from supervisors.maintenance.loop import repeat
from tests.supervisors.held_clock import HeldClock


class EndOfTest(Exception):
    """Ends the endless loop."""


class JumpingClock(HeldClock):
    """A clock on which each sleep is over at once; the third one ends the test."""

    sleeps = 0

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        self.sleeps += 1
        if self.sleeps == 3:
            raise EndOfTest


async def test_loop_logs_errors_and_calls_again_after_the_interval() -> None:
    clock, called_at = JumpingClock(), list[float]()
    errors: list[Exception] = [RowLocked("held too long"), ZeroDivisionError("oh")]

    async def run_once() -> None:
        called_at.append(clock.monotonic())
        if errors:
            raise errors.pop(0)

    with capture_logs() as logged, pytest.raises(EndOfTest):
        await repeat("sweep", run_once, 30, clock)

    assert called_at == [1000, 1030, 1060]
    assert [(line["log_level"], line["event"], line["service"]) for line in logged] == [
        ("warning", "maintenance service failed", "sweep"),
        ("error", "maintenance service crashed", "sweep"),
    ]


async def test_counting_pauses_longer_the_longer_it_takes() -> None:
    clock, called_at = JumpingClock(), list[float]()

    async def run_once() -> None:
        called_at.append(clock.monotonic())
        clock.advance([0.05, 2, 2][len(called_at) - 1])

    with pytest.raises(EndOfTest):
        await repeat("counter", run_once, 5, clock, counts=True)

    assert [*called_at, clock.monotonic()] == pytest.approx([1000, 1005.05, 1017.05, 1079.05])


async def test_error_that_repeats_is_logged_once() -> None:
    errors: list[Exception] = [StorageError("odd"), StorageError("odd"), StorageError("odder")]

    async def run_once() -> None:
        raise errors.pop(0)

    with capture_logs() as logged, pytest.raises(EndOfTest):
        await repeat("sweep", run_once, 30, JumpingClock())
    assert [line["error"] for line in logged] == ["odd", "odder"]


async def test_outage_of_the_database_is_not_logged_by_the_loop() -> None:
    async def run_once() -> None:
        raise DatabaseUnavailable("no answer in time")

    with capture_logs() as logged, pytest.raises(EndOfTest):
        await repeat("sweep", run_once, 30, JumpingClock())
    assert [line["log_level"] for line in logged] == ["debug"]
