"""The headers of a Standard Webhook (https://www.standardwebhooks.com)."""

from collections.abc import Mapping
from datetime import datetime

from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError


def signed_headers(secret: str, message_id: str, body: bytes, now: datetime) -> Mapping[str, str]:
    """Who sends what since when, provably unless the secret is blank. `body` is UTF-8."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(int(now.timestamp()))}
    if secret:
        headers["webhook-signature"] = _key(secret).sign(message_id, now, body.decode())
    return headers


def _key(secret: str) -> Webhook:
    """`whsec_` and Base64 stand for the bytes behind them; any other secret for its own."""
    if secret.startswith("whsec_"):
        try:
            return Webhook(secret)
        except (ValueError, EmptyWebhookSecretError):
            pass  # it only begins like one
    return Webhook(secret.encode())
