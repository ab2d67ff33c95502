"""Array parameters, told by their types.

asyncpg asks abstract classes of each element of an array whether it is an array itself, which takes more
than a quarter of the time of encoding it. It looks up the name of the first of these classes each time.
"""

from typing import Any, cast

from asyncpg.protocol import protocol

ARRAYS: tuple[type, ...] = (list, tuple, set, frozenset, type({}.keys()), type({}.values()))


def tell_arrays_by_type() -> None:
    """Let asyncpg accept these types as array parameters, and no others."""
    cast(Any, protocol).IterableABC = ARRAYS
