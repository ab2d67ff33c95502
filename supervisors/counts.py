"""Counters without entries for what is no longer counted."""

from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def decrement(counter: Counter[Key], key: Key, amount: int = 1) -> None:
    """Subtract from the count of a key, and drop the key if nothing is left."""
    counter[key] -= amount
    if not counter[key]:
        del counter[key]
