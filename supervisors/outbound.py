"""The port to addresses that tenants name: webhooks and the tools of adapters.

OutboundError           the call has no answer; the message may be shown in a trace
├── AddressRefused      the address may not be called; nothing was sent
├── NotConnected        no connection was made; nothing was sent
├── NoAnswer            the call was sent, but no complete answer came
└── McpFailed           an MCP server refused the request, or its answer is unusable
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID


class OutboundError(Exception):
    """The call has no answer; the message says why."""


class AddressRefused(OutboundError):
    """The address may not be called; nothing was sent."""


class NotConnected(OutboundError):
    """No connection was made and nothing was sent, so the call may be repeated."""


class NoAnswer(OutboundError):
    """The call was sent, but no complete answer came; it may or may not have had an effect."""


class McpFailed(OutboundError):
    """An MCP server refused the request, with a `code` of JSON-RPC, or its answer is unusable."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class OutboundCall:
    """A POST of JSON to an address that a tenant named.

    It is signed as a Standard Webhook (https://www.standardwebhooks.com) with `secret`: the Base64-decoded
    bytes after `whsec_`, or else the text itself; unsigned if blank. Each of `old_secrets`, which receivers
    may still expect, adds a signature. A repeated call keeps its `id`.
    """

    id: str
    organization_id: UUID
    url: str
    body: bytes = field(repr=False)  # it may contain an adapter's config
    secret: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they may contain secrets
    old_secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class OutboundAnswer:
    """The answer of the address, of any status. `retry_after`: the pause that it asks for."""

    status: int
    content_type: str
    body: bytes
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A request to an MCP server, such as `tools/call`, with headers beside those of the protocol."""

    organization_id: UUID
    url: str
    method: str
    params: Mapping[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they may contain secrets


class Outbound(Protocol):
    """Calls addresses that tenants name, but none inside the operator's network."""

    max_seconds: float  # that a call may take, with the wait for its turn

    async def post(self, call: OutboundCall) -> OutboundAnswer:
        """Send the call and return the complete answer. Raise OutboundError if there is none."""
        ...

    async def ask_mcp(self, request: McpRequest) -> dict[str, Any]:
        """Send the request and return the `result` of the answer, as the server wrote it.

        The result of `tools/list` has the tools of all pages. Raise OutboundError if there is none.
        """
        ...
