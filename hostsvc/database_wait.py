"""The wait for a database that starts later than the service, as under systemd or docker compose."""

import asyncio

import structlog

from hostsvc.config import DatabaseChoice
from hostsvc.end_request import EndRequest
from storage.errors import DatabaseUnavailable
from storage.postgres.connections import connect
from storage.postgres.failure_reasons import NO_ANSWER
from supervisors.clock import Clock, wait_for_event

PAUSE_SECONDS = 0.5  # between two attempts
ATTEMPT_SECONDS = 3.0  # an attempt without an answer for longer has failed
REPEAT_SECONDS = 60.0  # between two lines in the log

log = structlog.get_logger()


async def wait_for_database(database: DatabaseChoice, seconds: float, end: EndRequest, clock: Clock) -> bool:
    """Wait until the database takes connections; return False if the end of the process is requested first.

    Raise DatabaseUnavailable with the reason after this many seconds.
    """
    began_at = next_line_at = clock.monotonic()
    while reason := await _failure(database.url):
        now = clock.monotonic()
        if now >= began_at + seconds:
            raise DatabaseUnavailable(f"{reason}, after a wait of {seconds:g} s")
        if now >= next_line_at:
            log.warning(
                "waiting for the database",
                database=database.name,
                reason=reason,
                waited_seconds=round(now - began_at),
                max_seconds=seconds,
            )
            next_line_at += REPEAT_SECONDS
        if await wait_for_event(end.requested, min(PAUSE_SECONDS, began_at + seconds - now), clock):
            return False
    return True


async def _failure(url: str) -> str:
    """Try to connect, and return why that failed; blank if it succeeded."""
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS), connect(url):
            return ""
    except DatabaseUnavailable as error:
        return str(error)
    except TimeoutError:
        return NO_ANSWER
