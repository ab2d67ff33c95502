"""Verified tokens: what is remembered of them, and for how long."""

from uuid import uuid4

import pytest

from web.credentials.verified_tokens import EXAMINED, Claims, VerifiedTokens

EXPIRES_AT = 1000
GOOD = Claims(uuid4(), 0, EXPIRES_AT, 1)


class Verifier:
    """Accepts texts that begin with "good", and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> Claims | None:
        self.asked.append(text)
        return GOOD if text.startswith("good") else None


@pytest.fixture
def verify() -> Verifier:
    return Verifier()


def test_signature_is_verified_once(verify: Verifier) -> None:
    tokens = VerifiedTokens()
    assert [tokens.read("good", verify, EXPIRES_AT - 1) for _ in range(3)] == [GOOD] * 3
    assert verify.asked == ["good"]


def test_refused_token_is_not_remembered(verify: Verifier) -> None:
    tokens = VerifiedTokens()
    for text in ("bad", "goo", "\udcff", "\ud800", "bad"):
        assert tokens.read(text, verify, 0) is None
    assert verify.asked == ["bad", "goo", "\udcff", "\ud800", "bad"]
    assert len(tokens) == 0


def test_expired_token_is_verified_each_time(verify: Verifier) -> None:
    tokens = VerifiedTokens()
    tokens.read("good", verify, EXPIRES_AT - 1)
    for _ in range(2):
        assert tokens.read("good", verify, EXPIRES_AT) == GOOD
        assert len(tokens) == 0
    assert verify.asked == ["good"] * 3


def test_expired_tokens_make_room_for_new_ones(verify: Verifier) -> None:
    tokens = VerifiedTokens()
    for number in range(10 * EXAMINED):
        tokens.read(f"good {number}", verify, 0)
    later = Verifier()
    for number in range(10):
        tokens.read(f"bad {number}", later, EXPIRES_AT)
    assert len(tokens) == 10 * EXAMINED
    lasting = GOOD._replace(expires_at=EXPIRES_AT + 1)
    for number in range(20):
        tokens.read(f"new {number}", lambda _: lasting, EXPIRES_AT)
    assert len(tokens) == 20


def test_number_of_tokens_is_bounded(verify: Verifier) -> None:
    tokens = VerifiedTokens(max_tokens=10)
    for number in range(100):
        tokens.read(f"good {number}", verify, 0)
        assert len(tokens) <= 10


def test_text_of_tokens_is_not_kept(verify: Verifier) -> None:
    tokens = VerifiedTokens()
    tokens.read("good secret", verify, 0)
    assert "secret" not in repr(tokens)
    assert "secret" not in str(vars(tokens))
