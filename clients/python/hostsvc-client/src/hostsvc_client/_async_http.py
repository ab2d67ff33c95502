"""The only module that knows httpx2. It is loaded with the first client, as that takes a while."""

from collections.abc import AsyncIterator

import httpx2

from hostsvc_client import errors
from hostsvc_client._base import MAX_SILENCE_SECONDS, Call, Reply, checked

MAX_CONNECT_SECONDS = 10.0
MAX_EVENT_BYTES = 16 << 20
Frame = tuple[str, str, str]  # the type, the data and the id of an event
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


class AsyncHttp:
    """Connections to the service."""

    def __init__(self) -> None:
        self._client = httpx2.AsyncClient(timeout=None)  # each request has its own

    async def send(self, call: Call, timeout: float) -> Reply:
        """Send the request once. Raise ConnectionFailed without a complete answer."""
        limits = httpx2.Timeout(timeout, connect=min(timeout, MAX_CONNECT_SECONDS))
        try:
            response = await self._client.request(
                call.operation.method, call.url, headers=call.headers, timeout=limits, **call.content
            )
        except httpx2.RequestError as error:
            raise _failure(error, call) from None
        return checked(response.status_code, response.headers, response.content)

    async def frames(self, call: Call, since: int | None, timeout: float) -> AsyncIterator[Frame]:
        """Yield the events of one stream after a position.

        Raise ConnectionFailed when it breaks, Refused if there is none.
        """
        headers = {**call.headers, "Accept": "text/event-stream"}
        if since is not None:
            headers["Last-Event-ID"] = str(since)
        limits = httpx2.Timeout(timeout, connect=MAX_CONNECT_SECONDS, read=MAX_SILENCE_SECONDS)
        try:
            async with self._client.stream("GET", call.url, headers=headers, timeout=limits) as response:
                if response.status_code != httpx2.codes.OK:
                    checked(response.status_code, response.headers, await response.aread())
                async for event in httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES):
                    yield event.event, event.data, event.id
        except httpx2.SSEError as error:
            raise errors.HostsvcError(f"no events can be read at {call.url}: {error}") from None
        except httpx2.RequestError as error:
            raise _failure(error, call) from None

    async def aclose(self) -> None:
        await self._client.aclose()


def _failure(error: httpx2.RequestError, call: Call) -> errors.ConnectionFailed:
    """Return our own error, so that nobody needs to know the library."""
    kind = errors.TimedOut if isinstance(error, httpx2.TimeoutException) else errors.ConnectionFailed
    reason = f"{type(error).__name__} {error}".strip()
    return kind(f"{reason} at {call.origin}", is_sent=not isinstance(error, NOT_SENT))
