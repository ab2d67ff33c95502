"""Calls to addresses that tenants name, kept out of the operator's network and within limits.

Each call opens its own connection. So the address that is checked is the one that is connected to, and no
call is lost on a connection that the server is about to close.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
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
from hostsvc.outbound.bounded_http import bounded_session
from hostsvc.outbound.connection import MAX_BYTES, Connection
from supervisors.clock import Clock
from supervisors.fair_slots import FairSlots
from supervisors.outbound import (
    AddressRefused,
    McpRequest,
    NotConnected,
    OutboundAnswer,
    OutboundCall,
)
from supervisors.settings import Bounded, between

MAX_CALLS = 400
ONLY_PUBLIC = "outbound calls go to public addresses only"


@dataclass(frozen=True, slots=True)
class OutboundSettings(Bounded):
    """The addresses that outbound calls may go to, and the time limit from lookup to last byte."""

    allow_private: bool = False
    timeout_seconds: float = between(30.0, 0.1, 300)


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
        async with self.connecting(call.organization_id, call.url) as connection:
            now = self._clock.now()
            headers = {
                "Content-Type": "application/json",
                **call.headers,
                **signed_headers((call.secret, *call.old_secrets), call.id, call.body, now),
            }
            return await connection.post(headers, call.body, self._clock)

    async def ask_mcp(self, request: McpRequest) -> dict[str, Any]:
        """Send a request to an MCP server and return its result. Raise OutboundError."""
        ask = await asyncio.to_thread(_import_mcp_client)
        async with self.connecting(request.organization_id, request.url) as connection:
            return await ask(connection, request)

    @asynccontextmanager
    async def connecting(self, organization_id: UUID, address: str) -> AsyncIterator["Connection"]:
        """Allow requests to one address. They take one slot and the time limit together."""
        url = _parse_url(address)
        host, seconds = url.raw_host or "", self._settings.timeout_seconds
        if not self._settings.allow_private:
            _refuse_address(host)
        connection = Connection(self._session, url, host, seconds)
        async with self._slot(organization_id, host):
            with connection.translated():
                async with asyncio.timeout(seconds):
                    yield connection

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


def _import_mcp_client() -> Callable[[Connection, McpRequest], Awaitable[dict[str, Any]]]:
    """Import the client, the first time for more than a second: call this in a thread."""
    # Imported here because it is heavy, and an installation without MCP servers never needs it.
    from hostsvc.outbound.mcp_client import ask

    return ask


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
