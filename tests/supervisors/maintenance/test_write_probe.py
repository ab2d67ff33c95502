"""The write probe: its verdict on the database."""

import asyncio

import pytest
from structlog.testing import capture_logs

from storage.errors import DatabaseFull, DatabaseUnavailable, RowLocked
from supervisors.maintenance import write_probe
from supervisors.maintenance.database_watch import DatabaseWatch
from supervisors.maintenance.write_probe import FRESH_SECONDS, IDLE_SECONDS, WriteProbe
from tests.storage.factories import NOW
from tests.supervisors.held_clock import HeldClock


class Store:
    """A store that fails as long as `error` is set, and never answers while `is_silent`."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.is_silent = False
        self.probes = 0

    async def probe_write(self) -> None:
        self.probes += 1
        await asyncio.sleep(0)
        if self.is_silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


def probe_of(store: Store) -> WriteProbe:
    clock = HeldClock()
    return WriteProbe(store, clock, DatabaseWatch(clock))


async def advance(clock: HeldClock, seconds: float) -> None:
    """Move the clock once the task that waits for it has set its timer."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert clock.timers()
    clock.advance(seconds)


async def test_failed_write_is_named_until_one_succeeds() -> None:
    store, clock = Store(), HeldClock()
    probe = WriteProbe(store, clock, DatabaseWatch(clock))
    store.error = DatabaseUnavailable("too many connections")
    await probe.check()
    assert probe.failing_since == NOW
    assert probe.reason == "too many connections"
    clock.advance(FRESH_SECONDS + 0.1)
    await probe.check()
    assert probe.failing_since == NOW
    store.error = None
    clock.advance(FRESH_SECONDS + 0.1)
    await probe.check()
    assert repr(probe) == "<WriteProbe: writing>"


async def test_callers_share_a_fresh_result() -> None:
    store, clock = Store(), HeldClock()
    probe = WriteProbe(store, clock, DatabaseWatch(clock))
    await asyncio.gather(*(probe.check() for _ in range(10)))
    clock.advance(FRESH_SECONDS)
    await probe.check()
    assert store.probes == 1
    clock.advance(0.01)
    await probe.check()
    assert store.probes == 2


async def test_caller_takes_the_result_of_a_slow_probe_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_probe, "PROBE_SECONDS", 0.02)
    store, clock = Store(), HeldClock()
    store.is_silent = True
    probe = WriteProbe(store, clock, DatabaseWatch(clock))
    first, second = asyncio.create_task(probe.check()), asyncio.create_task(probe.check())
    await asyncio.sleep(0)
    clock.advance(2 * FRESH_SECONDS)
    await asyncio.gather(first, second)
    assert store.probes == 1


async def test_silent_database_fails_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_probe, "PROBE_SECONDS", 0.02)
    store = Store()
    store.is_silent = True
    probe = probe_of(store)
    await probe.check()
    assert probe.reason == "the server does not answer: a write has taken longer than 0.02 s"


async def test_failed_statement_is_followed_by_a_probe_at_once() -> None:
    store, clock = Store(), HeldClock()
    probe = WriteProbe(store, clock, DatabaseWatch(clock))
    await probe.check()
    running = asyncio.create_task(probe.run_once())
    await asyncio.sleep(0)
    store.error = DatabaseUnavailable("read-only")
    probe.suspect(DatabaseUnavailable("read-only"))
    assert probe.failing_since is None, "one statement was believed"
    await running
    assert probe.reason == "read-only"


async def test_idle_database_is_probed_seldom() -> None:
    store, clock = Store(), HeldClock()
    probe = WriteProbe(store, clock, DatabaseWatch(clock))
    running = asyncio.create_task(probe.run_once())
    await advance(clock, IDLE_SECONDS - 0.1)
    assert store.probes == 0
    clock.advance(0.1)
    await running
    assert store.probes == 1


async def test_full_disk_is_believed_while_writes_report_it() -> None:
    store, clock = Store(), HeldClock()
    probe = WriteProbe(store, clock, DatabaseWatch(clock))
    probe.suspect(DatabaseFull("the disk of the database is full"))
    await probe.check()  # this small write has found room
    assert probe.reason == "the disk of the database is full"
    clock.advance(2 * FRESH_SECONDS)
    await probe.check()
    assert probe.failing_since is None


async def test_used_up_descriptors_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(write_probe, "socket", refuse)
    probe = probe_of(Store())
    await probe.check()
    assert probe.reason == "no connection can be accepted, and no file opened: Too many open files"


async def test_refusals_for_locked_rows_are_counted_in_one_line() -> None:
    probe = probe_of(Store())
    for _ in range(50):
        probe.count_refusal(RowLocked("canceling statement due to lock timeout"))
    probe._suspected.set()
    with capture_logs() as logged:
        await probe.run_once()
    assert [(line["log_level"], line["count"]) for line in logged] == [("warning", 50)]
    assert probe.failing_since is None
