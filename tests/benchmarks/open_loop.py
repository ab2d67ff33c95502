"""An open loop, a separate process: sends each request at its time, even if earlier ones are unanswered.

    python -m tests.benchmarks.open_loop HOST:PORT,… REQUESTS_A_SECOND SECONDS OUTPUT < requests

stdin holds whole requests as a JSON list of texts, sent in turn, to the addresses in turn. OUTPUT becomes a
JSON list with an `Answer` for each, in order.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import uvloop

from tests.benchmarks.connection import Connection, parse_addresses

MAX_CONNECTIONS = 2000  # beyond them a request waits here, which counts as waiting for its answer


class Answer(NamedTuple):
    """The answer to a request: the id in it, when it was there, and how long after the request's time."""

    status: int
    id: str
    epoch_seconds: float
    took_seconds: float


class Exchange(Connection):
    """A connection that is used for one request at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: asyncio.Future[tuple[int, bytes]]

    def send(self, request: bytes) -> "asyncio.Future[tuple[int, bytes]]":
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._waiting

    def answered(self, status: int, body: bytes) -> None:
        self._waiting.set_result((status, body))

    def failed(self, message: str) -> None:
        if not self._waiting.done():
            self._waiting.set_exception(ConnectionError(message))


async def send_all(
    addresses: Sequence[tuple[str, int]], a_second: float, seconds: float, requests: Sequence[bytes]
) -> list[Answer]:
    """Send requests for this many seconds, over as many connections as that takes."""
    loop, room = asyncio.get_running_loop(), asyncio.Semaphore(MAX_CONNECTIONS)
    idle = [deque[Exchange]() for _ in addresses]

    async def send(request: bytes, place: int, at: float) -> Answer:
        async with room:
            connection = idle[place].popleft() if idle[place] else None
            if connection is None:
                _, connection = await loop.create_connection(Exchange, *addresses[place])
            status, body = await connection.send(request)
            idle[place].append(connection)
        return Answer(status, _id(body), time.time(), time.perf_counter() - at)

    sent, began = [], time.perf_counter()
    for number in range(int(a_second * seconds)):
        at = began + number / a_second
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        request, place = requests[number % len(requests)], number % len(addresses)
        sent.append(asyncio.create_task(send(request, place, at)))
    return await asyncio.gather(*sent)


def _id(body: bytes) -> str:
    """Return the id in an answer, or an empty text if there is none."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(body)["id"])
    return ""


def main() -> None:
    addresses, a_second, seconds, output = sys.argv[1:]
    requests = [text.encode() for text in json.load(sys.stdin)]
    answers = uvloop.run(send_all(parse_addresses(addresses), float(a_second), float(seconds), requests))
    with Path(output).open("w") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    main()
