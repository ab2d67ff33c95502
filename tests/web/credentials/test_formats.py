"""API keys and tokens, as plain values."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import jwt
import pytest

from web.credentials.formats import (
    KEY_TEXT,
    ApprovalTokens,
    RunTokens,
    UserTokens,
    hash_secret,
    make_key,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
TOKENS = UserTokens("s" * 32, timedelta(days=30))


def test_token_names_user_and_version() -> None:
    assert TOKENS.read(TOKENS.issue(ANN, 3, NOW), NOW) == (ANN, 3)


def test_tokens_of_same_second_differ() -> None:
    assert TOKENS.issue(ANN, 3, NOW) != TOKENS.issue(ANN, 3, NOW)


@pytest.mark.parametrize(
    ("later", "in_force"),
    [
        (timedelta(days=30, seconds=59), True),
        (timedelta(days=30, minutes=1), False),
        (timedelta(minutes=-1), True),  # a clock stepped back
        (timedelta(minutes=-1, seconds=-1), False),
    ],
)
def test_token_expires_with_a_minute_of_leeway(later: timedelta, in_force: bool) -> None:
    assert (TOKENS.read(TOKENS.issue(ANN, 1, NOW), NOW + later) is not None) == in_force


def test_foreign_tokens_are_refused() -> None:
    good = {"iss": "hostsvc", "aud": "user", "sub": str(ANN), "iat": 0, "exp": 2**33, "version": 1}
    assert TOKENS.read(jwt.encode(good, "s" * 32, "HS256"), NOW) == (ANN, 1)
    for claim, value in (("iss", "other"), ("aud", "run"), ("sub", "x"), ("exp", None), ("version", None)):
        claims = {name: kept for name, kept in {**good, claim: value}.items() if kept is not None}
        assert TOKENS.read(jwt.encode(claims, "s" * 32, "HS256"), NOW) is None
    assert TOKENS.read(jwt.encode(good, "t" * 32, "HS256"), NOW) is None
    assert TOKENS.read(jwt.encode(good, "s" * 64, "HS512"), NOW) is None
    assert TOKENS.read(jwt.encode(good, "", "none"), NOW) is None


def test_token_is_for_user_or_run() -> None:
    run_tokens = RunTokens(TOKENS.secret)
    of_a_run = run_tokens.issue(ANN, NOW, timedelta(hours=1))
    assert run_tokens.read(of_a_run, NOW) == ANN
    assert run_tokens.read(of_a_run, NOW + timedelta(hours=1, minutes=1)) is None
    assert TOKENS.read(of_a_run, NOW) is None
    assert run_tokens.read(TOKENS.issue(ANN, 1, NOW), NOW) is None
    assert "sss" not in repr(run_tokens)


def test_token_of_approval_is_repeated_and_lasts_at_most_30_days() -> None:
    tokens = ApprovalTokens(TOKENS.secret)
    token = tokens.issue(ANN, NOW, None)
    assert token == tokens.issue(ANN, NOW, None)
    assert tokens.read(token, NOW + timedelta(days=30, seconds=-1)) == ANN
    assert tokens.read(token, NOW + timedelta(days=30)) is None
    hour = tokens.issue(ANN, NOW, NOW + timedelta(hours=1))
    assert tokens.read(hour, NOW + timedelta(hours=1)) is None
    assert RunTokens(TOKENS.secret).read(token, NOW) is None
    assert tokens.read(RunTokens(TOKENS.secret).issue(ANN, NOW, timedelta(hours=1)), NOW) is None


@pytest.mark.parametrize(
    "text", ["", "a.b.c", "\udcff", "[" * 6000, "WyIi" * 1500 + ".x.y", "W1tb" * 1900 + ".x.y"]
)
def test_nonsense_is_no_token(text: str) -> None:
    assert TOKENS.read(text, NOW) is None


def test_key_has_its_form_and_hides_itself() -> None:
    key = make_key()
    assert KEY_TEXT.sub(r"\1", key.text) == key.prefix
    assert len(key.text) == len("hsk_") + 8 + 1 + 43
    assert key.hash == hash_secret(key.text)
    assert key.text not in repr(key)
    assert not KEY_TEXT.fullmatch(key.text + "\n")
