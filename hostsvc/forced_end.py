"""The end of a process that must not take long: another instance does its work already."""

import os
from threading import Timer

import structlog

EXIT_CODE = 2  # that of every service which may not serve

log = structlog.get_logger()


def force_end_after(seconds: float, reason: str) -> Timer:
    """End this process after this many seconds, even if it is still closing. Cancel the timer to keep it.

    Nothing is stored and no connection is closed in order: the operating system does that.
    """
    timer = Timer(seconds, _end, (seconds, reason))
    timer.daemon = True
    timer.start()
    return timer


def _end(seconds: float, reason: str) -> None:
    log.error("the process ends before all is closed", reason=reason, waited_seconds=seconds)
    os._exit(EXIT_CODE)
