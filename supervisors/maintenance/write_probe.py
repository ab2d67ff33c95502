"""The write probe: whether the database takes writes, and one report for each outage.

Most failed statements say little: a connection was lost, or one request took too long. So a failure only
makes the probe write at once, and the result decides. Only a full disk is believed without a probe, because
some writes still find room on one. While everything works, the probe writes seldom, and whenever somebody
asks for the state of the service.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from socket import socket
from typing import Protocol

import structlog

from storage.errors import DatabaseFull, RowLocked, StorageError
from supervisors.clock import Clock, wait_for_event

PROBE_SECONDS = 1.5  # a write that takes longer has failed
FRESH_SECONDS = 0.5  # a result is as good as a new one for this long
IDLE_SECONDS = 10.0  # between two probes that nobody has asked for
QUIET_SECONDS = 5.0  # without any failure, until an outage counts as over

log = structlog.get_logger()


class WriteStore(Protocol):
    async def probe_write(self) -> None: ...


@dataclass(slots=True)
class Outage:
    """A time in which requests were refused because of the database, by the monotonic clock."""

    began_at: float
    last_failure_at: float
    refused: int = 0


class WriteProbe:
    """Knows since when writes fail, and why. It logs the beginning and the end of an outage."""

    def __init__(self, store: WriteStore, clock: Clock) -> None:
        self.failing_since: datetime | None = None
        self.reason = ""
        self._store = store
        self._clock = clock
        self._turn = asyncio.Lock()
        self._probed_at = float("-inf")  # the beginning of the latest probe
        self._full_until = float("-inf")
        self._suspected = asyncio.Event()
        self._outage: Outage | None = None
        self._locked = 0  # requests refused because of locked rows, not logged yet

    def __repr__(self) -> str:
        state = f"failing since {self.failing_since}: {self.reason}" if self.failing_since else "writing"
        return f"<WriteProbe: {state}>"

    def suspect(self, error: StorageError) -> None:
        """Have the next probe made at once, because a statement has failed."""
        self._note_failure(str(error))
        if isinstance(error, DatabaseFull):
            self._full_until = self._clock.monotonic() + 2 * FRESH_SECONDS
            self._fail(str(error))
        self._suspected.set()

    def count_refusal(self, error: StorageError) -> None:
        """Count a request that was refused with this error, for the report."""
        if isinstance(error, RowLocked):
            self._locked += 1
        else:
            self._note_failure(str(error)).refused += 1
            self._suspected.set()

    async def run_once(self) -> None:
        """Probe: at once during an outage or if a statement has failed, else after a while."""
        if self.failing_since is None:
            await wait_for_event(
                self._suspected, QUIET_SECONDS if self._outage else IDLE_SECONDS, self._clock
            )
        self._suspected.clear()
        async with self._turn:
            await self._probe()
        self._report()

    async def check(self) -> None:
        """Probe, unless the latest result is fresh; callers share one probe."""
        async with self._turn:
            if self._clock.monotonic() - self._probed_at > FRESH_SECONDS:
                await self._probe()

    async def _probe(self) -> None:
        self._probed_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _require_descriptor()
                await self._store.probe_write()
        except TimeoutError:
            self._note_failure(
                self._fail(f"the database has not answered a write within {PROBE_SECONDS:g} s")
            )
        except (StorageError, OSError) as error:
            self._note_failure(self._fail(str(error)))
        else:
            if self._clock.monotonic() >= self._full_until:
                self.failing_since, self.reason = None, ""

    def _fail(self, reason: str) -> str:
        if self.failing_since is None:
            self.failing_since = self._clock.now()
        self.reason = reason
        return reason

    def _note_failure(self, reason: str) -> Outage:
        now = self._clock.monotonic()
        if self._outage is None:
            self._outage = Outage(now, now)
            log.warning("the database fails; its requests are refused until it is back", reason=reason)
        self._outage.last_failure_at = now
        return self._outage

    def _report(self) -> None:
        """Log the end of an outage after a quiet time, and the refusals that were no outage."""
        outage = self._outage
        if outage is not None and self._clock.monotonic() - outage.last_failure_at >= QUIET_SECONDS:
            seconds = round(outage.last_failure_at - outage.began_at, 1)
            log.info("the database is back", seconds=seconds, refused=outage.refused)
            self._outage = None
        if self._locked:
            log.warning("requests refused: other changes held their rows for too long", count=self._locked)
            self._locked = 0


def _require_descriptor() -> None:
    """Raise OSError if this process has no descriptor left."""
    try:
        socket().close()
    except OSError as error:
        raise OSError(f"no connection can be accepted, and no file opened: {error.strerror}") from error
