"""The lease of the processes of runs: they go on while no other node can have taken this one for dead.

Later others may have started its runs again. The guardian, a process beside this one,
kills them then, and also if this one is killed, frozen or stuck.
"""

import asyncio
import sys
from asyncio import StreamWriter
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import structlog

from hostsvc.process_harness.cache import HarnessCache
from hostsvc.process_harness.guardian import MOMENT
from supervisors.clock import Clock

RENEW_SECONDS = 0.5
GUARDIAN = Path(__file__).with_name("guardian.py")

log = structlog.get_logger()


class Lease:
    """Renews the lease; `open_lease` makes one. `trusted_until` is a moment of the monotonic clock."""

    def __init__(self, clock: Clock, trusted_until: Callable[[], float]) -> None:
        self._clock = clock
        self._trusted_until = trusted_until
        self._ends_at = float("inf")
        self._was_over_at = float("-inf")

    def was_over_since(self, moment: float) -> bool:
        """Return whether the lease was over at some time since this moment of the monotonic clock."""
        now = self._clock.monotonic()
        if now > self._ends_at:
            self._was_over_at = now
        return self._was_over_at >= moment

    async def keep(self, cache: HarnessCache) -> None:
        """Renew the lease for ever. Replace the guardian if it is killed."""
        while True:
            reason = "it has ended"
            try:
                await self._keep_with_guardian(cache)
            except Exception as error:  # the outermost edge of a task: the next guardian may work
                reason = repr(error)
            log.error("guardian of the processes of runs lost; starting another", reason=reason)
            await self._clock.sleep(RENEW_SECONDS)

    async def _keep_with_guardian(self, cache: HarnessCache) -> None:
        """Start a guardian, and renew the lease until it ends. If cancelled, end it: it kills what is left.

        It shares the lock of the cache. So if this service is killed, the next one waits until all is gone.
        """
        start = asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(GUARDIAN), f"{cache.homes}/"),
            stdin=PIPE,
            stdout=DEVNULL,
            pass_fds=(cache.lock,),
            start_new_session=True,  # so that no signal from a terminal reaches it
        )
        starting = asyncio.create_task(start, name="start of the guardian")
        try:
            guardian = await asyncio.shield(starting)  # asyncio kills a process whose start is cancelled
            pipe = cast(StreamWriter, guardian.stdin)
            while guardian.returncode is None:
                self.was_over_since(0.0)
                self._ends_at = self._trusted_until()
                pipe.write(MOMENT.pack(self._ends_at))
                await self._clock.sleep(RENEW_SECONDS)
        finally:
            guardian = await starting
            cast(StreamWriter, guardian.stdin).close()
            await guardian.wait()


@asynccontextmanager
async def open_lease(
    cache: HarnessCache, clock: Clock, trusted_until: Callable[[], float]
) -> AsyncIterator[Lease]:
    """Keep the lease of the processes of runs in this cache until the end of the block."""
    lease = Lease(clock, trusted_until)
    keeping = asyncio.create_task(lease.keep(cache), name="lease of the processes of runs")
    try:
        yield lease
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
