"""Webhooks that the service sends: https://www.standardwebhooks.com."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hostsvc_client.errors import NotGenuine

MAX_AGE_SECONDS = 300


@dataclass(frozen=True)
class Webhook:
    """A genuine request. The same `id` may come more than once."""

    id: str
    type: str
    timestamp: str
    data: dict[str, Any]
    link: str | None
    """Decides an approval without logging in, for `approval.requested` and `approval.reminded`."""


class WebhooksExtras:
    """What the client adds to the operations of webhooks."""

    @staticmethod
    def unwrap(
        body: bytes, headers: Mapping[str, str], secret: str, *, now: Callable[[], float] = time.time
    ) -> Webhook:
        """Return what the service has sent, after checking that it was the service, and lately.

        `body` must be the received bytes. `secret` is that of the webhook, or `tool_call_secret` of the
        template. Raise NotGenuine otherwise.
        """
        lower = {name.lower(): value for name, value in headers.items()}
        message, sent_at = lower.get("webhook-id", ""), lower.get("webhook-timestamp", "")
        key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
        digest = hmac.new(key, f"{message}.{sent_at}.".encode() + body, hashlib.sha256).digest()
        expected = b"v1," + base64.b64encode(digest)
        given = lower.get("webhook-signature", "").encode().split()
        if not any(hmac.compare_digest(one, expected) for one in given):
            raise NotGenuine("the signature is missing or wrong")
        if not sent_at.isdigit() or abs(now() - int(sent_at)) > MAX_AGE_SECONDS:
            raise NotGenuine("the request is more than five minutes old, or its clock is wrong")
        sent = json.loads(body)
        return Webhook(message, sent["type"], sent["timestamp"], sent["data"], sent.get("link"))
