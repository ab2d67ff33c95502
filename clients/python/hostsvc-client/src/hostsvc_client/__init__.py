"""The Python client of hostsvc: `Hostsvc` and `AsyncHostsvc`.

`errors` has what they raise, `models` the types of answers, `inputs` those of what is sent.
"""

from typing import TYPE_CHECKING, Any

from hostsvc_client._base import Upload
from hostsvc_client._sync_api import Hostsvc
from hostsvc_client._webhooks import Webhook
from hostsvc_client.errors import HostsvcError

if TYPE_CHECKING:
    from hostsvc_client._async_api import AsyncHostsvc

__all__ = ["AsyncHostsvc", "Hostsvc", "HostsvcError", "Upload", "Webhook"]


def __getattr__(name: str) -> Any:
    """Load the asynchronous client when it is first used, and asyncio with it."""
    if name != "AsyncHostsvc":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hostsvc_client._async_api import AsyncHostsvc  # not earlier: it takes a while

    return AsyncHostsvc
