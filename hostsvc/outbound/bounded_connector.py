"""Connections that receive no more than the longest allowed response.

aiohttp limits the headers and lets the reader limit the body, but not informational (1xx) responses, chunks
of one byte or chunk extensions. The event loop parses all of them as fast as they come, so that one server
could block the whole process.
"""

from functools import partial
from typing import Any

from aiohttp import StreamReader, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import EMPTY_PAYLOAD

from supervisors.outbound import NoAnswer

MAX_BYTES = 1 << 20  # of a response body
MAX_HEAD_BYTES = 65_536  # with the informational responses before it
MAX_TOTAL_BYTES = MAX_BYTES + (1 << 18)  # head, body, and the headers of its chunks
PIECE_BYTES = 16_384  # parsed before the total is checked again

TOO_LONG = f"The answer is longer than {MAX_BYTES:,} bytes; the rest was not read."
HEAD_TOO_LONG = f"The head of the answer is longer than {MAX_HEAD_BYTES:,} bytes."


class BoundedConnector(TCPConnector):
    """A connector for one call per connection. Calls raise NoAnswer if too many bytes come."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, force_close=True)
        protocol: type[ResponseHandler] = _BoundedProtocol
        self._factory = partial(protocol, loop=self._loop)


class _BoundedProtocol(ResponseHandler):
    _received = 0

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            self._received += len(piece)
            body = self._body()
            if self._received > (MAX_HEAD_BYTES if body is None else MAX_TOTAL_BYTES):
                self._abort(body)
                break
            super().data_received(piece)

    def _body(self) -> StreamReader | None:
        """Return the body, or None before it begins: an informational response has an empty one."""
        return None if self._payload is EMPTY_PAYLOAD else self._payload

    def _abort(self, body: StreamReader | None) -> None:
        if body is None:
            self.set_exception(NoAnswer(HEAD_TOO_LONG))
        else:
            self._payload = None  # so that the lost connection is not reported instead
            body.set_exception(NoAnswer(TOO_LONG))
        if self.transport is not None:
            self.transport.abort()
