"""The load generator, a separate process: sends requests in turn, each when the one before is answered.

    python -m tests.benchmarks.load HOST:PORT,… CONNECTIONS SECONDS < requests

stdin holds whole requests as a JSON list of texts. The addresses share the connections. Prints how many were
answered, how long that took, and for how much of the time this process was busy: near 1 it would have
measured itself.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle

import uvloop

from tests.benchmarks.connection import Connection, parse_addresses


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one round."""

    operations: int
    seconds: float
    busy: float


class Sender(Connection):
    """Sends one request after the other until the time is over."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        super().__init__()
        self._requests = requests
        self._until = 0.0
        self.over = asyncio.get_running_loop().create_future()
        self.count = 0

    def start(self, until: float) -> None:
        self._until = until
        self.transport.write(next(self._requests))

    def answered(self, status: int, body: bytes) -> None:
        if status >= 300:
            self.failed(f"an answer that is no success: {status} {body[:500]!r}")
            return
        self.count += 1
        if time.perf_counter() < self._until:
            self.transport.write(next(self._requests))
        elif not self.over.done():
            self.over.set_result(None)
            self.transport.close()

    def failed(self, message: str) -> None:
        if not self.over.done():
            self.over.set_exception(ConnectionError(message))


async def measure(
    addresses: Sequence[tuple[str, int]], connections: int, seconds: float, requests: Iterator[bytes]
) -> Measured:
    """Send requests over this many connections at once, and wait for the last answers."""
    loop, senders = asyncio.get_running_loop(), []
    for number in range(connections):
        address = addresses[number % len(addresses)]
        _, sender = await loop.create_connection(lambda: Sender(requests), *address)
        senders.append(sender)
    busy_before, began = time.process_time(), time.perf_counter()
    for sender in senders:
        sender.start(began + seconds)
    await asyncio.gather(*(sender.over for sender in senders))
    took = time.perf_counter() - began
    return Measured(sum(sender.count for sender in senders), took, (time.process_time() - busy_before) / took)


def main() -> None:
    addresses, connections, seconds = sys.argv[1:]
    requests = cycle([text.encode() for text in json.load(sys.stdin)])
    measured = uvloop.run(measure(parse_addresses(addresses), int(connections), float(seconds), requests))
    print(json.dumps(asdict(measured)))  # noqa: T201


if __name__ == "__main__":
    main()
