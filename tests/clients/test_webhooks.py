"""Signatures of webhooks, made by the library that the specification offers."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hostsvc_client import Hostsvc
from hostsvc_client.errors import NotGenuine
from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
BODY = json.dumps({"type": "run.ended", "timestamp": NOW.isoformat(), "data": {"id": 4711}}).encode()


def headers(secret: str | bytes = SECRET) -> dict[str, str]:
    signature = Webhook(secret).sign("msg", NOW, BODY.decode())
    return {
        "Webhook-Id": "msg",
        "Webhook-Timestamp": str(int(NOW.timestamp())),
        "Webhook-Signature": signature,
    }


def unwrap(secret: str, given: dict[str, str], body: bytes = BODY, later: timedelta = timedelta()) -> object:
    with Hostsvc("http://127.0.0.1:1", "key") as client:
        return client.webhooks.unwrap(body, given, secret, now=lambda: (NOW + later).timestamp())


@pytest.mark.parametrize("secret", [SECRET, "any other text"])
def test_genuine_request_is_unwrapped(secret: str) -> None:
    key = secret if secret.startswith("whsec_") else secret.encode()
    signed = headers(key)
    signed["Webhook-Signature"] += " v1,bm90IG91cnM="  # of the secret before a rotation
    webhook = unwrap(secret, signed, later=timedelta(minutes=4))
    assert (webhook.id, webhook.type, webhook.data, webhook.link) == ("msg", "run.ended", {"id": 4711}, None)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "left_out", "later"),
    [
        (BODY.replace(b"4711", b"4712"), "", timedelta()),
        (BODY, "Webhook-Signature", timedelta()),
        (BODY, "Webhook-Id", timedelta()),
        (BODY, "", timedelta(minutes=6)),
        (BODY, "", timedelta(minutes=-6)),
    ],
)
def test_forged_and_old_requests_are_refused(body: bytes, left_out: str, later: timedelta) -> None:
    given = {name: value for name, value in headers().items() if name != left_out}
    with pytest.raises(NotGenuine):
        unwrap(SECRET, given, body, later)
