"""The Python client of hostsvc: `Hostsvc` and `AsyncHostsvc`."""

from typing import TYPE_CHECKING, Any

from hostsvc_client._base import Upload
from hostsvc_client._sync_api import Hostsvc
from hostsvc_client._webhooks import Webhook
from hostsvc_client.errors import (
    Conflict,
    ConnectionFailed,
    EventsLost,
    HostsvcError,
    Invalid,
    NotAuthenticated,
    NotEnded,
    NotFound,
    NotGenuine,
    PermissionDenied,
    Refused,
    SecretLost,
    ServiceFailed,
    TimedOut,
    TooManyRequests,
    Unprocessable,
)

if TYPE_CHECKING:
    from hostsvc_client._async_api import AsyncHostsvc

__all__ = [
    "AsyncHostsvc",
    "Conflict",
    "ConnectionFailed",
    "EventsLost",
    "Hostsvc",
    "HostsvcError",
    "Invalid",
    "NotAuthenticated",
    "NotEnded",
    "NotFound",
    "NotGenuine",
    "PermissionDenied",
    "Refused",
    "SecretLost",
    "ServiceFailed",
    "TimedOut",
    "TooManyRequests",
    "Unprocessable",
    "Upload",
    "Webhook",
]


def __getattr__(name: str) -> Any:
    """Load the asynchronous client when it is first used, and asyncio with it."""
    if name != "AsyncHostsvc":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hostsvc_client._async_api import AsyncHostsvc  # not earlier: it takes a while

    return AsyncHostsvc
