"""Carries the calls of the openai SDK over a session whose answers are bounded."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx2

from hostsvc.llm.chat_protocol import InvalidResponse
from hostsvc.outbound.bounded_http import AnswerTooLarge, read_answer
from supervisors.clock import SystemClock
from web.request.chunks import ChunkLimit

# An event of a stream has more than a hundred bytes, in up to three chunks, but a sign of life between events
# has about twenty.
OF_MODELS = ChunkLimit(1_000, 16)
MAX_ERROR_BYTES = 1 << 16  # read of a refusal
PIECE_BYTES = 4096  # parsed in one iteration of the event loop
# Nothing else of the head is passed on. The type is always this: that of a server may take long to parse.
RETRY_HEADERS = ("Retry-After", "Retry-After-Ms", "X-Should-Retry")
TYPE = {"Content-Type": "text/event-stream"}


class BoundedTransport(httpx2.AsyncBaseTransport):
    """The transport for answers of at most `max_bytes`. It raises InvalidResponse, or TransportError."""

    def __init__(self, session: aiohttp.ClientSession, max_bytes: int, proxy: str | None) -> None:
        self._session = session
        self._max_bytes = max_bytes
        self._proxy = proxy

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the response when its head has come."""
        seconds = request.extensions["timeout"]
        with _translated():
            response = await self._session.request(
                request.method,
                str(request.url),
                headers=request.headers,
                data=request.content,
                allow_redirects=False,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(connect=seconds["connect"], sock_read=seconds["read"]),
            )
        kept = {name: response.headers[name] for name in RETRY_HEADERS if name in response.headers}
        body = _Body(response, self._max_bytes)
        return httpx2.Response(response.status, headers=kept | TYPE, stream=body)


class _Body(httpx2.AsyncByteStream):
    """The body of a response, in short pieces between which other work goes on.

    Of a refusal only the beginning is read, so that its status is known in any case.
    """

    def __init__(self, response: aiohttp.ClientResponse, max_bytes: int) -> None:
        self._response = response
        self._is_refusal = response.status >= 300
        self._max_bytes = MAX_ERROR_BYTES if self._is_refusal else max_bytes
        self._clock = SystemClock()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self._response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise InvalidResponse("it is compressed, which was not asked for")
            with _translated():
                async for piece in read_answer(self._response, self._max_bytes, OF_MODELS):
                    for start in range(0, len(piece), PIECE_BYTES):
                        yield piece[start : start + PIECE_BYTES]
                        await self._clock.sleep(0)  # a stream that never pauses would hold up all else
        except InvalidResponse:
            if not self._is_refusal:
                raise

    async def aclose(self) -> None:
        self._response.release()


@contextmanager
def _translated() -> Iterator[None]:
    """Turn errors of aiohttp into InvalidResponse, or into an error after which the SDK tries again."""
    try:
        yield
    except AnswerTooLarge as error:
        raise InvalidResponse(f"it {error}") from error
    except aiohttp.ClientResponseError as error:
        raise InvalidResponse("it is not HTTP", error.message) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.TransportError(type(error).__name__) from error
