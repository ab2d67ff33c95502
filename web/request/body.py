"""The bytes of a request body, decompressed.

The framework's own decompression would also work on bodies that nobody reads.
"""

import asyncio
import zlib
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import NamedTuple

from aiohttp import HttpVersion11, hdrs, web

from supervisors.client_values import OFF_LOOP_BYTES
from web.app_keys import SETTINGS
from web.errors import BadRequest, TooLarge, UnsupportedMediaType
from web.fields import printable
from web.request.chunks import OF_ANYBODY, OF_CALLERS, SmallChunks, read_pieces
from web.request_room import PLACE, body_units

PLAIN = ("", "identity")
COMPRESSED = ("gzip", "x-gzip", "deflate")
CONTINUE = "100-continue"
TOO_LARGE = "The request body is too large."
WINDOW = zlib.MAX_WBITS + 32  # detects gzip or zlib by the first bytes


class BodyLimit(NamedTuple):
    """How many bytes a body may have in all, and how many of them its texts; the rest is for files."""

    bytes: int
    text_bytes: int


BODY_LIMIT = web.RequestKey("body_limit", BodyLimit)


def expected_bytes(request: web.Request) -> int:
    """Return how many bytes a body can have once it is decompressed."""
    length, most = request.content_length, request[BODY_LIMIT].bytes
    if length is None:
        return most if request.body_exists else 0
    is_plain = request.headers.get("Content-Encoding", "").strip().lower() in PLAIN
    return min(length, most) if is_plain or not length else most


def is_multipart(request: web.Request) -> bool:
    """Return whether the body is a form that may contain files."""
    return media_type(request.headers.get(hdrs.CONTENT_TYPE, "")) == "multipart/form-data"


def media_type(content_type: str) -> str:
    """Return a content type without its parameters; aiohttp parses these, in up to half a second."""
    return content_type.partition(";")[0].strip().lower()


def room_for_files(request: web.Request) -> AbstractContextManager[None]:
    """Hold memory for the files of a long form while the block runs, beside that for its body.

    Raise Unavailable if there is not enough.
    """
    expected = expected_bytes(request) if is_multipart(request) else 0
    return request[PLACE].more(body_units(expected)) if expected > OFF_LOOP_BYTES else nullcontext()


async def read_raw(request: web.Request) -> bytes:
    """Return the decompressed bytes of a body; their limit is that of a plain body.

    Raise BadRequest for a body that is late or broken, UnsupportedMediaType for another encoding, Unavailable
    if the room has been filled while the body arrived.
    """
    content, most = request.content, request[BODY_LIMIT].bytes
    try:
        is_chunked = hdrs.TRANSFER_ENCODING in request.headers
        if content.is_eof() and not is_chunked:  # most bodies arrive in one piece with their headers
            raw = content.read_nowait()
        else:
            if (request.content_length or 0) > most:
                raise TooLarge(TOO_LARGE)
            with request[PLACE].waiting_for_client() if PLACE in request else nullcontext():
                raw = await _arrived(request, most)
    except TimeoutError as error:
        seconds = request.app[SETTINGS].body_seconds
        raise BadRequest(f"The request body did not arrive within {seconds:g} seconds.") from error
    except SmallChunks as error:
        raise BadRequest(f"The request body {error}.") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest("The request body could not be read.") from error
    if len(raw) > most:
        raise TooLarge(TOO_LARGE)
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if not raw or encoding in PLAIN:
        return raw
    if encoding not in COMPRESSED:
        raise UnsupportedMediaType(f'Unsupported content encoding "{printable(encoding)}" in request.')
    return await asyncio.to_thread(_decompress, raw, encoding, most)


async def _arrived(request: web.Request, most: int) -> bytes:
    """Return the body once all of it has arrived, or as much as is too long.

    Raise SmallChunks; TimeoutError if that takes too long: the framework would wait for ever after a
    malformed chunk.
    """
    body = bytearray()
    pieces = read_pieces(request.content, OF_CALLERS if PLACE in request else OF_ANYBODY)
    async with asyncio.timeout(request.app[SETTINGS].body_seconds), aclosing(pieces):
        await _permit(request)
        async for piece in pieces:
            body += piece
            if len(body) > most:
                break
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


def _decompress(raw: bytes, encoding: str, most: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=WINDOW)
    try:
        body = decompressor.decompress(raw, most + 1)
    except zlib.error as error:
        raise BadRequest(f"The request body is not {encoding}.") from error
    if len(body) > most:
        raise TooLarge(TOO_LARGE)
    if not decompressor.eof or decompressor.unused_data:
        raise BadRequest(f"The request body is cut short, or goes on after its {encoding}.")
    return body
