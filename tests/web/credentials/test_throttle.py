"""The limits on the attempts of one client."""

from contextlib import ExitStack

import pytest

from web.credentials.throttle import MAX_IN_PROGRESS, MAX_REFUSED, Throttle
from web.errors import Throttled


def refuse_attempt(throttle: Throttle, network: str, now: float) -> None:
    with throttle.attempt(network, now):
        throttle.count_refusal(network, now)


def test_throttle_opens_after_five_minutes() -> None:
    throttle = Throttle()
    for second in range(10):
        refuse_attempt(throttle, "a", second)
    with pytest.raises(Throttled) as refused, throttle.attempt("a", 10):
        pass
    assert refused.value.headers == {"Retry-After": "290"}
    refuse_attempt(throttle, "b", 10)
    refuse_attempt(throttle, "a", 300)


def test_attempts_in_progress_are_limited() -> None:
    throttle = Throttle()
    with ExitStack() as attempts:
        for _ in range(MAX_IN_PROGRESS):
            attempts.enter_context(throttle.attempt("a", 0))
        with pytest.raises(Throttled) as refused, throttle.attempt("a", 0):
            pass
        assert refused.value.headers == {"Retry-After": "1"}
        refuse_attempt(throttle, "b", 0)
    refuse_attempt(throttle, "a", 0)
    assert repr(throttle) == "<Throttle: 2 networks refused, 0 in progress>"


def test_attempts_in_progress_count_towards_the_refused() -> None:
    throttle = Throttle()
    for _ in range(MAX_REFUSED - 1):
        refuse_attempt(throttle, "a", 0)
    with throttle.attempt("a", 0):
        assert throttle.recent_attempts("a", 0) == MAX_REFUSED
        with pytest.raises(Throttled), throttle.attempt("a", 0):
            pass
