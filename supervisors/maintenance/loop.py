"""The loop around every maintenance service."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from storage.errors import StorageError
from supervisors.clock import Clock
from supervisors.failure_log import log_failure

log = structlog.get_logger()


async def repeat(
    name: str, run_once: Callable[[], Awaitable[object]], every_seconds: float, clock: Clock
) -> NoReturn:
    """Call `run_once` for ever, with a pause after each call. An error is logged, and the loop goes on.

    An error that repeats is logged once.
    """
    last_error = ""
    while True:
        try:
            await run_once()
            last_error = ""
        except Exception as error:  # the outermost edge of the service
            if repr(error) != last_error:
                _log_error(name, error)
            last_error = repr(error)
        await clock.sleep(every_seconds)


def _log_error(name: str, error: Exception) -> None:
    if isinstance(error, StorageError):
        log_failure(log, "maintenance service failed", error, service=name)
    else:
        log.error("maintenance service crashed", service=name, exc_info=error)
