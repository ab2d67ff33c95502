"""The wait for a database that starts later: what it logs, and how it ends."""

import asyncio
from socket import create_server

import pytest
from structlog.testing import capture_logs

from hostsvc.config import DatabaseChoice
from hostsvc.database_wait import PAUSE_SECONDS, wait_for_database
from hostsvc.end_request import EndRequest
from storage.errors import DatabaseUnavailable
from supervisors.clock import SystemClock
from tests.supervisors.held_clock import HeldClock


class HurriedClock(HeldClock):
    """Lets the time that somebody waits for pass at once."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.advance(seconds)


@pytest.fixture
def nobody() -> DatabaseChoice:
    """Return a database at an address where nobody listens."""
    with create_server(("127.0.0.1", 0)) as unused:
        return DatabaseChoice(url=f"postgresql://me:hunter2@127.0.0.1:{unused.getsockname()[1]}/agents")


async def test_present_database_is_not_waited_for(database_url: str) -> None:
    with capture_logs() as logged:
        assert await wait_for_database(DatabaseChoice(url=database_url), 10, EndRequest(), HeldClock())
    assert logged == []


async def test_wait_says_once_a_minute_what_it_waits_for(nobody: DatabaseChoice) -> None:
    address = nobody.url.partition("@")[2].partition("/")[0]
    with capture_logs() as logged, pytest.raises(DatabaseUnavailable) as raised:
        await wait_for_database(nobody, 150, EndRequest(), HurriedClock())
    assert str(raised.value) == f"connection refused by {address}, after a wait of 150 s"
    assert [line["waited_seconds"] for line in logged] == [0, 60, 120]
    assert {line["event"] for line in logged} == {"waiting for the database"}
    assert logged[0]["database"] == f"the database {address}/agents"
    assert logged[0]["reason"] == f"connection refused by {address}"


async def test_wait_lasts_as_long_as_asked(nobody: DatabaseChoice) -> None:
    clock = HurriedClock()
    began_at = clock.monotonic()
    with pytest.raises(DatabaseUnavailable):
        await wait_for_database(nobody, PAUSE_SECONDS / 2, EndRequest(), clock)
    assert clock.monotonic() == pytest.approx(began_at + PAUSE_SECONDS / 2)


async def test_request_to_end_ends_the_wait(nobody: DatabaseChoice) -> None:
    end = EndRequest()
    waiting = asyncio.create_task(wait_for_database(nobody, 3600, end, SystemClock()))
    end.requested.set()
    assert not await waiting
