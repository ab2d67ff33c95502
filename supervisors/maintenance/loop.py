"""The loop around every duty."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from storage.errors import StorageError
from supervisors.clock import Clock

log = structlog.get_logger()


async def repeat(
    name: str, run_once: Callable[[], Awaitable[object]], every_seconds: float, clock: Clock
) -> NoReturn:
    """Do it for ever, with a pause in between. What goes wrong is logged, and tried again next time."""
    while True:
        try:
            await run_once()
        except StorageError as error:
            log.warning("a duty could not be done", duty=name, error=str(error))
        except Exception:  # the outermost edge of a duty
            log.exception("a duty failed", duty=name)
        await clock.sleep(every_seconds)
