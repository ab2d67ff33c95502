"""The database watch: whether the database takes writes, and the one report of its outages in the log.

Most failed statements say little: a connection was lost, or one request took too long. So a failure only
makes the probe write at once, and the result decides. Only a full disk is believed without a probe, because
some writes still find room on one. While everything works, the probe writes seldom, and whenever somebody
asks for the state of the service.

All others tell the watch when the database fails them, and log nothing. The watch logs one line when an
outage begins, one a minute while it lasts, and one when it is over. It waits a moment before the first
line: the trial write that the first failure causes has ended by then, and says more than a connection that
broke.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from socket import socket
from typing import NamedTuple

import structlog

from storage.errors import DatabaseBusy, DatabaseFull, NodeEnded, RowLocked, StorageError
from storage.identity.instance import Instance
from supervisors.clock import Clock, wait_for_event

log = structlog.get_logger()

PROBE_SECONDS = 1.5  # a write that takes longer has failed
FRESH_SECONDS = 0.5  # a result is as good as a new one for this long
IDLE_SECONDS = 10.0  # between two probes that nobody has asked for
SETTLE_SECONDS = 2.0  # from the first failure to the first line; longer than a trial write may take
QUIET_SECONDS = 5.0  # without any failure, until an outage counts as over
REPEAT_SECONDS = 60.0  # between two lines while an outage lasts


class Part(IntEnum):
    """A use of the database; the failure of a later one implies or outweighs those of the earlier ones."""

    DOORBELL = 1
    BEAT = 2
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
    Part.BEAT: Wording(
        "the connection of the beat is lost; no run starts until it is back",
        "the connection of the beat is still lost",
        "the connection of the beat is back",
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


class WriteProbe:
    """Knows since when writes fail, and why, and tells the database watch."""

    def __init__(self, store: Instance, clock: Clock, watch: DatabaseWatch) -> None:
        self.failing_since: datetime | None = None
        self.reason = ""
        self._store = store
        self._clock = clock
        self._watch = watch
        self._turn = asyncio.Lock()
        self._probed_at = float("-inf")  # the end of the latest probe
        self._full_until = float("-inf")
        self._suspected = asyncio.Event()
        self._locked = 0  # requests refused because of locked rows, not logged yet

    def __repr__(self) -> str:
        state = f"failing since {self.failing_since}: {self.reason}" if self.failing_since else "writing"
        return f"<WriteProbe: {state}>"

    def suspect(self, error: StorageError) -> None:
        """Have the next probe made at once, because a statement has failed."""
        self._watch.note_failure(Part.STATEMENTS, str(error))
        if isinstance(error, DatabaseFull):
            self._full_until = self._clock.monotonic() + 2 * FRESH_SECONDS
            self._fail(str(error))
        self.probe_soon()

    def count_refusal(self, error: StorageError) -> None:
        """Count a request that was refused with this error, for the report."""
        if isinstance(error, RowLocked):
            self._locked += 1
        elif not isinstance(error, NodeEnded | DatabaseBusy):  # these are no outages
            self._watch.note_failure(Part.STATEMENTS, str(error), refused=1)
            self.probe_soon()

    def report_connection(self, part: Part, reason: str) -> None:
        """Tell the watch that a connection outside the pool is lost or, with a blank reason, back."""
        self._watch.report(part, reason)
        if reason:
            self.probe_soon()

    def probe_soon(self) -> None:
        """Have the next probe made at once."""
        self._suspected.set()

    async def run_once(self) -> None:
        """Probe: at once during an outage or if a statement has failed, else after a while."""
        if self.failing_since is None:
            await wait_for_event(self._suspected, IDLE_SECONDS, self._clock)
        self._suspected.clear()
        async with self._turn:
            await self._probe()
        if self._locked:
            log.warning("requests refused: other changes held their rows for too long", count=self._locked)
            self._locked = 0

    async def check(self) -> None:
        """Probe, unless the latest result is fresh; callers share one probe, also one in progress."""
        async with self._turn:
            if self._clock.monotonic() - self._probed_at > FRESH_SECONDS:
                await self._probe()

    async def _probe(self) -> None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _require_descriptor()
                await self._store.probe_write()
        except TimeoutError:
            self._fail(f"the server does not answer: a write has taken longer than {PROBE_SECONDS:g} s")
        except NodeEnded as error:
            self._note_failure(str(error))
        except (StorageError, OSError) as error:
            self._fail(str(error))
        else:
            if self._clock.monotonic() >= self._full_until:
                self.failing_since, self.reason = None, ""
                self._watch.report(Part.DATABASE, "")
        finally:
            self._probed_at = self._clock.monotonic()

    def _fail(self, reason: str) -> None:
        self._note_failure(reason)
        self._watch.report(Part.DATABASE, reason)

    def _note_failure(self, reason: str) -> None:
        if self.failing_since is None:
            self.failing_since = self._clock.now()
        self.reason = reason


def _require_descriptor() -> None:
    """Raise OSError if this process has no descriptor left."""
    try:
        socket().close()
    except OSError as error:
        raise OSError(f"no connection can be accepted, and no file opened: {error.strerror}") from error
