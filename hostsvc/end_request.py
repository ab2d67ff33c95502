"""The request to end the service, which an operator makes by SIGTERM or Ctrl-C."""

import asyncio
import signal
from dataclasses import dataclass, field

import structlog

log = structlog.get_logger()

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)


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
