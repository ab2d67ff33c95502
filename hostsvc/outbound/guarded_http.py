"""Calls to addresses that tenants name, kept out of the operator's network and within limits.

Each call opens its own connection. So the address that is checked is the one that is connected to, and no
call is lost on a connection that the server is about to close.
"""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError
from yarl import URL

from hostsvc.outbound.addresses import is_ambiguous_address, parse_address, special_kind
from hostsvc.outbound.bounded_http import AnswerTooLarge, bounded_session, read_answer
from supervisors.clock import Clock
from supervisors.fair_slots import FairSlots
from supervisors.outbound import AddressRefused, NoAnswer, NotConnected, OutboundAnswer, OutboundCall
from supervisors.settings import require_between
from web.request.chunks import OF_CALLERS

MAX_CALLS = 400
MAX_BYTES = 1 << 20  # of a response body
ONLY_PUBLIC = "outbound calls go to public addresses only"


@dataclass(frozen=True, slots=True)
class OutboundSettings:
    """The addresses that outbound calls may go to, and the time limit from lookup to last byte."""

    allow_private: bool = False
    timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        require_between("timeout_seconds", self.timeout_seconds, 0.1, 300)


class GuardedHttp:
    """The client for outbound calls. Implements `supervisors.outbound.Outbound`."""

    def __init__(self, session: aiohttp.ClientSession, settings: OutboundSettings, clock: Clock) -> None:
        self._session = session
        self._settings = settings
        self.max_seconds = 2 * settings.timeout_seconds  # one for the slot, one for the call
        self._clock = clock
        self._slots = FairSlots[UUID](MAX_CALLS)

    async def post(self, call: OutboundCall) -> OutboundAnswer:
        """Send a call and return the response; redirects are not followed. Raise OutboundError."""
        url = _parse_url(call.url)
        host = url.raw_host or ""
        if not self._settings.allow_private:
            _refuse_address(host)
        async with self._slot(call.organization_id, host):
            return await self._send(call, url, host)

    @asynccontextmanager
    async def _slot(self, organization_id: UUID, host: str) -> AsyncIterator[None]:
        """Hold a slot of the organization's. Waiting for it does not count as time of the call."""
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._slots.take(organization_id)
        except TimeoutError as error:
            reason = f"too many other calls were under way for {seconds:g} s"
            raise NotConnected(f"No connection to {host} was made: {reason}.") from error
        try:
            yield
        finally:
            self._slots.release(organization_id)

    async def _send(self, call: OutboundCall, url: URL, host: str) -> OutboundAnswer:
        progress = _Progress()
        with _translated(host, progress, self._settings.timeout_seconds):
            async with (
                asyncio.timeout(self._settings.timeout_seconds),
                self._session.post(
                    url,
                    data=call.body,
                    headers={
                        "Content-Type": "application/json",
                        **call.headers,
                        **signed_headers(
                            (call.secret, *call.old_secrets), call.id, call.body, self._clock.now()
                        ),
                    },
                    allow_redirects=False,
                    trace_request_ctx=progress,
                ) as response,
            ):
                return OutboundAnswer(
                    status=response.status,
                    content_type=_content_type(response),
                    body=b"".join([piece async for piece in read_answer(response, MAX_BYTES, OF_CALLERS)]),
                    retry_after=_retry_after(response.headers.get("Retry-After", ""), self._clock.now()),
                )


@asynccontextmanager
async def open_guarded_http(
    settings: OutboundSettings, clock: Clock, names: AbstractResolver | None = None
) -> AsyncIterator[GuardedHttp]:
    """Open the client; `names` resolves names, by default like the system."""
    threads = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="lookup")
    resolver = names or SystemNames(threads)
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(_note_connection)
    try:
        async with bounded_session(
            MAX_BYTES,
            [tracing],
            resolver=resolver if settings.allow_private else PublicNames(resolver),
            use_dns_cache=False,
            force_close=True,
        ) as session:
            yield GuardedHttp(session, settings, clock)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # without waiting for lookups that hang


class SystemNames(AbstractResolver):
    """The system's resolver, in threads of its own, so that a slow name server delays nothing else."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        look_up = partial(
            socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        try:
            addresses = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        except ValueError as error:
            raise OSError(None, "it is no valid name") from error
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=family,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for family, _, protocol, _, address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: `open_guarded_http` shuts the threads down."""


class PublicNames(AbstractResolver):
    """A resolver that returns public addresses only; calls connect to exactly these."""

    def __init__(self, names: AbstractResolver) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raise AddressRefused if the name has addresses, but no public one."""
        public: list[ResolveResult] = []
        reason = ""
        for result in await self._names.resolve(host, port, family):
            address = parse_address(result["host"])
            kind = "reserved" if address is None else special_kind(address)
            if kind is None:
                public.append(result)
            else:
                # Without the address: names of the internal network must not reveal where their hosts are.
                reason = f"The address of {host} is {kind}; {ONLY_PUBLIC}."
        if reason and not public:
            raise AddressRefused(reason)
        return public

    async def close(self) -> None:
        await self._names.close()


@dataclass(slots=True)
class _Progress:
    """The progress of a call: it decides whether a failure may be retried."""

    is_connected: bool = False


async def _note_connection(_session: aiohttp.ClientSession, call: SimpleNamespace, _: Any) -> None:
    call.trace_request_ctx.is_connected = True


def _parse_url(text: str) -> URL:
    """Parse the URL. Raise AddressRefused if it cannot be called, without its credentials and query."""
    try:
        url = URL(text)
        host = url.raw_host
    except ValueError as error:
        raise AddressRefused("The address is not a valid URL.") from error
    if url.scheme not in {"http", "https"}:
        raise AddressRefused(f"The address is not http or https, but {url.scheme or 'nothing'}.")
    if not host:
        raise AddressRefused("The address has no host.")
    if url.raw_user is not None or url.raw_password is not None:
        raise AddressRefused(f"The address of {host} must not contain credentials.")
    return url


def _refuse_address(host: str) -> None:
    """Raise AddressRefused for an address that is not public. Names are checked when they are resolved."""
    plain = host.removesuffix(".")
    if is_ambiguous_address(plain):
        raise AddressRefused(f"{host} is not a valid address.")
    address = parse_address(plain)
    kind = None if address is None else special_kind(address)
    if plain == "localhost" or plain.endswith(".localhost"):
        kind = "loopback"
    if kind is not None:
        raise AddressRefused(f"The address {host} is {kind}; {ONLY_PUBLIC}.")


@contextmanager
def _translated(host: str, progress: _Progress, seconds: float) -> Iterator[None]:
    """Turn errors of aiohttp, which may contain the whole URL, into errors of the port."""
    try:
        yield
    except AnswerTooLarge as error:
        raise NoAnswer(f"The answer {error}; the rest was not read.") from error
    except (aiohttp.ClientError, OSError) as error:  # includes TimeoutError
        reason = f"it took more than {seconds:g} s" if isinstance(error, TimeoutError) else _reason(error)
        if isinstance(error, aiohttp.InvalidURL):
            raise AddressRefused(f"{host} is not a valid address.") from error
        if progress.is_connected:
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


def _content_type(response: aiohttp.ClientResponse) -> str:
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


def signed_headers(secrets: Iterable[str], message_id: str, body: bytes, now: datetime) -> Mapping[str, str]:
    """Return the headers of a message, with a signature by each secret that is not blank; `body` is UTF-8."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(int(now.timestamp()))}
    text = body.decode()
    signatures = [_key(secret).sign(message_id, now, text) for secret in secrets if secret]
    if signatures:
        headers["webhook-signature"] = " ".join(signatures)
    return headers


def _key(secret: str) -> Webhook:
    """Return the signer: `whsec_` and Base64 encode the key; any other secret is the key itself."""
    if secret.startswith("whsec_"):
        try:
            return Webhook(secret)
        except (ValueError, EmptyWebhookSecretError):
            pass  # not Base64, so the text is the key
    return Webhook(secret.encode())
