"""HTTP sessions for tools, webhooks and models, whose answers are bounded in every respect.

aiohttp limits the headers, but not the informational (1xx) responses before an answer, nor the number and the
extensions of its chunks. The event loop parses all of them as fast as they come, so that one server could
block the whole process.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from typing import Any

from aiohttp import (
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    StreamReader,
    TCPConnector,
    TraceConfig,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_parser import RawResponseMessage

from web.request.chunks import BUFFER_BYTES, ChunkLimit, SmallChunks, read_pieces

MAX_HEAD_BYTES = 65_536  # with the informational responses before it
PIECE_BYTES = 16_384  # parsed before the total is checked again


class AnswerTooLarge(Exception):
    """An answer exceeds a limit, and the rest was not read; the message completes a sentence about it."""


def bounded_session(
    max_bytes: int, trace_configs: Iterable[TraceConfig] = (), **connector: Any
) -> ClientSession:
    """Return a session for answers of at most `max_bytes`. Its calls raise AnswerTooLarge."""
    return ClientSession(
        connector=_BoundedConnector(max_bytes, limit=0, **connector),
        cookie_jar=DummyCookieJar(),
        # Not decompressed: a few bytes could expand to very many.
        headers={"User-Agent": "hostsvc", "Accept-Encoding": "identity"},
        auto_decompress=False,
        timeout=ClientTimeout(total=None),
        read_bufsize=BUFFER_BYTES,
        trace_configs=list(trace_configs),
    )


async def read_answer(
    response: ClientResponse, max_bytes: int, limit: ChunkLimit
) -> AsyncGenerator[bytes, None]:
    """Yield the body of an answer piece by piece. Raise AnswerTooLarge."""
    received = 0
    try:
        async for piece in read_pieces(response.content, limit):
            received += len(piece)
            if received > max_bytes:
                raise AnswerTooLarge(_longer_than(max_bytes))
            yield piece
    except SmallChunks as error:
        raise AnswerTooLarge(str(error)) from error


class _BoundedConnector(TCPConnector):
    def __init__(self, max_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        protocol: Callable[..., ResponseHandler] = _BoundedProtocol
        # aiohttp has no other way to choose the protocol of its connections.
        self._factory = partial(protocol, max_bytes, asyncio.get_running_loop())


class _BoundedProtocol(ResponseHandler):
    """A connection that receives at most twice `max_bytes` for an answer, with the headers of its chunks."""

    def __init__(self, max_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._max_bytes = max_bytes
        self._received = 0
        self._body: StreamReader | None = None  # of an answer whose head has come

    def set_response_params(self, **options: Any) -> None:
        """Begin to wait for the answer to the next request."""
        self._received, self._body = 0, None
        super().set_response_params(**options)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the head of an answer, or an informational response."""
        message, body = data
        if message.code >= 200:
            self._body = body
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES) if data else (0,):
            piece = data[start : start + PIECE_BYTES]
            self._received += len(piece)
            if self._received > (MAX_HEAD_BYTES if self._body is None else 2 * self._max_bytes):
                self._refuse()
                break
            super().data_received(piece)

    def _refuse(self) -> None:
        self.abort()
        if self._body is None:
            self.set_exception(AnswerTooLarge(f"has a head of more than {MAX_HEAD_BYTES:,} bytes"))
        else:
            self._body.set_exception(AnswerTooLarge(_longer_than(self._max_bytes)))


def _longer_than(max_bytes: int) -> str:
    return f"is longer than {max_bytes:,} bytes"
