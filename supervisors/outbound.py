"""The port to addresses that tenants name: webhooks and the tools of adapters.

OutboundError           what came of a call that has no answer; the message is fit for a trace
├── AddressRefused      the address may not be called; nothing was sent
├── NotConnected        no connection was made; nothing was sent
└── NoAnswer            it was sent, but no whole answer came
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol
from uuid import UUID


class OutboundError(Exception):
    """The call has no answer; the message says why."""


class AddressRefused(OutboundError):
    """The address may not be called; nothing was sent."""


class NotConnected(OutboundError):
    """No connection was made; nothing was sent, so the call may be repeated."""


class NoAnswer(OutboundError):
    """It was sent, but no whole answer came; whether it had an effect is not known."""


@dataclass(frozen=True, slots=True)
class OutboundCall:
    """A POST of JSON to an address that a tenant named, the organization that calls it.

    It is signed as a Standard Webhook (https://www.standardwebhooks.com) with `secret`: the bytes behind
    `whsec_` in Base64, else its own; unsigned if blank. `id` stays the same when the call is repeated.
    """

    id: str
    organization_id: UUID
    url: str
    body: bytes = field(repr=False)  # it may hold the config of an adapter
    secret: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutboundAnswer:
    """What the address answered, whatever the status. `retry_after`: how long it asks to be left alone."""

    status: int
    content_type: str
    body: bytes
    retry_after: timedelta | None = None


class Outbound(Protocol):
    """Calls addresses that tenants name; none of them is inside the operator's network."""

    async def post(self, call: OutboundCall) -> OutboundAnswer:
        """The answer, read whole; raises OutboundError."""
        ...
