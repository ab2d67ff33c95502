"""The bytes of a request body, decompressed.

The framework's own decompression would also work on bodies that nobody reads.
"""

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from aiohttp import HttpVersion11, hdrs, web

from supervisors.client_values import OFF_LOOP_BYTES
from web.app_keys import SETTINGS
from web.errors import BadRequest, TooLarge, UnsupportedMediaType
from web.fields import printable
from web.request_room import PLACE, body_units

PLAIN = ("", "identity")
COMPRESSED = ("gzip", "x-gzip", "deflate")
CONTINUE = "100-continue"
TOO_LARGE = "The request body is too large."
WINDOW = zlib.MAX_WBITS + 32  # detects gzip or zlib by the first bytes


MAX_BYTES = web.RequestKey("max_bytes", int)  # of the body, if the route has a limit of its own
FILE_BYTES = web.RequestKey("file_bytes", int)  # of the files in the body; the rest is for texts


def max_bytes(request: web.Request) -> int:
    """Return the maximum size of the body."""
    most: int = request.get(MAX_BYTES, request.app[SETTINGS].limits.body_bytes)
    return most + int(request.get(FILE_BYTES, 0))


def expected_bytes(request: web.Request) -> int:
    """Return how many bytes a body can have once it is decompressed."""
    length, most = request.content_length, max_bytes(request)
    if length is None:
        return most if request.body_exists else 0
    is_plain = request.headers.get("Content-Encoding", "").strip().lower() in PLAIN
    return min(length, most) if is_plain or not length else most


def is_multipart(request: web.Request) -> bool:
    """Return whether the body is a form that may contain files."""
    return request.content_type == "multipart/form-data"


@contextmanager
def room_for_files(request: web.Request) -> Iterator[None]:
    """Hold memory for the files of a long form while the block runs, beside that for its body.

    Raise Unavailable if there is not enough.
    """
    expected = expected_bytes(request) if is_multipart(request) else 0
    if expected <= OFF_LOOP_BYTES:
        yield
        return
    with request[PLACE].more(body_units(expected)):
        yield


async def read_raw(request: web.Request) -> bytes:
    """Return the decompressed bytes of a body; their limit is that of a plain body.

    Raise BadRequest for a body that is late or broken, UnsupportedMediaType for another encoding, Unavailable
    if the room has been filled while the body arrived.
    """
    raw = await _receive(request)
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if not raw or encoding in PLAIN:
        return raw
    if encoding not in COMPRESSED:
        raise UnsupportedMediaType(f'Unsupported content encoding "{printable(encoding)}" in request.')
    return await asyncio.to_thread(_decompress, raw, encoding, max_bytes(request))


async def _receive(request: web.Request) -> bytes:
    """Return the body as it was sent. The framework alone would wait for ever after a malformed chunk."""
    content, most = request.content, max_bytes(request)
    try:
        if (request.content_length or 0) > most:
            raise TooLarge(TOO_LARGE)
        if content.is_eof():  # most bodies arrive in one piece with their headers
            return _limited(content.read_nowait(), most)
        with request[PLACE].waiting_for_client() if PLACE in request else nullcontext():
            return await _arrived(request, most)
    except TimeoutError as error:
        seconds = request.app[SETTINGS].body_seconds
        raise BadRequest(f"The request body did not arrive within {seconds:g} seconds.") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest("The request body could not be read.") from error


async def _arrived(request: web.Request, most: int) -> bytes:
    """Return the body once all of it has arrived. Raise TimeoutError if that takes too long."""
    body = bytearray()
    async with asyncio.timeout(request.app[SETTINGS].body_seconds):
        await _permit(request)
        while piece := await request.content.readany():
            body += _limited(piece, most - len(body))
    return bytes(body)


async def check_expectation(request: web.Request) -> None:
    """Refuse an unknown expectation. A client that waits for permission gets it when its body is read.

    So a request that is refused before that costs no transfer.
    """
    if request.headers[hdrs.EXPECT].lower() != CONTINUE:
        raise web.HTTPExpectationFailed


async def _permit(request: web.Request) -> None:
    """Let a client that waits for permission send its body."""
    if hdrs.EXPECT in request.headers and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun


def _limited(piece: bytes, most: int) -> bytes:
    if len(piece) > most:
        raise TooLarge(TOO_LARGE)
    return piece


def _decompress(raw: bytes, encoding: str, most: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=WINDOW)
    try:
        body = decompressor.decompress(raw, most + 1)
    except zlib.error as error:
        raise BadRequest(f"The request body is not {encoding}.") from error
    _limited(body, most)
    if not decompressor.eof or decompressor.unused_data:
        raise BadRequest(f"The request body is cut short, or goes on after its {encoding}.")
    return body
