"""An open loop, a separate process: sends each request at its time, even if earlier ones are unanswered.

    python -m tests.benchmarks.open_loop HOST PORT REQUESTS_A_SECOND OUTPUT < requests

stdin holds whole requests as a JSON list of texts. Writes a JSON list of what came of each, in order: the
id in the answer, the second of the epoch at which it was there, and how many seconds after the request's time
that was.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import uvloop

from tests.benchmarks.connection import Connection

Answered = tuple[str, float, float]


class Exchange(Connection):
    """A connection that is used for one request at a time."""

    def __init__(self, idle: "deque[Exchange]") -> None:
        super().__init__()
        self._idle = idle
        self._waiting: asyncio.Future[bytes]

    def send(self, request: bytes) -> "asyncio.Future[bytes]":
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._waiting

    def answered(self, body: bytes) -> None:
        self._idle.append(self)
        self._waiting.set_result(body)

    def failed(self, message: str) -> None:
        if not self._waiting.done():
            self._waiting.set_exception(ConnectionError(message))


async def send_all(host: str, port: int, a_second: float, requests: Sequence[bytes]) -> list[Answered]:
    """Send all requests, over as many connections as that takes."""
    loop, idle = asyncio.get_running_loop(), deque[Exchange]()

    async def send(request: bytes, at: float) -> Answered:
        connection = idle.popleft() if idle else None
        if connection is None:
            _, connection = await loop.create_connection(lambda: Exchange(idle), host, port)
        body = await connection.send(request)
        answered_at = time.perf_counter()
        return json.loads(body)["id"], time.time(), answered_at - at

    sent, began = [], time.perf_counter()
    for number, request in enumerate(requests):
        at = began + number / a_second
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        sent.append(asyncio.create_task(send(request, at)))
    return await asyncio.gather(*sent)


def main() -> None:
    host, port, a_second, output = sys.argv[1:]
    requests = [text.encode() for text in json.load(sys.stdin)]
    answered = uvloop.run(send_all(host, int(port), float(a_second), requests))
    with Path(output).open("w") as file:
        json.dump(answered, file)


if __name__ == "__main__":
    main()
