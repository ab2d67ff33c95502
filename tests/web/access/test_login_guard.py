"""The limits on wrong attempts: by account and network together, by network, and by account."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from web.access.login_guard import (
    OF_NETWORK,
    OF_PAIR,
    AttemptKind,
    LoginGuard,
    account_key,
    count_signup,
)
from web.app_keys import SETTINGS
from web.errors import Throttled
from web.settings import LimitSettings, WebSettings

ANN, BOB = "ann@example.com", "bob@example.com"
PASSWORD, CODE, SIGN_UP = AttemptKind


def fail(
    guard: LoginGuard,
    network: str = "a",
    account: str = ANN,
    now: float = 0.0,
    kind: AttemptKind = PASSWORD,
) -> Throttled | None:
    """Make a wrong attempt that is not checked if it is overdrawn; return the refusal."""
    try:
        with guard.attempt(kind, network, account, now) as attempt:
            attempt.count_wrong()
    except Throttled as refusal:
        return refusal
    return None


def accepted(guard: LoginGuard, attempts: list[tuple[str, str, float]]) -> int:
    """Return how many of these wrong attempts are accepted."""
    return sum(fail(guard, network, account, now) is None for network, account, now in attempts)


def test_person_who_mistypes_waits_a_minute_and_alone() -> None:
    guard = LoginGuard()
    assert accepted(guard, [("a", ANN, 0.0)] * 12) == OF_PAIR.attempts == 10
    refused = fail(guard, now=15.0)
    assert refused is not None
    assert refused.headers == {"Retry-After": "45"}
    assert refused.body["detail"] == (
        "Request was throttled. Expected available in 45 seconds. At most 10 wrong attempts at one account "
        "from one address are accepted, and one more every 60 seconds."
    )
    assert fail(guard, account=BOB, now=15.0) is None
    assert fail(guard, network="b", now=15.0) is None
    assert fail(guard, now=60.0) is None


def test_network_that_tries_many_accounts_is_overdrawn() -> None:
    guard = LoginGuard()
    spray = [("a", f"{number}@example.com", 0.0) for number in range(100)]
    assert accepted(guard, spray) == OF_NETWORK.attempts == 30
    refused = fail(guard)
    assert refused is not None
    assert refused.headers == {"Retry-After": "10"}
    assert "from one address are accepted, and one more every 10 seconds" in refused.body["detail"]
    assert fail(guard, network="b") is None
    assert fail(guard, now=10.0) is None


def test_network_guesses_at_stated_rate_and_locks_out_nobody() -> None:
    guard, day = LoginGuard(), 86_400
    guesses = accepted(guard, [("a", ANN, float(second)) for second in range(0, day, 5)])
    assert guesses == pytest.approx(10 + day / 60, abs=1)
    with guard.attempt(PASSWORD, "b", ANN, day) as attempt:
        assert attempt.overdrawn is None


def test_right_attempts_cost_nothing() -> None:
    guard = LoginGuard()
    for number in range(1000):
        with guard.attempt(PASSWORD, "a", str(number % 7), 0.0) as attempt:
            assert attempt.overdrawn is None


def test_attempts_in_progress_count_towards_the_wrong() -> None:
    guard = LoginGuard()
    for _ in range(OF_PAIR.attempts - 1):
        fail(guard)
    with guard.attempt(PASSWORD, "a", ANN, 0.0):
        assert fail(guard) is not None
    assert fail(guard) is None


def test_codes_and_sign_ups_are_no_password_guesses() -> None:
    guard = LoginGuard()
    for _ in range(15):
        fail(guard, kind=CODE)
        fail(guard, kind=SIGN_UP)
    with guard.attempt(PASSWORD, "a", ANN, 0.0) as attempt:
        assert attempt.overdrawn is None


def test_network_has_guessed_after_a_wrong_attempt() -> None:
    guard = LoginGuard()
    with guard.attempt(PASSWORD, "a", ANN, 0.0):
        assert not guard.has_guessed("a", 0.0)
        with guard.attempt(PASSWORD, "a", BOB, 0.0):
            assert guard.has_guessed("a", 0.0)
    assert not guard.has_guessed("a", 0.0)
    fail(guard)
    with guard.attempt(PASSWORD, "a", BOB, 0.0):
        assert guard.has_guessed("a", 0.0)


def test_spellings_of_one_address_are_counted_together() -> None:
    spellings = ("admin@example.com", "ADMIN@Example.com", "adm\u0130n@example.com", "admin@example.\u212aom")
    assert len({account_key(text) for text in spellings[:3]}) == 1
    assert account_key(spellings[3]) != account_key(spellings[0])


def test_flood_of_accounts_and_networks_takes_bounded_memory() -> None:
    guard = LoginGuard()
    for number in range(60_000):
        fail(guard, str(number), str(number), number / 1e6)
    assert len(guard._of_networks) == len(guard._of_pairs) == 50_000


def test_signups_are_unlimited_if_the_limit_is_zero() -> None:
    app = web.Application()
    app[SETTINGS] = WebSettings("s" * 32, "operator", limits=LimitSettings(signups_per_hour=0))
    for _ in range(100):
        count_signup(make_mocked_request("POST", "/", app=app))
