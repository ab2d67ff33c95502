"""The verification of deliveries: the examples that senders document, their own libraries, and forgeries."""

import base64
import hmac
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import stripe
from multidict import CIMultiDict
from standardwebhooks import Webhook

from storage.delivery.hooks import Hook, Verification
from storage.ids import new_id
from tests.storage.factories import NOW, SECOND, hook
from web.api.hooks.verification import TOLERANCE, BadSignature, notification_id, verify

STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"id": "evt_1", "event_id": "Ev1", "type": "invoice.paid"}'
SENT = datetime(2026, 11, 28, 12, tzinfo=UTC)
SECONDS = int(SENT.timestamp())

# The examples of https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries,
# https://docs.slack.dev/authentication/verifying-requests-from-slack, and of libraries for Standard Webhooks.
GITHUB_SECRET, GITHUB_BODY = "It's a Secret to Everybody", b"Hello, World!"
GITHUB_SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SLACK_HEADERS = {
    "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    "X-Slack-Request-Timestamp": "1531420618",
}
STANDARD_HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def kind(verification: Verification, secret: str, **fields: Any) -> Hook:
    return hook(new_id(), verify=verification, secret=secret, **fields)


def check(
    one: Hook, headers: dict[str, str], body: bytes = BODY, now: datetime = SENT, token: str = ""
) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return now

    with pytest.MonkeyPatch.context() as patch:  # the library for Standard Webhooks reads the clock
        patch.setattr("standardwebhooks.webhooks.datetime", Stopped)
        verify(one, CIMultiDict(headers), token, body, now)


def stripe_headers(secret: str, sent: datetime) -> dict[str, str]:
    """Return the header that Stripe's own library makes, with another scheme as Stripe sends it."""
    sign = stripe.WebhookSignature.generate_signature_header
    return {"Stripe-Signature": f"{sign(BODY.decode(), secret, int(sent.timestamp()))},v0=6ffbb59b2300aae6"}


def standard_headers(secret: str, sent: datetime) -> dict[str, str]:
    signature = Webhook(secret).sign("msg_1", sent, BODY.decode())
    seconds = str(int(sent.timestamp()))
    signatures = f"v1a,b3RoZXI= {signature}"
    return {"webhook-id": "msg_1", "webhook-timestamp": seconds, "webhook-signature": signatures}


def slack_headers(secret: str, sent: datetime) -> dict[str, str]:
    seconds = str(int(sent.timestamp()))
    signature = hmac.digest(secret.encode(), f"v0:{seconds}:".encode() + BODY, "sha256").hex()
    return {"X-Slack-Signature": f"v0={signature}", "X-Slack-Request-Timestamp": seconds}


SIGNERS: dict[Verification, Callable[[str, datetime], dict[str, str]]] = {
    Verification.STANDARD: standard_headers,
    Verification.STRIPE: stripe_headers,
    Verification.SLACK: slack_headers,
}


def test_documented_examples_are_verified() -> None:
    github = kind(Verification.GITHUB, GITHUB_SECRET)
    check(github, {"X-Hub-Signature-256": GITHUB_SIGNATURE}, GITHUB_BODY)
    slack, now = kind(Verification.SLACK, SLACK_SECRET), datetime.fromtimestamp(1531420618, UTC)
    check(slack, SLACK_HEADERS, SLACK_BODY, now)
    standard, then = kind(Verification.STANDARD, STANDARD_SECRET), datetime.fromtimestamp(1614265330, UTC)
    check(standard, STANDARD_HEADERS, b'{"test": 2432232314}', then)


@pytest.mark.parametrize("name", SIGNERS)
def test_dated_signature_is_valid_for_five_minutes(name: Verification) -> None:
    one, headers = kind(name, STANDARD_SECRET), SIGNERS[name](STANDARD_SECRET, SENT)
    for now in (SENT, SENT + TOLERANCE, SENT - TOLERANCE):
        check(one, headers, now=now)
    for now in (SENT + TOLERANCE + SECOND, SENT - TOLERANCE - SECOND):
        with pytest.raises(BadSignature, match="too"):
            check(one, headers, now=now)


@pytest.mark.parametrize("name", SIGNERS)
def test_forged_delivery_is_refused(name: Verification) -> None:
    one, headers = kind(name, STANDARD_SECRET), SIGNERS[name](STANDARD_SECRET, SENT)
    other = "whsec_" + base64.b64encode(b"another secret of a stranger").decode()
    later = {key: value.replace(str(SECONDS), str(SECONDS + 60)) for key, value in headers.items()}
    changed = BODY.replace(b"paid", b"void")
    for forged, body in ((SIGNERS[name](other, SENT), BODY), (headers, changed), (later, BODY)):
        with pytest.raises(BadSignature):
            check(one, forged, body)
    for key in headers:
        rest = {kept: value for kept, value in headers.items() if kept != key}
        for broken in (rest, rest | {key: ""}, rest | {key: "v1"}, rest | {key: "t=,v1=,v0=é"}):
            with pytest.raises(BadSignature):
                check(one, broken)


def test_time_that_is_no_time_is_refused() -> None:
    one = kind(Verification.STRIPE, "s")
    for text in ("", "-1", "1e9", "٣٣", "9" * 11, "9" * 5000, "nan"):
        with pytest.raises(BadSignature, match="time of the signature"):
            check(one, {"Stripe-Signature": f"t={text},v1=00"})


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
@pytest.mark.parametrize("prefix", ["mac ", "v1,"])
def test_hmac_of_any_form_is_verified(algorithm: str, encoding: str, prefix: str) -> None:
    form = {"header": "X-Shop-Hmac", "algorithm": algorithm, "encoding": encoding, "prefix": prefix}
    one = kind(Verification.HMAC, "key", **form)
    digest = hmac.digest(b"key", BODY, algorithm)
    text = digest.hex().upper() if encoding == "hex" else base64.b64encode(digest).decode()
    check(one, {"x-shop-hmac": f"{prefix}{text}"})
    for forged in (text, f"{prefix}{text[:-2]}", prefix):
        with pytest.raises(BadSignature):
            check(one, {"X-Shop-Hmac": forged})


def test_token_must_be_the_secret() -> None:
    one = kind(Verification.TOKEN, "tökén")
    check(one, {}, token="tökén")
    for token in ("", "token", "tökén "):
        with pytest.raises(BadSignature):
            check(one, {}, token=token)


def test_old_secret_is_valid_until_its_end_and_unreadable_one_never() -> None:
    one = replace(kind(Verification.GITHUB, "new"), old_secret=GITHUB_SECRET, old_secret_until=NOW)
    headers = {"X-Hub-Signature-256": GITHUB_SIGNATURE}
    check(one, headers, GITHUB_BODY, NOW - SECOND)
    by_nothing = {"X-Hub-Signature-256": "sha256=" + hmac.digest(b"", GITHUB_BODY, "sha256").hex()}
    for refused in (one, replace(one, secret=None, old_secret=None), replace(one, secret="", old_secret="")):
        for given in (headers, by_nothing):
            with pytest.raises(BadSignature):
                check(refused, given, GITHUB_BODY, NOW)


def test_secret_that_is_no_key_verifies_nothing() -> None:
    for secret in ("whsec_", "!", "a", "é"):
        with pytest.raises(BadSignature):
            check(kind(Verification.STANDARD, secret), standard_headers(STANDARD_SECRET, SENT))


@pytest.mark.parametrize("name", SIGNERS)
def test_dated_signature_of_the_secret_before_is_verified(name: Verification) -> None:
    other = "whsec_" + base64.b64encode(b"another secret").decode()
    one = replace(kind(name, other), old_secret=STANDARD_SECRET, old_secret_until=SENT + SECOND)
    check(one, SIGNERS[name](STANDARD_SECRET, SENT))
    check(one, SIGNERS[name](other, SENT))


def test_repeated_delivery_has_the_same_id_and_another_one_not() -> None:
    def id_of(one: Hook, headers: dict[str, str], body: bytes = BODY, payload: Any = None) -> Any:
        return notification_id(one, CIMultiDict(headers), body, payload)

    for name, header in (
        (Verification.GITHUB, "X-GitHub-Delivery"),
        (Verification.STANDARD, "webhook-id"),
        (Verification.HMAC, "Idempotency-Key"),
        (Verification.TOKEN, "Idempotency-Key"),
    ):
        one = kind(name, "s")
        other = replace(one, id=new_id())
        first = id_of(one, {header: "a"})
        assert first == id_of(one, {header.lower(): "a"}, b"2")
        assert first not in (id_of(one, {header: "b"}), id_of(other, {header: "a"}))
        assert id_of(one, {header: "\udcff"}) == id_of(one, {header: "\udcff"})  # a byte that is no UTF-8
    for name, field in ((Verification.STRIPE, "id"), (Verification.SLACK, "event_id")):
        one = kind(name, "s")
        assert id_of(one, {}, b"1", {field: "x"}) == id_of(one, {}, b"2", {field: "x"})
        assert id_of(one, {}, b"1", {field: "x"}) != id_of(one, {}, b"1", {field: "y"})
        assert id_of(one, {}, b"1", [1]) == id_of(one, {}, b"1", {field: {}}) != id_of(one, {}, b"2", [1])
    signed, unsigned = kind(Verification.HMAC, "s"), kind(Verification.TOKEN, "s")
    assert id_of(signed, {}, b"1") == id_of(signed, {}, b"1") != id_of(signed, {}, b"2")
    assert id_of(unsigned, {}, b"1") != id_of(unsigned, {}, b"1")
