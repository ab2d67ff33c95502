"""The rest of a request body that the application has not read, because it refused the request.

A little of it is read and dropped, so that the client can finish sending and read the answer; otherwise the
connection is reset. Beyond that the connection ends.
"""

import asyncio

from aiohttp import StreamReader, hdrs, web

MAX_DISCARDED_BYTES = 1_048_576
DISCARD_SECONDS = 1.0


def announce_close(request: web.BaseRequest, answer: web.StreamResponse) -> None:
    """Tell the client that the connection ends if it need not, or may not, send the rest of its body.

    It need not if it waits for permission (`Expect`).
    """
    if request.content.is_eof():
        return
    if (request.content_length or 0) > MAX_DISCARDED_BYTES or hdrs.EXPECT in request.headers:
        answer.headers[hdrs.CONNECTION] = "close"
        answer.force_close()


async def discard_rest(content: StreamReader) -> None:
    """Drop what still arrives of a body, within limits of size and time."""
    bytes_left = MAX_DISCARDED_BYTES
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while bytes_left > 0 and not content.is_eof():
                bytes_left -= len(await content.readany())
    except (OSError, web.RequestPayloadError):  # too late, or broken
        pass
