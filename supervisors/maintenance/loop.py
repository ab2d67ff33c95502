"""The loop around every maintenance service."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from storage.errors import StorageError
from supervisors.clock import Clock

log = structlog.get_logger()


async def repeat(
    name: str, run_once: Callable[[], Awaitable[object]], every_seconds: float, clock: Clock
) -> NoReturn:
    """Call `run_once` for ever, with a pause after each call. An error is logged, and the loop goes on."""
    while True:
        try:
            await run_once()
        except StorageError as error:
            log.warning("maintenance service failed", service=name, error=str(error))
        except Exception:  # the outermost edge of the service
            log.exception("maintenance service crashed", service=name)
        await clock.sleep(every_seconds)
