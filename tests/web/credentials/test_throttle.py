"""The limits on wrong attempts: by account and network together, by network, and by account."""

from contextlib import ExitStack

import pytest

from web.credentials.throttle import (
    MAX_IN_PROGRESS,
    OF_ACCOUNT,
    OF_NETWORK,
    OF_PAIR,
    AttemptKind,
    Throttle,
    account_key,
)
from web.errors import Throttled

ANN, BOB = account_key("ann@example.com"), account_key("bob@example.com")
PASSWORD, CODE, SIGN_UP = AttemptKind


def fail(
    throttle: Throttle,
    network: str = "a",
    account: bytes = ANN,
    now: float = 0.0,
    kind: AttemptKind = PASSWORD,
) -> Throttled | None:
    """Make a wrong attempt that is not checked if it is overdrawn; return the refusal."""
    try:
        with throttle.attempt(kind, network, account, now) as attempt:
            attempt.count_wrong()
    except Throttled as refusal:
        return refusal
    return None


def accepted(throttle: Throttle, attempts: list[tuple[str, bytes, float]]) -> int:
    """Return how many of these wrong attempts are accepted."""
    return sum(fail(throttle, network, account, now) is None for network, account, now in attempts)


def test_person_who_mistypes_waits_a_minute_and_alone() -> None:
    throttle = Throttle()
    assert accepted(throttle, [("a", ANN, 0.0)] * 12) == OF_PAIR.attempts == 10
    refused = fail(throttle, now=15.0)
    assert refused is not None
    assert refused.headers == {"Retry-After": "45"}
    assert refused.body["detail"] == (
        "Request was throttled. Expected available in 45 seconds. At most 10 wrong attempts at one account "
        "from one address are accepted, and one more every 60 seconds."
    )
    assert fail(throttle, account=BOB, now=15.0) is None
    assert fail(throttle, network="b", now=15.0) is None
    assert fail(throttle, now=60.0) is None


def test_network_that_tries_many_accounts_is_overdrawn() -> None:
    throttle = Throttle()
    spray = [("a", account_key(f"{number}@example.com"), 0.0) for number in range(100)]
    assert accepted(throttle, spray) == OF_NETWORK.attempts == 30
    refused = fail(throttle)
    assert refused is not None
    assert refused.headers == {"Retry-After": "10"}
    assert "from one address are accepted, and one more every 10 seconds" in refused.body["detail"]
    assert fail(throttle, network="b") is None
    assert fail(throttle, now=10.0) is None


def test_account_guessed_from_many_networks_is_overdrawn() -> None:
    throttle = Throttle()
    assert accepted(throttle, [(str(number), ANN, 0.0) for number in range(100)]) == OF_ACCOUNT.attempts == 30
    refused = fail(throttle, network="b")
    assert refused is not None
    assert refused.headers == {"Retry-After": "20"}
    assert "at one account are accepted, and one more every 20 seconds" in refused.body["detail"]
    assert fail(throttle, network="b", account=BOB) is None


def test_one_network_cannot_overdraw_an_account() -> None:
    throttle, day = Throttle(), 86_400
    guesses = accepted(throttle, [("a", ANN, float(second)) for second in range(0, day, 5)])
    assert guesses == pytest.approx(10 + day / 60, abs=1)
    with throttle.attempt(PASSWORD, "b", ANN, day) as attempt:
        assert attempt.overdrawn is None


def test_many_networks_reach_the_stated_rate_and_no_more() -> None:
    throttle = Throttle()
    guesses = accepted(throttle, [(str(number), ANN, number / 10) for number in range(36_000)])
    assert guesses == pytest.approx(30 + 180, abs=1)


def test_right_attempts_cost_nothing() -> None:
    throttle = Throttle()
    for number in range(1000):
        with throttle.attempt(PASSWORD, "a", account_key(str(number % 7)), 0.0) as attempt:
            assert attempt.overdrawn is None
            assert attempt.rank == 0


def test_overdrawn_attempts_count_for_their_account_and_network() -> None:
    throttle = Throttle()
    for number in range(OF_ACCOUNT.attempts):
        fail(throttle, network=str(number))
    refusals = [fail(throttle, network="b") for _ in range(12)]
    seconds = [int(refusal.headers["Retry-After"]) for refusal in refusals if refusal]
    assert seconds == [20] * 10 + [60] * 2
    with throttle.attempt(PASSWORD, "c", ANN, 0.0) as attempt:
        assert attempt.overdrawn is not None  # and right: it leaves no trace
    assert fail(throttle, network="c", account=BOB) is None


def test_attempts_in_progress_are_limited() -> None:
    throttle = Throttle()
    with ExitStack() as attempts:
        for _ in range(MAX_IN_PROGRESS):
            attempts.enter_context(throttle.attempt(PASSWORD, "a", ANN, 0.0))
        refused = fail(throttle)
        assert refused is not None
        assert refused.headers == {"Retry-After": "1"}
        assert fail(throttle, account=BOB) is None
    assert repr(throttle) == "<Throttle: 1 networks, 2 accounts, 0 in progress>"


def test_attempts_in_progress_count_towards_the_wrong() -> None:
    throttle = Throttle()
    for _ in range(OF_PAIR.attempts - 1):
        fail(throttle)
    with throttle.attempt(PASSWORD, "a", ANN, 0.0) as attempt:
        assert attempt.rank == 2 * (OF_PAIR.attempts - 1)
        assert fail(throttle) is not None
    assert fail(throttle) is None


def test_codes_and_sign_ups_do_not_count_as_passwords() -> None:
    throttle = Throttle()
    for number in range(100):
        fail(throttle, network=str(number), kind=CODE)
        fail(throttle, kind=SIGN_UP)
    with throttle.attempt(PASSWORD, "a", ANN, 0.0) as attempt:
        assert attempt.overdrawn is None


def test_spellings_of_one_address_are_counted_together() -> None:
    spellings = ("admin@example.com", "ADMIN@Example.com", "adm\u0130n@example.com", "admin@example.\u212aom")
    assert len({account_key(text) for text in spellings[:3]}) == 1
    assert account_key(spellings[3]) != account_key(spellings[0])


def test_flood_of_accounts_and_networks_takes_bounded_memory() -> None:
    throttle = Throttle()
    for number in range(60_000):
        fail(throttle, str(number), account_key(str(number)), number / 1e6)
    assert repr(throttle) == "<Throttle: 50000 networks, 50000 accounts, 0 in progress>"
