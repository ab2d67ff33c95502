"""The write probe: whether the database takes writes.

Most failed statements say little: a connection was lost, or one request took too long. So a failure only
makes the probe write at once, and the result decides. Only a full disk is believed without a probe, because
some writes still find room on one. While everything works, the probe writes seldom, and whenever somebody
asks for the state of the service.
"""

import asyncio
from datetime import datetime
from socket import socket
from typing import Protocol

import structlog

from storage.errors import DatabaseBusy, DatabaseFull, LeadershipLost, RowLocked, StorageError
from supervisors.clock import Clock, wait_for_event
from supervisors.maintenance.database_watch import DatabaseWatch, Part

PROBE_SECONDS = 1.5  # a write that takes longer has failed
FRESH_SECONDS = 0.5  # a result is as good as a new one for this long
IDLE_SECONDS = 10.0  # between two probes that nobody has asked for

log = structlog.get_logger()


class WriteStore(Protocol):
    async def probe_write(self) -> None: ...


class WriteProbe:
    """Knows since when writes fail, and why, and tells the database watch."""

    def __init__(self, store: WriteStore, clock: Clock, watch: DatabaseWatch) -> None:
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
        elif not isinstance(error, LeadershipLost | DatabaseBusy):  # these are no outages
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
            await self._try_write()
        finally:
            self._probed_at = self._clock.monotonic()

    async def _try_write(self) -> None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _require_descriptor()
                await self._store.probe_write()
        except TimeoutError:
            self._fail(f"the server does not answer: a write has taken longer than {PROBE_SECONDS:g} s")
        except LeadershipLost as error:
            self._note_failure(str(error))
        except (StorageError, OSError) as error:
            self._fail(str(error))
        else:
            if self._clock.monotonic() >= self._full_until:
                self.failing_since, self.reason = None, ""
                self._watch.report(Part.DATABASE, "")

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
