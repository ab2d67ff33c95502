"""From the socket to the bytes of a body.

What was compressed is undone here and not by the framework, which would go on with what nobody reads.
"""

import asyncio
import zlib

from aiohttp import web

from web.app_keys import SETTINGS
from web.errors import BadRequest, UnsupportedMediaType
from web.fields import shown

PLAIN = ("", "identity")
COMPRESSED = ("gzip", "x-gzip", "deflate")
WINDOW = zlib.MAX_WBITS + 32  # gzip or zlib, as the first bytes say


async def read_raw(request: web.Request) -> bytes:
    """The bytes of a body as they were before they were compressed; as many as a plain body may have."""
    raw = await _received(request)
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if not raw or encoding in PLAIN:
        return raw
    if encoding not in COMPRESSED:
        raise UnsupportedMediaType(f'Unsupported content encoding "{shown(encoding)}" in request.')
    return await asyncio.to_thread(_decompressed, raw, encoding, request.client_max_size)


async def _received(request: web.Request) -> bytes:
    """The body as it came; after a chunk that is none the framework waits for ever, so this does not."""
    try:
        if request.content.is_eof():  # as most are, in one piece with their headers
            return _at_hand(request)
        async with asyncio.timeout(request.app[SETTINGS].body_seconds):
            return await request.read()
    except TimeoutError as error:
        seconds = request.app[SETTINGS].body_seconds
        raise BadRequest(f"The request body did not arrive within {seconds:g} seconds.") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest("The request body could not be read.") from error


def _at_hand(request: web.Request) -> bytes:
    """What `read` would gather chunk by chunk, at a quarter of its cost."""
    raw = request.content.read_nowait()
    if len(raw) > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size)
    return raw


def _decompressed(raw: bytes, encoding: str, most: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=WINDOW)
    try:
        body = decompressor.decompress(raw, most + 1)
    except zlib.error as error:
        raise BadRequest(f"The request body is not {encoding}.") from error
    if len(body) > most:
        raise web.HTTPRequestEntityTooLarge(most)
    if not decompressor.eof or decompressor.unused_data:
        raise BadRequest(f"The request body is cut short, or goes on after its {encoding}.")
    return body
