"""The load generator, a separate process: sends one request over and over on persistent connections.

    python -m tests.benchmarks.load HOST PORT CONNECTIONS COUNT < requests

stdin holds whole requests as a JSON list of texts, sent in turn. Prints how long the lot took, and for how
much of that this process was busy: near 1 it would have measured itself.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice

import uvloop

from tests.benchmarks.connection import Connection


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one round."""

    seconds: float
    busy: float


class Sender(Connection):
    """Sends one request after the other until none is left."""

    def __init__(self, requests: Iterator[bytes], over: "asyncio.Future[None]") -> None:
        super().__init__()
        self._requests = requests
        self.over = over

    def send_next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self.transport.close()
            if not self.over.done():
                self.over.set_result(None)
        else:
            self.transport.write(request)

    def answered(self, body: bytes) -> None:
        self.send_next()

    def failed(self, message: str) -> None:
        if not self.over.done():
            self.over.set_exception(ConnectionError(message))


def _itself(sender: Sender) -> Sender:
    return sender


async def measure(host: str, port: int, connections: int, requests: Iterator[bytes]) -> Measured:
    """Send all requests over this many connections at once."""
    loop = asyncio.get_running_loop()
    senders = [Sender(requests, loop.create_future()) for _ in range(connections)]
    for sender in senders:
        await loop.create_connection(partial(_itself, sender), host, port)
    began, busy_before = time.perf_counter(), time.process_time()
    for sender in senders:
        sender.send_next()
    await asyncio.gather(*(sender.over for sender in senders))
    took = time.perf_counter() - began
    return Measured(seconds=took, busy=(time.process_time() - busy_before) / took)


def main() -> None:
    host, port, connections, count = sys.argv[1:]
    texts = [text.encode() for text in json.load(sys.stdin)]
    requests = islice(cycle(texts), int(count))
    print(json.dumps(asdict(uvloop.run(measure(host, int(port), int(connections), requests)))))  # noqa: T201


if __name__ == "__main__":
    main()
