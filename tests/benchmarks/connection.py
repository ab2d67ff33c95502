"""A connection for the load generators, which only reads where each answer ends."""

import asyncio
from collections.abc import Sequence
from typing import cast

CONNECTIONS = 64  # of a load generator, unless told otherwise

END_OF_HEAD = b"\r\n\r\n"
END_OF_CHUNKS = b"\r\n0\r\n\r\n"


def parse_addresses(text: str) -> Sequence[tuple[str, int]]:
    """Return the hosts and ports in "host:port,host:port,…"."""
    pairs = (address.rpartition(":") for address in text.split(","))
    return [(host, int(port)) for host, _, port in pairs]


class Connection(asyncio.Protocol):
    """Sends one request at a time and is called with the whole answer."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._body_at = 0  # 0: the head has not been received
        self._end_at: int | None = None  # None: at the last chunk

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._body_at:
            end = self._received.find(END_OF_HEAD)
            if end < 0:
                return
            self._body_at = end + len(END_OF_HEAD)
            length = _content_length(bytes(self._received[:end]).lower())
            self._end_at = None if length is None else self._body_at + length
        if self._is_complete():
            status, body = int(self._received[9:12]), bytes(self._received[self._body_at :])
            self._received.clear()
            self._body_at = 0
            self.answered(status, body)

    def connection_lost(self, _: Exception | None) -> None:
        self.failed("the server closed a connection")

    def answered(self, status: int, body: bytes) -> None:
        """Handle the answer. A body that came in chunks still contains their lengths."""
        raise NotImplementedError

    def failed(self, message: str) -> None:
        """Handle the loss of the connection."""
        raise NotImplementedError

    def _is_complete(self) -> bool:
        if self._end_at is None:
            return self._received.endswith(END_OF_CHUNKS)
        return len(self._received) >= self._end_at


def _content_length(head: bytes) -> int | None:
    """Return the length of the body, or None if it comes in chunks."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return None
