"""A connection for the load generators, which only reads where each answer ends."""

import asyncio
from typing import cast

CREATED = b"HTTP/1.1 201 "
LENGTH = b"content-length:"
END_OF_HEAD = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """Sends one request at a time and is called with the whole answer."""

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(END_OF_HEAD)
        if not separator or len(body) < _content_length(head):
            return
        if not head.startswith(CREATED):
            self.failed(f"an answer that is no success: {self._received!r}")
            return
        self._received = b""
        self.answered(body)

    def connection_lost(self, _: Exception | None) -> None:
        self.failed("the server closed a connection")

    def answered(self, body: bytes) -> None:
        """Handle the answer."""
        raise NotImplementedError

    def failed(self, message: str) -> None:
        """Handle the loss of the connection."""
        raise NotImplementedError


def _content_length(head: bytes) -> int:
    after = head.lower().partition(LENGTH)[2]
    return int(after.partition(b"\r\n")[0])
