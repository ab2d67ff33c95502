"""The database watch: the one part of the service that reports outages of the database in the log.

All others tell the watch when the database fails them, and log nothing. The watch logs one line when an
outage begins, one a minute while it lasts, and one when it is over. It waits a moment before the first line:
the trial write that the first failure causes has ended by then, and says more than a connection that broke.
"""

import asyncio
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import structlog

from supervisors.clock import Clock

SETTLE_SECONDS = 2.0  # from the first failure to the first line; longer than a trial write may take
QUIET_SECONDS = 5.0  # without any failure, until an outage counts as over
REPEAT_SECONDS = 60.0  # between two lines while an outage lasts

log = structlog.get_logger()


class Part(IntEnum):
    """A use of the database; the failure of a later one implies or outweighs those of the earlier ones."""

    DOORBELL = 1
    LEAD = 2
    STATEMENTS = 3  # of requests and maintenance services
    DATABASE = 4  # as the write probe finds it


class Wording(NamedTuple):
    """What the log says about a part."""

    lost: str
    still_lost: str
    back: str


WORDING = {
    Part.DOORBELL: Wording(
        "the connection of the doorbell is lost; rows of other programs wait for the next scan",
        "the connection of the doorbell is still lost",
        "the connection of the doorbell is back",
    ),
    Part.LEAD: Wording(
        "the connection that holds the lead is lost; no run starts until it is back",
        "the connection that holds the lead is still lost",
        "the connection that holds the lead is back",
    ),
    Part.STATEMENTS: Wording(
        "some statements failed, although the database takes writes",
        "some statements still fail, although the database takes writes",
        "statements succeed again",
    ),
    Part.DATABASE: Wording(
        "the database is unavailable",
        "the database is still unavailable",
        "the database is available again",
    ),
}


@dataclass(slots=True)
class Outage:
    """A time in which a part failed, by the monotonic clock."""

    part: Part
    reason: str
    began_at: float
    last_failure_at: float
    last_sign_at: float  # of a failure of this part, or of a statement
    next_line_at: float
    is_logged: bool = False
    refused: int = 0


class DatabaseWatch:
    """Knows which parts fail, and logs the outages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[Part, str] = {}
        self._outage: Outage | None = None
        self._began = asyncio.Event()

    def __repr__(self) -> str:
        return f"<DatabaseWatch: {self._outage or 'no outage'}>"

    def report(self, part: Part, reason: str) -> None:
        """Note that the part fails; call this at each attempt. A blank reason means that it works again."""
        if reason:
            self._failing[part] = reason
            self.note_failure(part, reason)
        else:
            self._failing.pop(part, None)

    def note_failure(self, part: Part, reason: str, refused: int = 0) -> None:
        """Note that something failed once, and how many requests were refused because of it."""
        now = self._clock.monotonic()
        if self._outage is None or (self._outage.is_logged and self._outage.part < part):
            self._outage = Outage(part, reason, now, now, now, next_line_at=now + SETTLE_SECONDS)
            self._began.set()
        outage = self._outage
        outage.part = max(outage.part, part)
        if part == outage.part:
            outage.reason, outage.last_failure_at = reason, now
        if part in (outage.part, Part.STATEMENTS):
            outage.last_sign_at = now
        outage.refused += refused

    async def run_once(self) -> None:
        """Wait until there is an outage, and log the line that is due."""
        if self._outage is None:
            self._began.clear()
            await self._began.wait()
        if self._outage is not None:
            self._log_due(self._outage, self._clock.monotonic())

    def _log_due(self, outage: Outage, now: float) -> None:
        is_over = outage.part not in self._failing and now >= outage.last_sign_at + QUIET_SECONDS
        if is_over and outage.is_logged:
            self._log_end(outage)
        elif now >= outage.next_line_at:
            self._log_outage(outage, now)

    def _log_outage(self, outage: Outage, now: float) -> None:
        wording, seconds = WORDING[outage.part], now - outage.began_at
        reason = self._failing.get(outage.part, outage.reason)
        if outage.is_logged:
            log.warning(wording.still_lost, seconds=round(seconds), reason=reason, refused=outage.refused)
        else:
            log.warning(wording.lost, reason=reason)
        outage.is_logged = True
        outage.next_line_at = now + REPEAT_SECONDS - seconds % REPEAT_SECONDS

    def _log_end(self, outage: Outage) -> None:
        seconds = round(outage.last_failure_at - outage.began_at, 1)
        log.info(WORDING[outage.part].back, seconds=seconds, refused=outage.refused)
        self._outage = None
        for part, reason in sorted(self._failing.items()):
            self.note_failure(part, reason)
