"""Counters drop what is no longer counted."""

from collections import Counter

from supervisors.counts import decrement


def test_key_is_dropped_when_nothing_is_left() -> None:
    counter = Counter(a=1, b=3)
    decrement(counter, "a")
    decrement(counter, "b", 2)
    assert dict(counter) == {"b": 1}
