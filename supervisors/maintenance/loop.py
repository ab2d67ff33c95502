"""The loop around every maintenance service."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from storage.errors import StorageError
from supervisors.clock import Clock
from supervisors.errors import log_failure

log = structlog.get_logger()

COUNTING_PAUSE = 200  # times as long as a count takes: counting all agents takes a 200th of a core at most
MAX_COUNTING_PAUSE_SECONDS = 60.0


async def repeat(
    name: str,
    run_once: Callable[[], Awaitable[object]],
    every_seconds: float,
    clock: Clock,
    *,
    counts: bool = False,
) -> NoReturn:
    """Call `run_once` for ever, with a pause after each call. An error is logged, and the loop goes on.

    An error that repeats is logged once. If it `counts` many rows, the pause is longer the longer both of
    the last two calls took: one of them may have waited for a busy machine.
    """
    last_error = ""
    last_took = 0.0
    while True:
        began = clock.monotonic()
        try:
            await run_once()
            last_error = ""
        except Exception as error:  # the outermost edge of the service
            if repr(error) != last_error:
                _log_error(name, error)
            last_error = repr(error)
        took = clock.monotonic() - began
        long_pause = min(min(took, last_took) * COUNTING_PAUSE, MAX_COUNTING_PAUSE_SECONDS)
        last_took = took
        await clock.sleep(max(every_seconds, long_pause) if counts else every_seconds)


def _log_error(name: str, error: Exception) -> None:
    if isinstance(error, StorageError):
        log_failure(log, "maintenance service failed", error, service=name)
    else:
        log.error("maintenance service crashed", service=name, exc_info=error)
