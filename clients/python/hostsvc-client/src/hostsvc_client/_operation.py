"""One row of the table of operations."""

from typing import NamedTuple


class Operation(NamedTuple):
    """Where an operation of the API is, and how it may be called."""

    method: str
    path: str
    is_repeatable: bool = False
    takes_key: bool = False
    is_paged: bool = False
    secrets: tuple[str, ...] = ()
