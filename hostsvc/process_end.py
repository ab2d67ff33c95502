"""The end of this process: requested by signals, or forced because it must not take long."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Timer

import structlog

log = structlog.get_logger()

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
RELOAD_SIGNALS = () if os.isatty(0) else (signal.SIGHUP,)  # on a terminal it says that this closes
SIGNAL_BYTES = 2  # of what a parent passes on: the number of a signal, and 1 if it is not the first, or 0

EXIT_CODE = 2  # that of every service which may not serve


@dataclass(slots=True)
class EndRequest:
    """The first signal requests the end; a second one, that it does not wait for runs any longer."""

    requested: asyncio.Event = field(default_factory=asyncio.Event)
    hurried: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, number: signal.Signals) -> None:
        """Note a signal. Those after the second one change nothing."""
        self.note(number, again=self.requested.is_set())

    def note(self, number: signal.Signals, *, again: bool = False) -> None:
        """Note a signal; `again` says whether it is not the first."""
        log.info("end requested", signal=number.name, again=again)
        if again:
            self.hurried.set()
        self.requested.set()

    def follow(self, parent: socket.socket) -> None:
        """Note a signal that the parent of this worker passes on, or that the parent is no more."""
        message = b""
        with suppress(ConnectionError):
            message = parent.recv(SIGNAL_BYTES)
        if message:
            self.note(signal.Signals(message[0]), again=bool(message[1]))
            return
        log.warning("end requested", reason="the parent process has ended")
        self.requested.set()
        asyncio.get_running_loop().remove_reader(parent)


def end_on_signals(parent: socket.socket | None = None) -> EndRequest:
    """Return a request that SIGTERM and SIGINT make from now on.

    A terminal and systemd send each signal to a worker, too, to whom the `parent` passes it on. So only the
    parent can tell which one is the second.
    """
    request, loop = EndRequest(), asyncio.get_running_loop()
    receive = request.receive if parent is None else request.note
    for number in END_SIGNALS:
        loop.add_signal_handler(number, partial(receive, number))
    for number in RELOAD_SIGNALS:  # the configuration is read again anyway once the service is ready
        loop.add_signal_handler(number, lambda: None)
    if parent is not None:
        loop.add_reader(parent, request.follow, parent)
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
