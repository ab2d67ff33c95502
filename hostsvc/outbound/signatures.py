"""Signatures by the Standard Webhooks specification (https://www.standardwebhooks.com)."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError


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
