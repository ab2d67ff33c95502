"""The database watch: the probe of writes, and what the log says of outages."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from storage.errors import DatabaseFull, DatabaseUnavailable, RowLocked
from storage.identity.instance import Instance
from supervisors.maintenance import database_watch
from supervisors.maintenance.database_watch import (
    FRESH_SECONDS,
    IDLE_SECONDS,
    PROBE_SECONDS,
    QUIET_SECONDS,
    SETTLE_SECONDS,
    DatabaseWatch,
    Part,
    WriteProbe,
)
from tests.storage.factories import NOW
from tests.supervisors.held_clock import HeldClock

REFUSED = "connection refused by db:5432"


class Night:
    """A watch, its clock, and what it logs. Time passes in steps, after each of which the watch is called."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.watch = DatabaseWatch(self.clock)
        self.logged: list[Any] = []

    async def passes(self, seconds: float, *failing: tuple[Part, str], refused: int = 0) -> None:
        """Let time pass while these parts fail at each attempt."""
        for _ in range(round(seconds * 2)):
            for part, reason in failing:
                self.watch.report(part, reason)
            if refused:
                self.watch.note_failure(Part.STATEMENTS, "the server closed the connection", refused)
            self.clock.advance(0.5)
            self._call_watch()

    def lines(self) -> list[tuple[str, str]]:
        """Return the level and the event of the lines since the last call."""
        found = [(line["log_level"], line["event"]) for line in self.logged]
        self.logged.clear()
        return found

    def _call_watch(self) -> None:
        """Run the watch as far as it goes without waiting."""
        call = self.watch.run_once()
        with suppress(StopIteration):
            call.send(None)
        call.close()


@pytest.fixture
def night() -> Iterator[Night]:
    night = Night()
    with capture_logs() as night.logged:
        yield night


async def test_outage_is_one_line_a_minute_and_two_more(night: Night) -> None:
    await night.passes(1, (Part.DATABASE, "the server is shutting down"))
    assert night.lines() == [], "the trial write may know more"
    await night.passes(2, (Part.DATABASE, REFUSED), (Part.BEAT, REFUSED), (Part.DOORBELL, REFUSED), refused=5)
    assert [line["reason"] for line in night.logged] == [REFUSED]
    assert night.lines() == [("warning", "the database is unavailable")]
    await night.passes(178, (Part.DATABASE, REFUSED), (Part.BEAT, REFUSED))
    assert [line["seconds"] for line in night.logged] == [60, 120, 180]
    assert night.lines() == [("warning", "the database is still unavailable")] * 3
    for part in Part:
        night.watch.report(part, "")
    await night.passes(QUIET_SECONDS)
    [line] = night.logged
    assert (line["seconds"], line["refused"]) == (pytest.approx(181, abs=1), 20)
    assert night.lines() == [("info", "the database is available again")]
    await night.passes(600)
    assert night.lines() == []


async def test_outage_shorter_than_the_first_pause_is_reported(night: Night) -> None:
    await night.passes(0.5, (Part.DATABASE, REFUSED))
    night.watch.report(Part.DATABASE, "")
    await night.passes(SETTLE_SECONDS + QUIET_SECONDS)
    assert night.lines() == [
        ("warning", "the database is unavailable"),
        ("info", "the database is available again"),
    ]


async def test_outage_that_returns_at_once_is_the_same(night: Night) -> None:
    for _ in range(10):
        await night.passes(3, (Part.DATABASE, REFUSED))
        night.watch.report(Part.DATABASE, "")
        await night.passes(QUIET_SECONDS - 1)
    assert night.lines() == [
        ("warning", "the database is unavailable"),
        ("warning", "the database is still unavailable"),
    ]


async def test_statements_that_fail_late_prolong_no_outage(night: Night) -> None:
    await night.passes(10, (Part.DATABASE, REFUSED))
    night.watch.report(Part.DATABASE, "")
    await night.passes(QUIET_SECONDS - 1, refused=1)
    night.logged.clear()
    await night.passes(QUIET_SECONDS)
    assert [line["seconds"] for line in night.logged] == [pytest.approx(10, abs=0.5)]
    assert night.lines() == [("info", "the database is available again")]


async def test_broken_connection_alone_is_no_outage_of_the_database(night: Night) -> None:
    await night.passes(0.5, refused=3)
    await night.passes(SETTLE_SECONDS + QUIET_SECONDS)
    assert [line["event"] for line in night.logged] == [
        "some statements failed, although the database takes writes",
        "statements succeed again",
    ]


async def test_doorbell_that_stays_away_is_reported_after_the_outage(night: Night) -> None:
    away = (Part.DOORBELL, "no pg_hba.conf entry")
    await night.passes(10, (Part.DATABASE, REFUSED), away)
    night.watch.report(Part.DATABASE, "")
    await night.passes(QUIET_SECONDS + SETTLE_SECONDS, away)
    assert [line["event"] for line in night.logged] == [
        "the database is unavailable",
        "the database is available again",
        "the connection of the doorbell is lost; rows of other programs wait for the next scan",
    ]


async def test_outage_of_the_database_follows_that_of_the_doorbell(night: Night) -> None:
    away = (Part.DOORBELL, "no pg_hba.conf entry")
    await night.passes(10, away)
    night.logged.clear()
    await night.passes(10, away, (Part.DATABASE, REFUSED))
    assert night.lines() == [("warning", "the database is unavailable")]


async def test_watch_waits_without_timers_while_nothing_fails() -> None:
    clock = HeldClock()
    watch = DatabaseWatch(clock)
    running = asyncio.create_task(watch.run_once())
    await asyncio.sleep(0)
    assert clock.timers() == []
    watch.report(Part.DATABASE, REFUSED)
    await running


async def test_failure_of_probe_and_requests_reaches_the_watch(night: Night) -> None:
    away = Store()
    away.error = DatabaseUnavailable(REFUSED)
    probe = WriteProbe(away, night.clock, night.watch)
    probe.count_refusal(DatabaseUnavailable("the server closed the connection"))
    await probe.run_once()
    await night.passes(SETTLE_SECONDS)
    assert [(line["event"], line["reason"]) for line in night.logged] == [
        ("the database is unavailable", REFUSED)
    ]


class Store(Instance):
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


def probe_of() -> tuple[Store, HeldClock, WriteProbe]:
    store, clock = Store(), HeldClock()
    return store, clock, WriteProbe(store, clock, DatabaseWatch(clock))


async def advance(clock: HeldClock, seconds: float) -> None:
    """Move the clock once the task that waits for it has set its timer."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert clock.timers()
    clock.advance(seconds)


async def test_failed_write_is_named_until_one_succeeds() -> None:
    store, clock, probe = probe_of()
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


async def test_shown_result_is_no_older_than_two_seconds() -> None:
    store, clock, probe = probe_of()
    for error in (None, DatabaseUnavailable("read-only"), None):
        store.error = error
        clock.advance(2.01 - PROBE_SECONDS)  # the probe itself takes the rest at most
        await probe.check()
        assert (probe.failing_since is None) is (error is None)


async def test_callers_share_a_fresh_result() -> None:
    store, clock, probe = probe_of()
    await asyncio.gather(*(probe.check() for _ in range(10)))
    clock.advance(FRESH_SECONDS)
    await probe.check()
    assert store.probes == 1
    clock.advance(0.01)
    await probe.check()
    assert store.probes == 2


async def test_caller_takes_the_result_of_a_slow_probe_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_watch, "PROBE_SECONDS", 0.02)
    store, clock, probe = probe_of()
    store.is_silent = True
    first, second = asyncio.create_task(probe.check()), asyncio.create_task(probe.check())
    await asyncio.sleep(0)
    clock.advance(2 * FRESH_SECONDS)
    await asyncio.gather(first, second)
    assert store.probes == 1


async def test_silent_database_fails_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_watch, "PROBE_SECONDS", 0.02)
    store, _, probe = probe_of()
    store.is_silent = True
    await probe.check()
    assert probe.reason == "the server does not answer: a write has taken longer than 0.02 s"


async def test_failed_statement_is_followed_by_a_probe_at_once() -> None:
    store, _, probe = probe_of()
    await probe.check()
    running = asyncio.create_task(probe.run_once())
    await asyncio.sleep(0)
    store.error = DatabaseUnavailable("read-only")
    probe.suspect(DatabaseUnavailable("read-only"))
    assert probe.failing_since is None, "one statement was believed"
    await running
    assert probe.reason == "read-only"


async def test_idle_database_is_probed_seldom() -> None:
    store, clock, probe = probe_of()
    running = asyncio.create_task(probe.run_once())
    await advance(clock, IDLE_SECONDS - 0.1)
    assert store.probes == 0
    clock.advance(0.1)
    await running
    assert store.probes == 1


async def test_full_disk_is_believed_while_writes_report_it() -> None:
    _, clock, probe = probe_of()
    probe.suspect(DatabaseFull("the disk of the database is full"))
    await probe.check()  # this small write has found room
    assert probe.reason == "the disk of the database is full"
    clock.advance(2 * FRESH_SECONDS)
    await probe.check()
    assert probe.failing_since is None


async def test_used_up_descriptors_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(database_watch, "socket", refuse)
    _, _, probe = probe_of()
    await probe.check()
    assert probe.reason == "no connection can be accepted, and no file opened: Too many open files"


async def test_refusals_for_locked_rows_are_counted_in_one_line() -> None:
    _, _, probe = probe_of()
    for _ in range(50):
        probe.count_refusal(RowLocked("canceling statement due to lock timeout"))
    probe._suspected.set()
    with capture_logs() as logged:
        await probe.run_once()
    assert [(line["log_level"], line["count"]) for line in logged] == [("warning", 50)]
    assert probe.failing_since is None
