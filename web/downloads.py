"""Downloads: files that are read from the database and sent in pieces, one at a time."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from web.access.auth import CALLER
from web.app_keys import ROOM
from web.paging import aborting, write_in_pieces
from web.request_room import LIST_UNITS, PLACE


async def send_file(
    request: web.Request,
    size: int,
    headers: Mapping[str, str],
    read: Callable[[int], Awaitable[bytes | None]],
) -> web.StreamResponse:
    """Send a file of `size` bytes, of which `read` returns the pieces by position, None after the last one.

    Raise Unavailable if too many lists and files are being sent already. Abort the connection if a piece is
    missing because the file has been deleted.
    """
    caller = request[CALLER]
    with request[PLACE].more(LIST_UNITS):
        response = web.StreamResponse(headers=headers)
        response.content_length = size
        with aborting(request):
            await response.prepare(request)
            if request.method == "HEAD":
                return response
            sent, position = 0, 0
            while sent < size:
                async with request.app[ROOM].reading(caller.accountable):
                    piece = await read(position)
                if piece is None:
                    raise FileNotFoundError("the file was deleted while it was sent")
                await write_in_pieces(response, piece)
                sent, position = sent + len(piece), position + 1
            await response.write_eof()
    return response
