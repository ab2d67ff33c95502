"""One address that may be called: requests to it, and why they fail."""

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from hostsvc.outbound.bounded_http import AnswerTooLarge, read_answer
from supervisors.clock import Clock
from supervisors.outbound import AddressRefused, NoAnswer, NotConnected, OutboundAnswer
from web.request.chunks import OF_CALLERS

MAX_BYTES = 1 << 20  # of a response body


@dataclass(slots=True)
class Connection:
    """Requests to one address that may be called; redirects are not followed."""

    session: aiohttp.ClientSession
    url: URL
    host: str
    seconds: float
    is_connected: bool = False  # it decides whether a failure may be retried

    async def request(self, method: str, headers: Mapping[str, str], body: bytes) -> aiohttp.ClientResponse:
        """Send a request, and return the response when its head has come. Raise OutboundError."""
        self.is_connected = False
        with self.translated():
            return await self.session.request(
                method, self.url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=self
            )

    async def post(self, headers: Mapping[str, str], body: bytes, clock: Clock) -> OutboundAnswer:
        """Send a POST and return the whole answer, of any status. Raise OutboundError."""
        async with await self.request("POST", headers, body) as response:
            answer = b"".join([piece async for piece in self.read(response)])
            pause = _retry_after(response.headers.get("Retry-After", ""), clock.now())
            return OutboundAnswer(response.status, content_type(response), answer, pause)

    async def read(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield the body of a response, of MAX_BYTES at most. Raise OutboundError."""
        with self.translated():
            async for piece in read_answer(response, MAX_BYTES, OF_CALLERS):
                yield piece

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn errors of aiohttp, which may contain the whole URL, into errors of the port."""
        host, seconds = self.host, self.seconds
        try:
            yield
        except AnswerTooLarge as error:
            raise NoAnswer(f"The answer {error}; the rest was not read.") from error
        except (aiohttp.ClientError, OSError) as error:  # includes TimeoutError
            reason = f"it took more than {seconds:g} s" if isinstance(error, TimeoutError) else _reason(error)
            if isinstance(error, aiohttp.InvalidURL):
                raise AddressRefused(f"{host} is not a valid address.") from error
            if self.is_connected:
                raise NoAnswer(f"No whole answer came from {host}: {reason}.") from error
            raise NotConnected(f"No connection to {host} was made: {reason}.") from error


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            certificate_error = error.certificate_error
            return f"its certificate is refused ({getattr(certificate_error, 'verify_message', 'invalid')})"
        case aiohttp.ClientConnectorDNSError():
            return f"its address was not found ({error.os_error.strerror})"
        case aiohttp.ClientSSLError():
            return "it violates the TLS protocol"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "the connection was closed"
        case aiohttp.ClientResponseError():
            return "it violates the HTTP protocol"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case _:
            return type(error).__name__


def content_type(response: aiohttp.ClientResponse) -> str:
    """Return the type of the body as received: compressed bytes are not of the declared type."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return "application/octet-stream"
    # Not `response.content_type`: aiohttp parses the parameters, in up to half a second.
    return response.headers.get("Content-Type") or "application/octet-stream"


def _retry_after(value: str, now: datetime) -> timedelta | None:
    """Parse seconds or an HTTP date. Return None for anything else."""
    if re.fullmatch(r"[0-9]{1,9}", value):
        return timedelta(seconds=int(value))
    try:
        then = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(timedelta(), then - now)
