"""The chunks of a body, of a request as of an answer, read within a limit on how many of them are small.

Each chunk costs the event loop about as much as a thousand bytes, so limits on bytes alone do not hold.
"""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from aiohttp import StreamReader

# The buffer of a connection. aiohttp stops parsing when a sixteenth as many chunks wait to be read.
BUFFER_BYTES = 16_384


class ChunkLimit(NamedTuple):
    """After `most` chunks, those of a body must have `average_bytes` on average."""

    most: int
    average_bytes: int


OF_CALLERS = ChunkLimit(1_000, 256)
OF_ANYBODY = ChunkLimit(100, 1_024)  # without credentials, or in a body that nobody reads


class SmallChunks(Exception):
    """A body came in too many small chunks; the message completes a sentence about it."""

    def __init__(self, limit: ChunkLimit) -> None:
        super().__init__(
            f"came in more than {limit.most:,} chunks of under {limit.average_bytes:,} bytes on average"
        )


async def read_pieces(content: StreamReader, limit: ChunkLimit) -> AsyncGenerator[bytes, None]:
    """Yield a body piece by piece. Raise SmallChunks, as does any later attempt to read it."""
    chunks = received = 0
    while not content.at_eof():
        piece, is_end_of_chunk = await content.readchunk()
        chunks += is_end_of_chunk
        received += len(piece)
        if chunks > limit.most and received < chunks * limit.average_bytes:
            error = SmallChunks(limit)
            content.set_exception(error)
            raise error
        yield piece
