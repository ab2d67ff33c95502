"""Connections that take no more from the other side than a whole answer can need.

What aiohttp limits are the headers and, by who reads it, the body. Not what comes before, between and after:
any number of provisional answers, of chunks of a byte, of a chunk's extensions. All of it is parsed on the
event loop, as fast as it comes, so that one address could stop the whole process.
"""

from functools import partial
from typing import Any

from aiohttp import StreamReader, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import EMPTY_PAYLOAD

from supervisors.outbound import NoAnswer

MAX_BYTES = 1 << 20  # of an answer's body
MAX_HEAD_BYTES = 65_536  # with the provisional answers before it
MAX_TOTAL_BYTES = MAX_BYTES + (1 << 18)  # head, body, and what is said of its chunks
PIECE = 16_384  # what is parsed before the next look at how much it was

TOO_LONG = f"The answer is longer than {MAX_BYTES:,} bytes; the rest was not read."
HEAD_TOO_LONG = f"What came before the answer's body is longer than {MAX_HEAD_BYTES:,} bytes."


class BoundedConnector(TCPConnector):
    """For one call by each connection. Calls raise NoAnswer where too much comes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, force_close=True)
        protocol: type[ResponseHandler] = _BoundedProtocol
        self._factory = partial(protocol, loop=self._loop)


class _BoundedProtocol(ResponseHandler):
    _received = 0

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]
            self._received += len(piece)
            body = self._body()
            if self._received > (MAX_HEAD_BYTES if body is None else MAX_TOTAL_BYTES):
                return self._give_up(body)
            super().data_received(piece)
        return None

    def _body(self) -> StreamReader | None:
        """None before there is one: a provisional answer has an empty one."""
        return None if self._payload is EMPTY_PAYLOAD else self._payload

    def _give_up(self, body: StreamReader | None) -> None:
        if body is None:
            self.set_exception(NoAnswer(HEAD_TOO_LONG))
        else:
            self._payload = None  # so that the loss of the connection is not what is told of it
            body.set_exception(NoAnswer(TOO_LONG))
        if self.transport is not None:
            self.transport.abort()
