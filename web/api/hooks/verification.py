"""The verification of deliveries to hooks: the bytes as they came, before anything parses them."""

import base64
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError, WebhookVerificationError

from storage.delivery.hooks import Hook, Verification
from storage.ids import derive_id, new_id

TOLERANCE = timedelta(minutes=5)  # either way, between the sender's time in a signature and ours
SECONDS = re.compile(r"[0-9]{1,10}")


class BadSignature(Exception):
    """A delivery is not verified; the message says why, to the owner of the hook only."""


class Scheme(NamedTuple):
    """Where the HMACs of a sender stand, and what they sign: `signed` joins the time and the body.

    Several signatures are separated by commas. Without a header of its own, the time is among them, after t=.
    """

    header: str
    prefix: str = ""
    signed: bytes = b""  # only the body
    time_header: str = ""
    algorithm: str = "sha256"
    encoding: str = "hex"


SCHEMES = {
    Verification.GITHUB: Scheme("X-Hub-Signature-256", "sha256="),
    Verification.STRIPE: Scheme("Stripe-Signature", "v1=", b"%b.%b"),
    Verification.SLACK: Scheme("X-Slack-Signature", "v0=", b"v0:%b:%b", "X-Slack-Request-Timestamp"),
}
ID_HEADERS = {Verification.STANDARD: "webhook-id", Verification.GITHUB: "X-GitHub-Delivery"}
ID_FIELDS = {Verification.STRIPE: "id", Verification.SLACK: "event_id"}  # of the payload, which is signed


def verify(hook: Hook, headers: Mapping[str, str], token: str, body: bytes, now: datetime) -> None:
    """Raise BadSignature unless a valid secret of the hook has signed the body, and did so lately.

    With the kind `token` the last part of the path must be the secret.
    """
    refusal = BadSignature("The signature is wrong, or made with another secret or of another body.")
    for secret in hook.secrets(now):
        try:
            match hook.verify:
                case Verification.TOKEN:
                    is_right = hmac.compare_digest(secret.encode(), token.encode(errors="replace"))
                case Verification.STANDARD:
                    is_right = _is_standard(secret, headers, body)
                case _:
                    own = Scheme(hook.header, hook.prefix, algorithm=hook.algorithm, encoding=hook.encoding)
                    is_right = _has_hmac(SCHEMES.get(hook.verify, own), secret, headers, body, now)
        except BadSignature as error:
            refusal = error  # the other secret may have signed it
            continue
        if is_right:
            return
    raise refusal


def is_base64_key(secret: str) -> bool:
    """Return whether the secret can sign as Standard Webhooks do."""
    try:
        Webhook(secret)
    except (EmptyWebhookSecretError, ValueError):
        return False
    return True


def _is_standard(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Return True if one of the signatures is right. Raise BadSignature if the library tells a reason."""
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except WebhookVerificationError as error:
        raise BadSignature(f"{error}.") from error
    except (EmptyWebhookSecretError, ValueError):  # of what is not Base64 or not UTF-8
        return False
    return True


def _has_hmac(scheme: Scheme, secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Return whether one of the signatures is right. Raise BadSignature for an old or missing one."""
    whole = _header(headers, scheme.header)
    parts = [part.strip() for part in whole.split(",")]
    if scheme.signed:
        among_them = "".join(part[2:] for part in parts if part.startswith("t="))
        seconds = _header(headers, scheme.time_header) if scheme.time_header else among_them
        is_time = SECONDS.fullmatch(seconds)
        if not is_time or abs(now - datetime.fromtimestamp(int(seconds), UTC)) > TOLERANCE:
            raise BadSignature("The time of the signature is missing or too far from now.")
        body = scheme.signed % (seconds.encode(), body)
    digest = hmac.digest(secret.encode(), body, scheme.algorithm)
    is_hex = scheme.encoding == "hex"
    expected = digest.hex().encode() if is_hex else base64.b64encode(digest)
    # The prefix of somebody's own scheme may have a comma.
    given = [each.removeprefix(scheme.prefix) for each in (whole, *parts) if each.startswith(scheme.prefix)]
    texts = [(each.lower() if is_hex else each).encode(errors="replace") for each in given]
    return True in [hmac.compare_digest(expected, text) for text in texts]


def _header(headers: Mapping[str, str], name: str) -> str:
    if name not in headers:
        raise BadSignature(f"The header {name} is missing.")
    return headers[name].strip()


def notification_id(hook: Hook, headers: Mapping[str, str], body: bytes, payload: Any) -> UUID:
    """Return the id of the notification that a delivery becomes, the same one for each repetition.

    It follows from the sender's id of the delivery. Without one it follows from the body, if that is signed;
    an unsigned delivery without an id is always a new one.
    """
    named: Any = headers.get(ID_HEADERS.get(hook.verify, "Idempotency-Key"))
    if hook.verify in ID_FIELDS:
        named = payload.get(ID_FIELDS[hook.verify]) if isinstance(payload, dict) else None
    if named and isinstance(named, str):
        return derive_id(hook.id, f"id {named!a}")  # a header may hold bytes that are no text
    if hook.verify is Verification.TOKEN:
        return new_id()
    return derive_id(hook.id, f"sha256 {sha256(body).hexdigest()}")
