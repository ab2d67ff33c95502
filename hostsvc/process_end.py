"""The end of this process: requested by signals, or forced because it must not take long."""

import asyncio
import os
import signal
from dataclasses import dataclass, field
from threading import Timer

import structlog

log = structlog.get_logger()

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)

EXIT_CODE = 2  # that of every service which may not serve


@dataclass(slots=True)
class EndRequest:
    """The first signal requests the end; a second one, that it does not wait for runs any longer."""

    requested: asyncio.Event = field(default_factory=asyncio.Event)
    hurried: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, number: signal.Signals) -> None:
        """Note a signal. Those after the second one change nothing."""
        log.info("end requested", signal=number.name, again=self.requested.is_set())
        if self.requested.is_set():
            self.hurried.set()
        self.requested.set()


def end_on_signals() -> EndRequest:
    """Return a request that SIGTERM and SIGINT make from now on."""
    request = EndRequest()
    for number in END_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, request.receive, number)
    return request


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
